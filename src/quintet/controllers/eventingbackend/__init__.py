"""The EventingBackend controller: `controller` acts; `plan`, `desired`, `server` and `status` decide."""
