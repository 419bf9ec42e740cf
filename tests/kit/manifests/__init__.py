"""Readers and checkers of generated manifests."""
