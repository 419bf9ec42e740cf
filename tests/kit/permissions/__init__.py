"""Comparison of the permissions of our ServiceAccounts with their use."""
