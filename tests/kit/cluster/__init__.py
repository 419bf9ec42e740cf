"""The control plane under test: clients, identities, namespaces, a simulated node, webhooks."""
