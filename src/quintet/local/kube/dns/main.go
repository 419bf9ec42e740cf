// Command dns is CoreDNS with only the plugins a cluster's own names need.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dns COREFILE")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dns:", err)
		os.Exit(1)
	}
}

func serve(path string) error {
	contents, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	caddy.Quiet = true
	server, err := caddy.Start(caddy.CaddyfileInput{Contents: contents, Filepath: path, ServerTypeName: "dns"})
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	<-signals
	return server.Stop()
}
