"""Applies CASConfigs to their targets, and takes them back again."""
