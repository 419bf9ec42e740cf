// Command load publishes events over keep-alive connections as fast as they are answered.
//
// Requests are prepared bytes in which only the id changes, and of an answer only the status is
// read: on a small machine the sender must not be what is measured.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type options struct {
	address, run     string
	connections, all int
	size             int
	structured       bool
}

type result struct {
	Events   int     `json:"events"`
	Seconds  float64 `json:"seconds"`
	Failures int64   `json:"failures"`
	First    string  `json:"firstFailure"`
	Median   float64 `json:"p50Ms"`
	Slow     float64 `json:"p99Ms"`
}

func main() {
	var o options
	flag.StringVar(&o.address, "address", "", "host:port of the proxy")
	flag.StringVar(&o.run, "run", "run", "part of every id, so that no two runs have the same")
	flag.IntVar(&o.connections, "connections", 16, "requests at once")
	flag.IntVar(&o.all, "events", 10000, "how many in all")
	flag.IntVar(&o.size, "size", 256, "bytes of data")
	flag.BoolVar(&o.structured, "structured", false, "structured instead of binary events")
	flag.Parse()
	found, err := publish(o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func publish(o options) (*result, error) {
	var next, failures atomic.Int64
	var first atomic.Pointer[string]
	var group sync.WaitGroup
	times := make([][]float64, o.connections)
	connections := make([]net.Conn, o.connections)
	for number := range connections {
		connection, err := net.Dial("tcp", o.address)
		if err != nil {
			return nil, err
		}
		defer connection.Close()
		connections[number] = connection
	}
	start := time.Now()
	for number, connection := range connections {
		group.Add(1)
		go func() {
			defer group.Done()
			lines := bufio.NewReaderSize(connection, 4096)
			request := make([]byte, 0, 1024+o.size)
			for {
				event := next.Add(1)
				if event > int64(o.all) {
					return
				}
				request = o.request(request[:0], event)
				sent := time.Now()
				status, err := exchange(connection, lines, request)
				if err != nil || status != "204" {
					failures.Add(1)
					text := fmt.Sprint(status, " ", err)
					first.CompareAndSwap(nil, &text)
					if err != nil {
						return
					}
				}
				times[number] = append(times[number], float64(time.Since(sent).Microseconds())/1000)
			}
		}()
	}
	group.Wait()
	seconds := time.Since(start).Seconds()
	all := slices.Concat(times...)
	slices.Sort(all)
	found := &result{Events: len(all), Seconds: seconds, Failures: failures.Load()}
	if len(all) > 0 {
		found.Median, found.Slow = all[len(all)/2], all[len(all)*99/100]
	}
	if text := first.Load(); text != nil {
		found.First = *text
	}
	return found, nil
}

func (o options) request(into []byte, event int64) []byte {
	data := bytes.Repeat([]byte("x"), o.size)
	id := fmt.Sprintf("%s-%d", o.run, event)
	if o.structured {
		body := fmt.Sprintf(`{"specversion":"1.0","id":"%s","source":"/shop","type":"order.created.v1",`+
			`"time":"2030-01-01T00:00:00Z","datacontenttype":"application/json","data":{"text":"%s"}}`, id, data)
		return fmt.Appendf(into, "POST /publish HTTP/1.1\r\nHost: %s\r\nUser-Agent: load\r\n"+
			"Content-Type: application/cloudevents+json\r\nContent-Length: %d\r\n\r\n%s", o.address, len(body), body)
	}
	return fmt.Appendf(into, "POST /publish HTTP/1.1\r\nHost: %s\r\nUser-Agent: load\r\nCe-Specversion: 1.0\r\n"+
		"Ce-Id: %s\r\nCe-Source: /shop\r\nCe-Type: order.created.v1\r\nCe-Time: 2030-01-01T00:00:00Z\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"text\":\"%s\"}",
		o.address, id, len(data)+11, data)
}

// exchange sends a request and reads an answer that has no body, or one that is thrown away.
func exchange(connection net.Conn, lines *bufio.Reader, request []byte) (string, error) {
	if _, err := connection.Write(request); err != nil {
		return "", err
	}
	status, length := "", 0
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return status, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case status == "" && len(line) >= 12:
			status = string(line[9:12])
		case len(line) == 0:
			_, err := lines.Discard(length)
			return status, err
		default:
			name, value, _ := bytes.Cut(line, []byte(":"))
			if bytes.EqualFold(name, []byte("content-length")) {
				_, _ = fmt.Sscan(string(value), &length)
			}
		}
	}
}
