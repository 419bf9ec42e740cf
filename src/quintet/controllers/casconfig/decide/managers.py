"""Field managers of an object, read from `metadata.managedFields`."""

import json
from collections.abc import Iterable
from typing import Any

from quintet.apis.casconfig.places import IDENTITIES, Path, absolute, from_text
from quintet.apis.meta import JsonObject


def last_manager(obj: JsonObject, paths: Iterable[str], pod: Path | None, ours: str) -> str:
    """Return the field manager of one of the paths; the last writer if no manager owns any of them."""
    others = [each for each in obj["metadata"].get("managedFields") or () if each.get("manager") != ours]
    others.sort(key=lambda each: str(each.get("time") or ""), reverse=True)
    for text in paths:
        path = absolute(from_text(text), pod)
        for each in others:
            if path is not None and not each.get("subresource") and _owns(each.get("fieldsV1") or {}, path):
                return str(each.get("manager"))
    # A removed field has no owner.
    return next((str(each["manager"]) for each in others if not each.get("subresource")), "")


def _owns(fields: Any, path: Path) -> bool:
    before = ""
    for step in path:
        if not isinstance(fields, dict):
            return False
        key = _item(fields, step) if before in IDENTITIES else f"f:{step}"
        if key is None or key not in fields:
            return False
        fields, before = fields[key], step
    return True


def _item(fields: dict[str, Any], step: str) -> str | None:
    """Return the managedFields key (`k:{...}`) of a list item."""
    for key in fields:
        if key.startswith("k:") and step in map(str, json.loads(key[2:]).values()):
            return key
    return None
