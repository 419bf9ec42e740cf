"""Support bundles: what a cluster says about Quintet, without secrets."""
