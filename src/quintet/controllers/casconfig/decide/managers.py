"""Who changed a field last, as the API server has written it down on the object. Pure."""

import json
from collections.abc import Iterable
from typing import Any

from quintet.apis.casconfig.places import IDENTITIES, Path, absolute, from_text
from quintet.apis.meta import JsonObject


def last_manager(obj: JsonObject, paths: Iterable[str], pod: Path | None, ours: str) -> str:
    """The manager that has set one of these paths; if none owns any, the one that wrote last."""
    others = [each for each in obj["metadata"].get("managedFields") or () if each.get("manager") != ours]
    others.sort(key=lambda each: str(each.get("time") or ""), reverse=True)
    for text in paths:
        path = absolute(from_text(text), pod)
        for each in others:
            if path is not None and not each.get("subresource") and _owns(each.get("fieldsV1") or {}, path):
                return str(each.get("manager"))
    # A field that was removed has no owner.
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
    """The key of a list item, which names it by the fields that tell items apart."""
    for key in fields:
        if key.startswith("k:") and step in map(str, json.loads(key[2:]).values()):
            return key
    return None
