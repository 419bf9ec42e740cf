"""The suite operator: installs the controllers, keeps them up to date, and says how they are."""
