"""The command `quintet` as a user runs it."""
