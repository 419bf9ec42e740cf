"""Where in an object a value is, when items of lists are known by what they are and not by their index.

`containers/web/env/LEVEL` is the variable LEVEL of the container web, wherever both stand in their lists.
Paths begin at the pod (`containers`, `initContainers`, `tolerations`) or at the metadata of the object
(`labels`, `annotations`); nothing else of an object can be named by one. Pure; used by all that reads or
changes an object here.
"""

import json
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from quintet.apis.meta import JsonObject

Path = tuple[str, ...]
"""Relative to the pod or to the metadata, as above; or, once `absolute`, from the top of the object."""


class Absent(Enum):
    """See `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""Stands for: there is no value. `null` is one."""

METADATA_ROOTS: Final = ("labels", "annotations")
CONTAINER_LISTS: Final = ("initContainers", "containers")
POD_ROOTS: Final = (*CONTAINER_LISTS, "tolerations")


def _by(field: str) -> Callable[[JsonObject], str]:
    def named(item: JsonObject) -> str:
        name = item.get(field, "")
        return name if isinstance(name, str) else _whole(name)

    return named


def _port(item: JsonObject) -> str:
    return f"{item.get('containerPort')}/{item.get('protocol') or 'TCP'}"


def _whole(item: Any) -> str:
    # The API server drops what is empty, and it is the same item then.
    if isinstance(item, dict):
        item = {key: value for key, value in item.items() if value not in (None, "")}
    return json.dumps(item, sort_keys=True, separators=(",", ":"))


IDENTITIES: Final[dict[str, Callable[[Any], str]]] = {
    "containers": _by("name"),
    "initContainers": _by("name"),
    "env": _by("name"),
    "volumeMounts": _by("mountPath"),
    "volumeDevices": _by("devicePath"),
    "ports": _port,
    "tolerations": _whole,
}
"""The lists whose items are known by something, and by what."""


def identity(field: str, item: Any) -> str:
    """What an item of such a list is known by."""
    return IDENTITIES[field](item) if isinstance(item, dict) else _whole(item)


def names_item(path: Path) -> bool:
    """Return whether a path is that of an item of a list, and not of a field."""
    if path[0] not in POD_ROOTS:
        return False
    return len(path) == 2 or (len(path) == 4 and path[2] in IDENTITIES)


def copy_value(value: Any) -> Any:
    """A JSON value of its own, down to the bottom."""
    if isinstance(value, dict):
        return {key: copy_value(item) for key, item in value.items()}
    return [copy_value(item) for item in value] if isinstance(value, list) else value


def as_text(path: Path) -> str:
    """A path as ledgers, status and messages have it; escaped as in a JSON pointer."""
    return "/".join(step.replace("~", "~0").replace("/", "~1") for step in path)


