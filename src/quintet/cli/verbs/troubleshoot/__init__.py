"""Verbs that help to find errors."""
