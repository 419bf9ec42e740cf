"""The Subscription controller: `controller` acts by `hands`, `status` and `sinks` decide."""
