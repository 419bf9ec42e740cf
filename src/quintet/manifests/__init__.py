"""Declarations → the files that a cluster is given. Start at `__main__`."""
