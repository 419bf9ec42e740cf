"""Installs, upgrades, checks and removes Quintet."""
