"""The parts that every Kubernetes object has, as small typed structs.

Everyone imports this module; it imports nobody. A struct names only the fields
that are read here: whatever else an object holds is skipped while decoding, which
is what keeps decoding fast and caches small.
"""

from typing import Any, NamedTuple

import msgspec

JsonObject = dict[str, Any]
"""A decoded JSON object whose shape is somebody else's business."""


class Resource(NamedTuple):
    """What to call a type of object in the API: enough to build every URL for it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name a CRD, a log line or an RBAC rule knows it by: `plural.group`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            root += f"/namespaces/{namespace}"
        return "/".join(part for part in (root, self.plural, name, subresource) if part)


class ObjectKey(NamedTuple):
    """Where an object is: its namespace (empty for cluster-scoped types) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Struct(msgspec.Struct, rename="camel", omit_defaults=True, gc=False, frozen=True):
    """Base of all API types: immutable, camelCase on the wire, defaults left out.

    Subclasses repeat `frozen=True`, because type checkers do not inherit it.
    """


class OwnerReference(Struct, frozen=True, omit_defaults=False):
    """A pointer to the object that this one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True):
    """The metadata that controllers act on. Who manages which field is read in `runtime.ownership`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None

    @property
    def key(self) -> ObjectKey:
        """Where the object is."""
        return ObjectKey(self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for the object to be deleted."""
        return self.deletion_timestamp is not None


class Condition(Struct, frozen=True, omit_defaults=False):
    """One observation about an object, as in `metav1.Condition`."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


def find_condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of a type."""
    return next((condition for condition in conditions if condition.type == kind), None)


class Object(Struct, frozen=True):
    """Base of the types of whole objects; by itself, one of which only the metadata matters."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> ObjectKey:
        """Where the object is."""
        return self.metadata.key

    @property
    def version(self) -> int:
        """Its resourceVersion; the API server promises that these grow (since Kubernetes 1.35)."""
        return int(self.metadata.resource_version)
