"""Controller of Subscriptions: keeps their JetStream consumers."""
