"""The demo: install Quintet, run one object of each kind, clean up."""
