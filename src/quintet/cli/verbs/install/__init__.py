"""Verbs that install, upgrade and remove Quintet."""
