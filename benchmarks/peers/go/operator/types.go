package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// JsonServerSpec holds the fields that this operator acts on.
type JsonServerSpec struct {
	JSONConfig string `json:"jsonConfig"`
	Replicas   int32  `json:"replicas"`
}

// JsonServerStatus is what every contender writes.
type JsonServerStatus struct {
	State              string             `json:"state,omitempty"`
	Message            string             `json:"message,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Selector           string             `json:"selector,omitempty"`
	ConfigHash         string             `json:"configHash,omitempty"`
	URL                string             `json:"url,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// JsonServer is the custom resource.
type JsonServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              JsonServerSpec   `json:"spec"`
	Status            JsonServerStatus `json:"status,omitempty"`
}

// JsonServerList is a list of them.
type JsonServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []JsonServer `json:"items"`
}

// DeepCopyObject copies a JsonServer.
func (in *JsonServer) DeepCopyObject() runtime.Object {
	out := *in
	out.ObjectMeta = *in.ObjectMeta.DeepCopy()
	out.Status.Conditions = append([]metav1.Condition(nil), in.Status.Conditions...)
	return &out
}

// DeepCopyObject copies a list.
func (in *JsonServerList) DeepCopyObject() runtime.Object {
	out := *in
	out.ListMeta = *in.ListMeta.DeepCopy()
	out.Items = make([]JsonServer, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*JsonServer)
	}
	return &out
}

func addToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &JsonServer{}, &JsonServerList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}
