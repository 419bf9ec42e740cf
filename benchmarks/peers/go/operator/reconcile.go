package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const fieldManager = "quintet-jsonserver"

type reconciler struct {
	client.Client
	apply    bool
	children func(*JsonServer) []client.Object
}

// Reconcile makes the children that are missing or differ, then says so in the status, once.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var server JsonServer
	if err := r.Get(ctx, request.NamespacedName, &server); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if server.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	for _, wanted := range r.children(&server) {
		if err := r.ensure(ctx, wanted); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.writeStatus(ctx, &server)
}

func (r *reconciler) ensure(ctx context.Context, wanted client.Object) error {
	found := reflect.New(reflect.TypeOf(wanted).Elem()).Interface().(client.Object)
	err := r.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	switch {
	case err == nil && same(found, wanted):
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err != nil && !r.apply:
		return client.IgnoreAlreadyExists(r.Create(ctx, wanted, client.FieldOwner(fieldManager)))
	}
	//nolint:staticcheck // the typed objects are shared with the other variant
	return r.Patch(ctx, wanted, client.Apply, client.FieldOwner(fieldManager), client.ForceOwnership)
}

// same looks at less than Quintet does: marks, owner and data, but not at every field of a spec.
func same(found, wanted client.Object) bool {
	if data, ok := wanted.(*corev1.ConfigMap); ok && !maps.Equal(found.(*corev1.ConfigMap).Data, data.Data) {
		return false
	}
	return maps.Equal(found.GetLabels(), wanted.GetLabels()) &&
		equality.Semantic.DeepEqual(found.GetOwnerReferences(), wanted.GetOwnerReferences())
}

func (r *reconciler) writeStatus(ctx context.Context, server *JsonServer) error {
	status := JsonServerStatus{
		State:              template.Status.State,
		Message:            template.Status.Message,
		ObservedGeneration: server.Generation,
		Selector:           "app=" + server.Name,
		ConfigHash:         hash(server.Spec.JSONConfig),
		URL:                fmt.Sprintf("http://%s.%s.svc:%d", server.Name, server.Namespace, port),
	}
	if server.Status.State == status.State && server.Status.ObservedGeneration == status.ObservedGeneration {
		return nil
	}
	now := metav1.Now()
	status.Conditions = append([]metav1.Condition(nil), template.Status.Conditions...)
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = now
		status.Conditions[i].ObservedGeneration = server.Generation
	}
	// What came from the cache is shared with it: the answer must not be decoded into that.
	after := server.DeepCopyObject().(*JsonServer)
	after.Status = status
	return r.Status().Patch(ctx, after, client.MergeFrom(server), client.FieldOwner(fieldManager))
}
