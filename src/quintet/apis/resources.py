"""How a kind of ours is declared to the API server: one frozen `CustomResource` beside its types.

Written in `apis/<kind>/`, listed in `registry`, turned into files by `manifests`.
"""

from dataclasses import dataclass

import msgspec

from quintet.apis.markers import Rule
from quintet.apis.meta import Resource

CATEGORY = "quintet"
"""`kubectl get quintet -A` lists everything of ours."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; a wide one appears with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False

    @classmethod
    def condition(cls, type: str, description: str = "") -> "Column":
        """Whether a condition holds."""
        return cls(type, f'.status.conditions[?(@.type=="{type}")].status', description=description)


AGE = Column("Age", ".metadata.creationTimestamp", type="date")


@dataclass(frozen=True, slots=True)
class Scale:
    """Where `kubectl scale` and autoscalers find their numbers."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str | None = ".status.selector"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResource:
    """All that the API server is told about a kind."""

    resource: Resource
    type: type[msgspec.Struct]
    """The struct of the whole object: `metadata`, `spec`, `status`."""
    spec_from: str = ""
    """The type of Kubernetes, as its OpenAPI document calls it, whose schema is that of `spec`."""
    parts_from: tuple[tuple[str, str], ...] = ()
    """Parts of the object, as `spec.items[].pod`, whose schema is that of a type of Kubernetes."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = (CATEGORY,)
    columns: tuple[Column, ...] = (AGE,)
    """In the order of the screen: narrow ones first."""
    status: bool = True
    scale: Scale | None = None
    selectable: tuple[str, ...] = ()
    """Paths that `--field-selector` knows."""
    rules: tuple[Rule, ...] = ()
    """CEL rules about the whole object; `self.metadata.name` is visible here only."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the definition itself."""
