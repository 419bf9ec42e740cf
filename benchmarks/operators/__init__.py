"""Operators on Quintet's runtime that exist only to be measured."""
