package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The same children as quintet.controllers.jsonserver.decide.desired makes.

const (
	port = 3000
	// applied says what was applied, so that a second look costs no deep comparison.
	applied    = "quintet.dev/applied"
	configHash = "example.com/config-hash"
)

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

func labels(name string) map[string]string {
	return map[string]string{
		"app":                          name,
		"app.kubernetes.io/name":       "json-server",
		"app.kubernetes.io/instance":   name,
		"app.kubernetes.io/managed-by": "quintet",
		"app.kubernetes.io/part-of":    "quintet",
	}
}

func meta(server *JsonServer, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Namespace:   server.Namespace,
		Labels:      labels(server.Name),
		Annotations: map[string]string{applied: fmt.Sprintf("%s/%d", server.UID, server.Generation)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: groupVersion.String(), Kind: "JsonServer", Name: server.Name, UID: server.UID,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}},
	}
}

func configMap(server *JsonServer, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta(server, name),
		Data:       map[string]string{"db.json": server.Spec.JSONConfig},
	}
}

func service(server *JsonServer) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta(server, server.Name),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: map[string]string{"app": server.Name},
			Ports: []corev1.ServicePort{{
				Name: "http", Port: port, TargetPort: intstr.FromInt32(port), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
}

func deployment(server *JsonServer) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: meta(server, server.Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(server.Spec.Replicas),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": server.Name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      labels(server.Name),
					Annotations: map[string]string{configHash: hash(server.Spec.JSONConfig)},
				},
				Spec: pod(server),
			},
		},
	}
}

// pod is the product's own pod with the names of this object.
func pod(server *JsonServer) corev1.PodSpec {
	spec := template.Pod.DeepCopy()
	for i := range spec.Volumes {
		if source := spec.Volumes[i].ConfigMap; source != nil {
			source.Name = server.Name
		}
	}
	return *spec
}

// template holds what the product makes: read once, so that a change there is a change here.
var template struct {
	Pod    corev1.PodSpec   `json:"pod"`
	Status JsonServerStatus `json:"status"`
}

func readTemplate() error {
	return json.Unmarshal([]byte(os.Getenv("BENCH_TEMPLATE")), &template)
}

// jsonServerChildren is the work of the drain; tenfoldChildren that of the scale series.
func jsonServerChildren(server *JsonServer) []client.Object {
	return []client.Object{configMap(server, server.Name), service(server), deployment(server)}
}

func tenfoldChildren(server *JsonServer) []client.Object {
	children := make([]client.Object, 0, 10)
	for number := range 10 {
		children = append(children, configMap(server, fmt.Sprintf("%s-%d", server.Name, number)))
	}
	return children
}
