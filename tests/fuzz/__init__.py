"""Fuzz targets for the parsers of this project: what a peer may send, and what must hold for any bytes.

Unit tests run every target on its corpus and on mutations of it. `make fuzz` runs campaigns that are guided by
coverage, and `python -m fuzz TARGET FILE` runs one target on one input.
"""
