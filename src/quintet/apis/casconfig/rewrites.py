"""What is to become of an object, and what is known about the values that configs have set on it. Pure."""

from typing import Any, NamedTuple

from quintet.apis.casconfig.ledger import Contest, Entry
from quintet.apis.casconfig.places import Path
from quintet.apis.meta import JsonObject, ObjectKey


class Found(NamedTuple):
    """How a value that was set looks on an object."""

    value: Any
    before: list[str] | None = None
    """What stands before it, if it is an item of a list."""


class Setting(NamedTuple):
    """One value to be set, or with `ABSENT` to be removed."""

    path: Path
    value: Any
    at: int | None = None
    """Where in its list a new item goes; left out, to the end."""


def least_size(setting: Setting) -> int:
    """Return how many bytes the ledger needs for a setting at least."""
    value = setting.value
    text = value.get("value") if isinstance(value, dict) else value
    return sum(len(step) + 1 for step in setting.path) + (len(text) if isinstance(text, str) else 0)


class Recorded(NamedTuple):
    """One value of a layer as it was, so that it can be restored later."""

    entry: Entry
    held: bool
    """Whether it was there; else others had changed it."""
    found: Found | None
    gone: bool = False
    """Whether others have removed the container that it is: what they bring later is theirs."""


class RecordedLayer(NamedTuple):
    """The layer of a config on one object, so that it can be restored later."""

    layer: int
    values: tuple[Recorded, ...]
    order: dict[tuple[ObjectKey, Path], list[str]]
    """What stood before the items that other configs have added to lists."""
    contest: Contest | None = None


class Left(NamedTuple):
    """A path that does not hold what was set there: somebody has changed it since, so it stays."""

    path: str
    found: Any
    """What is there now, or `ABSENT`."""


class Rewrite(NamedTuple):
    """What is to become of an object."""

    patch: tuple[JsonObject, ...]
    """One JSON patch, ledgers included, that the server refuses (409) if the object has changed since it
    was read. Empty: nothing to do."""
    object: JsonObject
    """The object as it is then."""
    paths: tuple[str, ...] = ()
    """What the config holds on it then."""
    left: tuple[Left, ...] = ()
    """What the config had set, somebody else has changed, and now stays as they left it."""
    retaken: tuple[str, ...] = ()
    """What the config had set, somebody else has changed, and is now set again."""
    dropped: tuple[str, ...] = ()
    """What others have added to a container that the config has brought, and that is removed or replaced."""
    rounds: int = 0
    """How often others have changed what this generation of the config had set, with this time."""
    recorded: int = 0
    """The rounds of this generation before."""
