"""HTTP/1.1: a server with limits, client connections, and a connection pool."""
