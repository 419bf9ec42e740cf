// Command kv writes and reads the key-value buckets of a NATS server, for examples, probes and tests.
//
// A put is answered by the server once it has stored the value, so what was put without an error is there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const usage = "usage: kv [-server URL] [-bucket NAME] [-replicas N] [-timeout 10s] put KEY VALUE | get KEY | list"

func main() {
	server := flag.String("server", nats.DefaultURL, "where the server is")
	bucket := flag.String("bucket", "records", "which bucket; the first put makes it")
	replicas := flag.Int("replicas", 1, "how many servers keep a bucket that is made")
	timeout := flag.Duration("timeout", 10*time.Second, "how long to wait for everything")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	if err := run(ctx, *server, *bucket, *replicas, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "kv:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, bucket string, replicas int, arguments []string) error {
	connection, err := nats.Connect(server)
	if err != nil {
		return err
	}
	defer connection.Close()
	stream, err := jetstream.New(connection)
	if err != nil {
		return err
	}
	switch {
	case len(arguments) == 3 && arguments[0] == "put":
		return put(ctx, stream, bucket, replicas, arguments[1], arguments[2])
	case len(arguments) == 2 && arguments[0] == "get":
		return get(ctx, stream, bucket, arguments[1])
	case len(arguments) == 1 && arguments[0] == "list":
		return list(ctx, stream, bucket)
	}
	return errors.New(usage)
}

func put(ctx context.Context, stream jetstream.JetStream, bucket string, replicas int, key, value string) error {
	found, err := stream.KeyValue(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		found, err = stream.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Replicas: replicas})
	}
	if err == nil {
		_, err = found.PutString(ctx, key, value)
	}
	return err
}

func get(ctx context.Context, stream jetstream.JetStream, bucket, key string) error {
	found, err := stream.KeyValue(ctx, bucket)
	if err != nil {
		return err
	}
	entry, err := found.Get(ctx, key)
	if err != nil {
		return err
	}
	fmt.Println(string(entry.Value()))
	return nil
}

// list prints every key with its value; a bucket that is not there has none.
func list(ctx context.Context, stream jetstream.JetStream, bucket string) error {
	found, err := stream.KeyValue(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	keys, err := found.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil
	}
	if err != nil {
		return err
	}
	sort.Strings(keys)
	for _, key := range keys {
		entry, err := found.Get(ctx, key)
		if err != nil {
			return err
		}
		fmt.Printf("%s=%s\n", key, entry.Value())
	}
	return nil
}
