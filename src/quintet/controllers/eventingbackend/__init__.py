"""Controller of EventingBackends: probes them and runs publishers and dispatchers."""
