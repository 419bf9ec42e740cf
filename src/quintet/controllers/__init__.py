"""One folder per kind: what it decides (pure) and what it does."""
