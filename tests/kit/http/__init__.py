"""An HTTP client, a sink and a load generator."""
