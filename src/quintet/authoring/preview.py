"""The children that the controller would create for an object, from the same pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet import kinds

if TYPE_CHECKING:
    from quintet.apis.meta import JsonObject
    from quintet.controllers.preview import Images, Preview


def preview_children(obj: JsonObject, images: Images | None = None) -> Preview | None:
    """Return the children of an object with all defaults; None if it is not of one of our kinds."""
    from quintet.controllers.preview import Images, Preview

    kind = kinds.find(obj["apiVersion"], obj["kind"])
    if kind is None or not kind.preview:
        return None
    found = kinds.load(kind.preview)(obj, images or Images())
    assert isinstance(found, Preview)
    return found
