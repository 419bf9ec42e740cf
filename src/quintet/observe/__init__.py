"""Logs, metrics and health endpoints of a process."""
