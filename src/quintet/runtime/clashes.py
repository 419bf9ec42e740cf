"""List items of others that cannot stand beside ours.

Server-side apply keeps what others add to a list. When somebody changes the *key* of an
item of ours (a Service's port number, say), the server sees theirs added and ours gone;
applying ours again gives both, and validation refuses two ports of one name. Then, and
only then, the list that the refusal names is put back as a whole. Pure; used by `apply`.
"""

import re
from typing import Any, NamedTuple

from quintet.apis.meta import JsonObject

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class Clash(NamedTuple):
    """A list to be replaced: where it is (a JSON pointer), and by what."""

    pointer: str
    items: list[Any]


def clash_at(field: str, live: JsonObject, wanted: JsonObject) -> Clash | None:
    """The innermost list of ours around a field such as `spec.ports[1].name`, if there is one."""
    theirs: Any = live
    ours: Any = wanted
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
