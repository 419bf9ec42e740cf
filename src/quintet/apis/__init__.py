"""What users write: types, bounds, defaults and validation of every kind. No I/O, no clock."""
