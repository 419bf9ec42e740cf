"""A NATS client: connection, request and reply, JetStream."""
