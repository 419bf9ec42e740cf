"""Runs checkups, judges them, and keeps what they found."""
