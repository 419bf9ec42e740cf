// Command replay sends prepared requests over keep-alive connections: what the servers can do at most.
//
// The plan on standard input has one JSON array of requests per line. A line is one unit of work: its
// requests are sent in order by one connection. The measure is written to standard output as JSON.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

type request struct {
	Method      string          `json:"method"`
	Path        string          `json:"path"`
	ContentType string          `json:"contentType"`
	Body        json.RawMessage `json:"body"`
}

type options struct {
	server, ca, cert, key string
	watches               []string
	connections           int
	rate                  float64
	stay                  bool
}

type result struct {
	Seconds   float64   `json:"seconds"`
	Failures  int64     `json:"failures"`
	First     string    `json:"firstFailure"`
	Latencies []float64 `json:"latenciesMs"`
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", "", "https://host:port")
	flag.StringVar(&o.ca, "ca", "", "file of the authority")
	flag.StringVar(&o.cert, "cert", "", "file of the client's certificate")
	flag.StringVar(&o.key, "key", "", "file of the client's key")
	flag.IntVar(&o.connections, "connections", 16, "requests at once")
	flag.Float64Var(&o.rate, "rate", 0, "units per second; 0: as fast as they are answered")
	flag.BoolVar(&o.stay, "stay", false, "stay when done, so that what was used can be counted")
	flag.Func("watch", "a path to watch meanwhile, read and thrown away; may be repeated", func(path string) error {
		o.watches = append(o.watches, path)
		return nil
	})
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options) error {
	plan, err := read(os.Stdin)
	if err != nil {
		return err
	}
	client, err := connect(o)
	if err != nil {
		return err
	}
	// As every contender has its connections open before it begins, so has this one.
	warm(client, o)
	if err := watch(o); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(send(client, o, plan)); err != nil {
		return err
	}
	if o.stay {
		select {}
	}
	return nil
}

// watch opens the watches that every operator needs; nobody decodes what they bring.
func watch(o options) error {
	client, err := connect(options{ca: o.ca, cert: o.cert, key: o.key, connections: len(o.watches)})
	if err != nil {
		return err
	}
	client.Timeout = 0
	for _, path := range o.watches {
		outgoing, err := http.NewRequest(http.MethodGet, o.server+path, nil)
		if err != nil {
			return err
		}
		outgoing.Header.Set("Accept", "application/json")
		response, err := client.Do(outgoing)
		if err != nil {
			return err
		}
		go func() { _, _ = io.Copy(io.Discard, response.Body) }()
	}
	return nil
}

func read(from io.Reader) (plan [][]request, err error) {
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var unit []request
			if err := json.Unmarshal(line, &unit); err != nil {
				return nil, err
			}
			plan = append(plan, unit)
		}
		if err == io.EOF {
			return plan, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func connect(o options) (*http.Client, error) {
	config := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"http/1.1"}}
	authority, err := os.ReadFile(o.ca)
	if err != nil {
		return nil, err
	}
	config.RootCAs.AppendCertsFromPEM(authority)
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{
		TLSClientConfig: config, MaxIdleConns: o.connections, MaxIdleConnsPerHost: o.connections,
		MaxConnsPerHost: o.connections, DisableCompression: true,
	}
	return &http.Client{Transport: transport, Timeout: time.Minute}, nil
}

func warm(client *http.Client, o options) {
	var wait sync.WaitGroup
	for range o.connections {
		wait.Go(func() {
			if response, err := client.Get(o.server + "/version"); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	wait.Wait()
}

func send(client *http.Client, o options, plan [][]request) result {
	var next, failures atomic.Int64
	var first atomic.Value
	latencies := make([]float64, len(plan))
	begin := time.Now()
	var wait sync.WaitGroup
	for range o.connections {
		wait.Go(func() {
			for {
				number := int(next.Add(1)) - 1
				if number >= len(plan) {
					return
				}
				due := begin
				if o.rate > 0 {
					due = begin.Add(time.Duration(float64(number) / o.rate * float64(time.Second)))
					time.Sleep(time.Until(due))
				} else {
					due = time.Now()
				}
				for _, each := range plan[number] {
					if problem := one(client, o.server, each); problem != "" {
						failures.Add(1)
						first.CompareAndSwap(nil, problem)
					}
				}
				// From when it was due, so that a server that falls behind cannot hide it.
				latencies[number] = float64(time.Since(due).Microseconds()) / 1000
			}
		})
	}
	wait.Wait()
	words, _ := first.Load().(string)
	return result{time.Since(begin).Seconds(), failures.Load(), words, latencies}
}

func one(client *http.Client, server string, r request) string {
	outgoing, err := http.NewRequest(r.Method, server+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return err.Error()
	}
	outgoing.Header.Set("Content-Type", r.ContentType)
	outgoing.Header.Set("Accept", "application/json")
	response, err := client.Do(outgoing)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		words, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Sprintf("%s %s: %d %s", r.Method, r.Path, response.StatusCode, words)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return ""
}
