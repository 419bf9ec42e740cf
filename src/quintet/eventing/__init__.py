"""The data plane of events: what takes them in, what delivers them, and what both agree on."""
