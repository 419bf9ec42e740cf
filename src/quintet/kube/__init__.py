"""The Kubernetes client: configuration, credentials, transport, typed client, errors."""
