"""How we talk to the API server: configuration, transport, typed client, errors."""
