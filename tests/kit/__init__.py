"""Shared test code: a real control plane, builders, wait functions and a fault proxy."""
