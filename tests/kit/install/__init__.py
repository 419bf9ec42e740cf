"""Versions of the product and the methods to install them."""
