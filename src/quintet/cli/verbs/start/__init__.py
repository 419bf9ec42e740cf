"""Verbs to get started."""
