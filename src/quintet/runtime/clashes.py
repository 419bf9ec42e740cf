"""Finds lists in which an item of another manager conflicts with one of ours.

Server-side apply keeps what others add to a list. When somebody changes the *key* of an item of ours (such
as the port number of a Service), the server sees one item added and ours removed; applying ours again gives
both, and validation rejects two ports of one name. Then the controller replaces the list
that the error names.
"""

import re
from typing import Any, NamedTuple

from quintet.apis.meta import JsonObject

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class Clash(NamedTuple):
    """A list to replace: its JSON pointer and its new items."""

    pointer: str
    items: list[Any]


def find_clash(field: str, live: JsonObject, desired: JsonObject) -> Clash | None:
    """Return the innermost list of ours around a field such as `spec.ports[1].name`, if there is one."""
    theirs: Any = live
    ours: Any = desired
    pointer = ""
    found = None
    for name, index in _STEP.findall(field):
        if name:
            if not isinstance(ours, dict) or name not in ours or not isinstance(theirs, dict):
                break
            ours, theirs = ours[name], theirs.get(name)
            pointer += "/" + name.replace("~", "~0").replace("/", "~1")
        else:
            if not isinstance(ours, list) or not isinstance(theirs, list):
                break
            found = Clash(pointer, ours)
            position = int(index)
            if position >= len(theirs):
                break
            theirs = theirs[position]
            ours = next((item for item in ours if _same(item, theirs)), None)
            pointer += f"/{position}"
    return found


def _same(ours: Any, theirs: Any) -> bool:
    return isinstance(ours, dict) and isinstance(theirs, dict) and ours.get("name") == theirs.get("name")
