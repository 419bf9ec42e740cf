"""Operators on Quintet's runtime for benchmarks only."""
