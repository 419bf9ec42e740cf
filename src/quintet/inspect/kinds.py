"""Finds a kind of Quintet by the names that users type: `js`, `jsonservers`, `JsonServer`, `checkup/hello`.

The kinds are imported when they are needed, because they import every controller.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

from quintet import kinds as registry

if TYPE_CHECKING:
    from quintet.apis.meta import Resource
    from quintet.apis.resources import CustomResource


class UnknownKind(ValueError):
    """The typed text names no kind or object of Quintet."""


class ObjectName(NamedTuple):
    """A kind, and the name of one object of it."""

    kind: CustomResource
    name: str


def all_kinds() -> tuple[CustomResource, ...]:
    """Return all kinds of Quintet, in display order."""
    return tuple(registry.load(kind.declaration) for kind in registry.all_kinds())


def is_same_kind(one: Resource, other: Resource) -> bool:
    """Return whether two types have the same group and kind, in any version."""
    return (one.group, one.kind) == (other.group, other.kind)


def kind_names(kind: CustomResource) -> tuple[str, ...]:
    """Return all names of a kind in lower case; the first is the preferred one."""
    resource = kind.resource
    singular, group = resource.kind.lower(), resource.group
    names = (singular, resource.plural, *kind.short_names, resource.qualified, f"{singular}.{group}")
    return tuple(dict.fromkeys(names))


def find_kind(word: str) -> CustomResource:
    """Return the kind with this name, ignoring case."""
    by_name = {name: kind for kind in all_kinds() for name in kind_names(kind)}
    found = by_name.get(word.lower())
    if found is not None:
        return found
    nearest = difflib.get_close_matches(word.lower(), by_name, n=1)
    if nearest:
        hint = f"did you mean '{nearest[0]}'?"
    else:
        hint = f"choose from {', '.join(kind_names(kind)[0] for kind in all_kinds())}"
    raise UnknownKind(f"unknown kind '{word}': {hint}")


def parse_object(typed: tuple[str, ...]) -> ObjectName:
    """Return the object of `KIND NAME` or `KIND/NAME`."""
    parts = tuple(typed[0].split("/")) if len(typed) == 1 else typed
    if len(parts) != 2 or not all(parts) or "/" in "".join(parts):
        shown = " ".join(typed) or "nothing"
        raise UnknownKind(f"'{shown}' names no object: write KIND NAME or KIND/NAME, such as checkup/hello")
    return ObjectName(find_kind(parts[0]), parts[1])


def parse_name(kind: str, typed: tuple[str, ...]) -> str:
    """Return the name of an object of one kind, from `NAME`, `KIND NAME` or `KIND/NAME`."""
    if len(typed) == 1 and "/" not in typed[0]:
        return typed[0]
    found = parse_object(typed)
    if found.kind.resource.kind != kind:
        raise UnknownKind(f"'{' '.join(typed)}' is a {found.kind.resource.kind}: name a {kind}")
    return found.name
