"""How objects relate: owners, owned objects, and those that an object works with, as a tree."""
