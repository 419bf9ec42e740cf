// Command operator is a tuned controller-runtime operator that does what Quintet's does for a JsonServer.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	selection "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const selector = "app.kubernetes.io/name=json-server,app.kubernetes.io/managed-by=quintet"

type options struct {
	kubeconfig, namespace string
	apply, tenfold        bool
	workers               int
}

func main() {
	var o options
	flags := flag.NewFlagSet("operator", flag.ExitOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "the cluster")
	flags.StringVar(&o.namespace, "namespace", "", "one namespace, or all")
	flags.BoolVar(&o.apply, "apply", false, "create by server-side apply instead of POST")
	flags.BoolVar(&o.tenfold, "tenfold", false, "ten ConfigMaps per object instead of the usual children")
	flags.IntVar(&o.workers, "workers", 16, "reconciles at once")
	_ = flags.Parse(os.Args[1:])
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options) error {
	ctrl.SetLogger(logr.Discard())
	if err := readTemplate(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	addToScheme(scheme)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   caching(o),
	})
	if err != nil {
		return err
	}
	if err := control(mgr, o); err != nil {
		return err
	}
	_ = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for _, kind := range []client.Object{&JsonServer{}, &corev1.ConfigMap{}} {
			if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil { // waits until it is filled
				return err
			}
		}
		fmt.Fprintln(os.Stderr, "Caches synced")
		return nil
	}))
	return mgr.Start(ctrl.SetupSignalHandler())
}

// caching keeps only our own children, without what nobody reads, and hands them out uncopied.
func caching(o options) cache.Options {
	ours, _ := selection.Parse(selector)
	only := cache.ByObject{Label: ours}
	uncopied := true
	options := cache.Options{
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: &uncopied,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: only, &corev1.Service{}: only, &appsv1.Deployment{}: only,
		},
	}
	if o.namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	return options
}

func control(mgr ctrl.Manager, o options) error {
	// The creation of a child is our own doing: waking the owner for it would double the work.
	news := builder.WithPredicates(predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }})
	r := &reconciler{Client: mgr.GetClient(), apply: o.apply, children: jsonServerChildren}
	work := ctrl.NewControllerManagedBy(mgr).Named("jsonserver").
		For(&JsonServer{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}, news).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.workers})
	if o.tenfold {
		r.children = tenfoldChildren
		return work.Complete(r)
	}
	return work.Owns(&corev1.Service{}, news).Owns(&appsv1.Deployment{}, news).Complete(r)
}
