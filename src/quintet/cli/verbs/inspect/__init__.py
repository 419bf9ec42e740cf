"""Verbs that show objects."""
