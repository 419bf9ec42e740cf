"""Verbs that create and change objects."""
