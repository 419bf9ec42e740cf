"""How we talk to NATS: connection, requests, JetStream."""
