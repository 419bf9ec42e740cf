// Command kube is every program of a small Kubernetes cluster in one binary.
//
// It acts as the program it is called by: a symbolic link named kube-apiserver
// is the API server, one named etcd is etcd, and so on. One binary links the
// shared libraries once, which makes the build several times shorter and
// smaller than separate programs.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func run(command *cobra.Command) { os.Exit(cli.Run(command)) }

// runKubectl prints an error once, in kubectl's own words.
func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() { run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy":              func() { run(proxy.NewProxyCommand()) },
	"kubectl":                 runKubectl,
}

func main() {
	name := filepath.Base(os.Args[0])
	program, known := programs[name]
	if !known {
		names := make([]string, 0, len(programs))
		for name := range programs {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "%s: call this binary by one of these names: %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	program()
}
