"""The control plane of the embedded cluster: certificates, flags and processes."""
