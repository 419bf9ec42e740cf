"""Builders, controllers and wait functions for the objects of each kind."""
