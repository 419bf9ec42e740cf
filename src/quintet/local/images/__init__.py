"""Builds the container images that a node runs, without a registry."""
