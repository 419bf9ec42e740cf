"""Webhooks of our kinds: what is refused, warned about and filled in before an object is stored."""