def from_text(text: str) -> Path:
    """The opposite of `as_text`."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/"))


def absolute(path: Path, pod: Path | None) -> Path | None:
    """A path from the top of the object; None if it is about pods and the object has none."""
    if path[0] in METADATA_ROOTS:
        return ("metadata", *path)
    return (*pod, *path) if pod is not None else None


class _Items:
    """What the items of one list are known by, and where they stand; found once, and kept up to date."""

    def __init__(self, items: list[Any], field: str) -> None:
        self.items = items
        self.names = [identity(field, item) for item in items]
        self._places: dict[str, int] | None = None

    def index(self, name: str) -> int | None:
        """Return where an item stands."""
        if self._places is None:
            # Of two variables of one name, Kubernetes takes the last.
            self._places = {name: at for at, name in enumerate(self.names)}
        return self._places.get(name)

    def insert(self, at: int, name: str, item: Any) -> None:
        """Add an item."""
        if at == len(self.names) and self._places is not None:
            self._places[name] = at
        else:
            self._places = None
        self.names.insert(at, name)
        self.items.insert(at, item)

    def remove(self, at: int) -> None:
        """Remove an item."""
        if self._places is not None and at == len(self.names) - 1 == len(self._places) - 1:
            del self._places[self.names[at]]
        else:
            self._places = None
        del self.names[at], self.items[at]


class Subject:
    """A copy of an object that is being rewritten. All paths are absolute."""

    def __init__(self, obj: JsonObject) -> None:
        self.object: JsonObject = {**obj, "metadata": {**(obj.get("metadata") or {})}}
        self._lists: dict[int, _Items] = {}
        """By the id of a list, which lives as long as its items here."""
        # The rest is never changed by a path, and much of it is large.
        for holder, names in ((self.object, ("spec",)), (self.object["metadata"], METADATA_ROOTS)):
            for name in names:
                if name in holder:
                    holder[name] = copy_value(holder[name])

    def get(self, path: Path) -> Any:
        """The value at a path, or `ABSENT`."""
        node: Any = self.object
        field = ""
        for step in path:
            at = self._at(node, field, step)
            if at is None:
                return ABSENT
            node, field = node[at], step
        return node

    def index(self, path: Path) -> int | None:
        """Where in its list the item at a path stands; None for what is in no list."""
        items = self._items(path[:-1])
        return items.index(path[-1]) if items is not None else None

    def before(self, path: Path) -> list[str] | None:
        """What stands before an item in its list; None for what is in no list, or not there."""
        items = self._items(path[:-1])
        index = items.index(path[-1]) if items is not None else None
        return items.names[:index] if items is not None and index is not None else None

    def index_after(self, path: Path, names: list[str]) -> int | None:
        """Where in its list an item stands that comes after these; None if none of them is there."""
        if not names:
            return 0
        items = self._items(path[:-1])
        if items is None:
            return None
        if items.names and items.names[-1] == names[-1]:
            return len(items.names)
        found = [items.index(name) for name in names]
        return max((index + 1 for index in found if index is not None), default=None)

    def put(self, path: Path, value: Any, at: int | None = None) -> int | None:
        """Set a value; a new item goes to the end of its list, or to `at`.

        Returns how many maps and lists had to be made around it. None, and nothing done: the item of
        a list that it would be in is not there, or something is in the way that has no such places.
        """
        holder, made = self._holder(path[:-1])
        if holder is None:
            return None
        value = copy_value(value)  # what is set inside it later is not part of what was given
        if isinstance(holder, list):
            items = self._known(holder, path[-2])
            index = items.index(path[-1])
            if index is not None:
                holder[index] = value
            else:
                items.insert(len(holder) if at is None else min(at, len(holder)), path[-1], value)
        else:
            holder[path[-1]] = value
        return made

    def remove(self, path: Path, made: int = 0) -> None:
        """Take a value away, and so many of the maps and lists around it as it leaves empty."""
        holder = self.get(path[:-1])
        field = path[-2] if len(path) > 1 else ""
        at = self._at(holder, field, path[-1])
        if isinstance(at, int):
            self._known(holder, field).remove(at)
        elif at is not None:
            del holder[at]
        if made and holder in ({}, []) and len(path) > 1:
            self.remove(path[:-1], made - 1)

    def _holder(self, path: Path) -> tuple[Any, int]:
        """What is at a path, made if it is not there yet."""
        node: Any = self.object
        field, made = "", 0
        for step in path:
            at = self._at(node, field, step)
            if at is None or node[at] is None:
                if not isinstance(node, dict):
                    return None, made
                node[step] = [] if step in IDENTITIES and field not in METADATA_ROOTS else {}
                at, made = step, made + 1
            node, field = node[at], step
        return (node, made) if _has_places(node, field) else (None, made)

    def _at(self, node: Any, field: str, step: str) -> str | int | None:
        """The key or index under which a step goes on from here; None if there is none."""
        if not _has_places(node, field):
            return None
        if isinstance(node, dict):
            return step if step in node else None
        return self._known(node, field).index(step)

    def _items(self, path: Path) -> _Items | None:
        node = self.get(path)
        return self._known(node, path[-1]) if isinstance(node, list) and _has_places(node, path[-1]) else None

    def _known(self, items: list[Any], field: str) -> _Items:
        known = self._lists.get(id(items))
        if known is None:
            known = self._lists[id(items)] = _Items(items, field)
        return known


def _has_places(node: Any, field: str) -> bool:
    """Whether a path can go on from here: the items of other lists are known by nothing."""
    return isinstance(node, dict) or (isinstance(node, list) and field in IDENTITIES)
