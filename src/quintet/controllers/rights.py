"""How a controller says which rights it needs. `manifests` makes roles of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Right:
    """Some verbs on some resources of one API group, and why."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
