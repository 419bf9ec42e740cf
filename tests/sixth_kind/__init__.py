"""A sixth kind, Greeting, which owns a ConfigMap: everything that adding a kind to the product takes."""
