"""A real node for the embedded cluster: namespaces, cgroups, containerd, kubelet and volumes."""
