"""What users need to write manifests: read, validate, preview and compare them, create starter manifests."""
