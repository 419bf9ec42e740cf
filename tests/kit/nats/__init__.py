"""NATS and SAP Event Mesh servers, publishers and dispatchers."""
