"""The API types of every kind with their bounds, defaults and validation. No I/O, no clock."""
