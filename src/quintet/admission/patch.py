"""The patch of a mutating webhook, and whether two values are the same: both as `apis.jsonpatch` has them."""

from quintet.apis.jsonpatch import diff, same

__all__ = ["diff", "same"]
