"""The publisher proxy: receives CloudEvents over HTTP and responds when the backend has stored them."""
