"""The embedded Kubernetes cluster: a control plane for tests, a real node for the demo.

Called by the command line and by tests through `cluster.up` and `cluster.down`.
Reading path: `cluster` → `build` → `controlplane` → `process`; with a node also
`node` → `namespace` → `images` → `storage`.
"""
