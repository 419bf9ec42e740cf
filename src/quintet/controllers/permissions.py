"""Declarations of the RBAC permissions that controllers need and that users must have."""

from dataclasses import dataclass

from quintet.apis.meta import Resource


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on resources of one API group, with the reason why a controller needs them."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    everywhere: bool = False
    """Whether it is granted in the whole cluster even if the controller watches some namespaces only: for
    cluster-scoped types, and to remove a finalizer in a namespace whose Roles are already deleted."""


@dataclass(frozen=True, slots=True)
class UserRequirement:
    """A permission that users must have to set some fields, so that they cannot escalate through us."""

    name: str
    """Name of the ValidatingAdmissionPolicy."""
    resource: Resource
    fields: tuple[str, ...]
    """Fields below `spec`."""
    verb: str
    on: Resource
    """The resource that the verb applies to, in the object's namespace."""
    message: str
    annotations: tuple[str, ...] = ()
    """Annotations that act like a field: setting them to a new value requires the permission as well."""
    or_use: str = ""
    """A field below `spec` that names a ServiceAccount: permission to `use` it is sufficient as well."""
    when: str = ""
    """A CEL expression over `object`; the requirement applies only where it is true."""
    expression: str = ""
    """A CEL expression that replaces the check, for names that are not in a single field."""


@dataclass(frozen=True, slots=True)
class OptionalRole:
    """A ClusterRole that the operator works without; administrators may bind it in a namespace."""

    name: str
    permissions: tuple[Permission, ...]
