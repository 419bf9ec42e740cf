"""Suite operator: installs and updates the controllers, and reports their status."""
