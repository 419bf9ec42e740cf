"""Builds the programs of Kubernetes from source, and gets the tools and packages needed for it."""
