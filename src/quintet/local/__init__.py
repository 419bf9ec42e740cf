"""The embedded Kubernetes cluster: a control plane for tests, and a real node for the demo."""
