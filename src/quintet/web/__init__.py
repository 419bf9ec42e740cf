"""HTTP/1.1 on llhttp: the connection that sends requests, the server that answers them."""
