"""The types that all Kubernetes objects share, as small structs.

This module imports no other module of ours. A struct declares only the fields that we read; decoding
skips all others, which keeps decoding fast and caches small.
"""

from typing import Any, NamedTuple

import msgspec

JsonObject = dict[str, Any]
"""A decoded JSON object of any schema."""


class Resource(NamedTuple):
    """A resource of the API: everything that its URLs need."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Return `plural.group`, as in the name of a CRD."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object, or of its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            root += f"/namespaces/{namespace}"
        return "/".join(part for part in (root, self.plural, name, subresource) if part)


class ObjectKey(NamedTuple):
    """Namespace (empty for cluster-scoped types) and name of an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Struct(msgspec.Struct, rename="camel", omit_defaults=True, gc=False, frozen=True):
    """Base of all API types: immutable, camelCase on the wire, defaults omitted.

    Subclasses repeat `frozen=True`, because type checkers do not inherit it.
    """


class OwnerReference(Struct, frozen=True, omit_defaults=False):
    """A reference to an owner, as in `metav1.OwnerReference`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True):
    """The metadata that controllers use; `runtime.ownership` reads `managedFields`."""

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
        """Return namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        """Return whether the object is being deleted."""
        return self.deletion_timestamp is not None


class Condition(Struct, frozen=True, omit_defaults=False):
    """A condition, as in `metav1.Condition`."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


def find_condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """Return the condition of a type; None if there is none."""
    return next((condition for condition in conditions if condition.type == kind), None)


class Object(Struct, frozen=True):
    """Base of the types of whole objects; used directly where only metadata matters."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> ObjectKey:
        """Return namespace and name."""
        return self.metadata.key

    @property
    def version(self) -> int:
        """Return its resourceVersion; since Kubernetes 1.35 these are comparable numbers."""
        return int(self.metadata.resource_version)
