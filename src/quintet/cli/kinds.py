"""What people type → one of our kinds: `js`, `jsonservers`, `JsonServer`, and with a name `checkup/hello`.

Called by every command that works on objects of ours. The kinds are those of `components`, and the
Quintet. They come with every controller, so they are imported when they are asked for: whoever asks
for help need not wait.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from quintet.apis.meta import Resource
    from quintet.apis.resources import CustomResource


class Named(NamedTuple):
    """A kind, and the name of one object of it."""

    kind: CustomResource
    name: str


def known() -> tuple[CustomResource, ...]:
    """All kinds of ours, in the order in which they are listed."""
    from quintet.apis.suite import QUINTET
    from quintet.components import CUSTOM_RESOURCES

    return (QUINTET, *CUSTOM_RESOURCES)


def same_kind(one: Resource, other: Resource) -> bool:
    """Whether two types are the same, in whichever version."""
    return (one.group, one.kind) == (other.group, other.kind)


def words(kind: CustomResource) -> tuple[str, ...]:
    """All that a kind can be called, in small letters; the first one is what we call it."""
    resource = kind.resource
    singular, group = resource.kind.lower(), resource.group
    names = (singular, resource.plural, *kind.short_names, resource.qualified, f"{singular}.{group}")
    return tuple(dict.fromkeys(names))


def kind_of(word: str) -> CustomResource:
    """The kind that is meant; how it is written in capitals does not matter."""
    called = {name: kind for kind in known() for name in words(kind)}
    found = called.get(word.lower())
    if found is not None:
        return found
    nearest = difflib.get_close_matches(word.lower(), called, n=1)
    if nearest:
        hint = f"did you mean '{nearest[0]}'?"
    else:
        hint = f"there are {', '.join(words(kind)[0] for kind in known())}"
    raise click.UsageError(f"there is no kind '{word}' of ours: {hint}")


def object_of(typed: tuple[str, ...]) -> Named:
    """The object that is meant by `KIND NAME` or `KIND/NAME`."""
    parts = tuple(typed[0].split("/")) if len(typed) == 1 else typed
    if len(parts) != 2 or not all(parts) or "/" in "".join(parts):
        shown = " ".join(typed) or "nothing"
        raise click.UsageError(f"'{shown}' is no object: write KIND NAME or KIND/NAME, such as checkup/hello")
    return Named(kind_of(parts[0]), parts[1])
