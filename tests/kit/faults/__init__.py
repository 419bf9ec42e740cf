"""Fault injection between an operator and its API server."""
