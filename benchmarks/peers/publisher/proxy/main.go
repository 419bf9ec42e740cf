// Command proxy takes CloudEvents in over HTTP and answers 204 when JetStream has acknowledged them.
//
// Plain net/http and nats.go, written for the comparison: the same checks, subject, headers and
// answers as the publisher proxy of Quintet, and nothing that it does not do.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const largest = 64 * 1024

var (
	inSource = strings.NewReplacer(" ", "", ".", "", ">", "", "*", "", "/", "", "\\", "")
	inType   = strings.NewReplacer(" ", "", ">", "", "*", "", "/", "", "\\", "")
	tracing  = []string{"Traceparent", "Tracestate", "B3"}
)

type event struct {
	id, source, kind string
	header           nats.Header
	data             []byte
}

type proxy struct {
	stream nats.JetStreamContext
	prefix string
	wait   time.Duration
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	server := flag.String("nats", nats.DefaultURL, "the NATS server")
	prefix := flag.String("prefix", "kyma", "the first part of subjects")
	flag.Parse()
	connection, err := nats.Connect(*server, nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	stream, err := connection.JetStream()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("POST /publish", &proxy{stream: stream, prefix: *prefix, wait: 5 * time.Second})
	log.Fatal((&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}).Serve(listener))
}

func (p *proxy) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(answer, request.Body, largest))
	if err != nil {
		http.Error(answer, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	found, err := read(request.Header, body)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	kind := inType.Replace(found.kind)
	for _, segment := range strings.Split(kind, ".") {
		if segment == "" {
			http.Error(answer, "type: MUST NOT have empty segments", http.StatusBadRequest)
			return
		}
	}
	found.header["ce-originaltype"] = found.header["ce-type"]
	found.header["ce-type"] = []string{kind}
	for _, name := range tracing {
		if value := request.Header.Get(name); value != "" {
			found.header[name] = []string{value}
		}
	}
	message := &nats.Msg{
		Subject: p.prefix + "." + inSource.Replace(found.source) + "." + kind,
		Header:  found.header,
		Data:    found.data,
	}
	_, err = p.stream.PublishMsg(message, nats.MsgId(found.source+"/"+found.id), nats.AckWait(p.wait))
	if err != nil {
		status := http.StatusBadGateway
		if errors.Is(err, nats.ErrNoStreamResponse) || errors.Is(err, nats.ErrTimeout) {
			status = http.StatusGatewayTimeout
		}
		http.Error(answer, err.Error(), status)
		return
	}
	answer.WriteHeader(http.StatusNoContent)
}

// read gives the event of a request in structured or binary form.
func read(header http.Header, body []byte) (*event, error) {
	found := &event{header: make(nats.Header, 12), data: body}
	contentType := header.Get("Content-Type")
	if strings.HasPrefix(contentType, "application/cloudevents+json") {
		if err := found.structured(body); err != nil {
			return nil, err
		}
	} else {
		for name, values := range header {
			if strings.HasPrefix(name, "Ce-") {
				found.header[strings.ToLower(name)] = values
			}
		}
		if contentType != "" {
			found.header["content-type"] = []string{contentType}
		}
	}
	found.id, found.source, found.kind = found.value("ce-id"), found.value("ce-source"), found.value("ce-type")
	switch {
	case found.id == "":
		return nil, errors.New("id: MUST be a non-empty string")
	case found.source == "":
		return nil, errors.New("source: MUST be a non-empty URI-reference")
	case found.kind == "":
		return nil, errors.New("type: MUST be a non-empty string")
	case found.value("ce-specversion") != "1.0":
		return nil, errors.New("specversion: MUST be 1.0")
	}
	if at := found.value("ce-time"); at != "" {
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			return nil, errors.New("time: MUST be a timestamp as in RFC 3339")
		}
	}
	return found, nil
}

func (e *event) value(name string) string {
	if values := e.header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func (e *event) structured(body []byte) error {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &members); err != nil {
		return err
	}
	e.data = members["data"]
	delete(members, "data")
	for name, raw := range members {
		var value string
		if err := json.Unmarshal(raw, &value); err != nil {
			return fmt.Errorf("%s: MUST be a string", name)
		}
		if name == "datacontenttype" {
			e.header["content-type"] = []string{value}
		} else {
			e.header["ce-"+name] = []string{value}
		}
	}
	return nil
}
