"""How a kind says which rights its controller needs, and which its users must have. `manifests` makes
roles and admission policies of it.
"""

from dataclasses import dataclass

from quintet.apis.meta import Resource


@dataclass(frozen=True, slots=True)
class Right:
    """Some verbs on some resources of one API group, and why."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """A right that users must have themselves to set some fields, so that none is gained through us."""

    name: str
    """Of the policy, in DNS form."""
    resource: Resource
    fields: tuple[str, ...]
    """Below `spec`."""
    verb: str
    on: Resource
    """In the namespace of the object."""
    message: str
    or_use: str = ""
    """A field below `spec` that names a ServiceAccount: the right to `use` that one does as well."""
    when: str = ""
    """A CEL expression about `object`; where it does not hold, nothing is demanded."""
    expression: str = ""
    """A CEL expression that asks for the right by itself, where the names are not in one field."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Rights that the operator does without, unless somebody binds this role to it in a namespace."""

    name: str
    """Of the ClusterRole."""
    rights: tuple[Right, ...]
