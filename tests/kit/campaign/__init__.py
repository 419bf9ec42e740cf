"""Campaigns: inputs generated from the declarations of our kinds, and what must hold for each."""
