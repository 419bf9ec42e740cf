"""The publisher proxy: takes CloudEvents in over HTTP and answers when the backend has them."""
