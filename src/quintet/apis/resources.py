"""`CustomResource`: what the CRD of a kind contains, declared beside its types.

`manifests` generates the CRDs from it.
"""

from dataclasses import dataclass

import msgspec

from quintet.apis.markers import Rule
from quintet.apis.meta import Resource

CATEGORY = "quintet"
"""`kubectl get quintet -A` lists everything of ours."""


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column of `kubectl get`; a wide one appears only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False

    @classmethod
    def condition(cls, type: str, description: str = "") -> "Column":
        """Return a printer column with the status of a condition."""
        return cls(type, f'.status.conditions[?(@.type=="{type}")].status', description=description)


AGE = Column("Age", ".metadata.creationTimestamp", type="date")


@dataclass(frozen=True, slots=True)
class Scale:
    """The paths of the scale subresource."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str | None = ".status.selector"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResource:
    """The declaration of a kind: everything that its CRD contains."""

    resource: Resource
    type: type[msgspec.Struct]
    """The struct of the whole object: `metadata`, `spec`, `status`."""
    spec_from: str = ""
    """The Kubernetes type, by its OpenAPI name, whose schema `spec` has."""
    parts_from: tuple[tuple[str, str], ...] = ()
    """Parts of the object, such as `spec.items[].pod`, that have the schema of a Kubernetes type."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = (CATEGORY,)
    columns: tuple[Column, ...] = (AGE,)
    """In display order: narrow ones first."""
    status: bool = True
    scale: Scale | None = None
    selectable: tuple[str, ...] = ()
    """The selectable fields, for `--field-selector`."""
    rules: tuple[Rule, ...] = ()
    """CEL rules of the whole object; only these can use `self.metadata.name`."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the CRD itself."""

    @property
    def finalizer(self) -> str:
        """The finalizer of its controller, if that has one."""
        return f"{self.resource.group}/{self.resource.kind.lower()}"
