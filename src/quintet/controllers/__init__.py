"""Controllers: one package per kind, its pure decisions in `decide`."""
