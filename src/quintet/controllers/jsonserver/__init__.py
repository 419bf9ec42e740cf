"""The JsonServer controller: `controller` acts, `desired` and `status` decide."""
