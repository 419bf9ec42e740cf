"""The namespaces that the controllers watch, from the spec and the labels of all namespaces."""

from collections.abc import Iterable
from dataclasses import dataclass

from quintet.apis.meta import Object, ObjectKey
from quintet.apis.suite import QuintetSpec
from quintet.controllers.suite.decide.installation import ALL_NAMESPACES, Scope


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """What the operator reads of a namespace."""

    key: ObjectKey
    version: int
    labels: dict[str, str]
    deleting: bool


def namespace_of(view: Object) -> NamespaceInfo:
    """Return what the operator reads of a namespace."""
    meta = view.metadata
    return NamespaceInfo(view.key, view.version, meta.labels, meta.deleting)


def find_scope(spec: QuintetSpec, namespaces: Iterable[NamespaceInfo] | None) -> Scope:
    """Return the namespaces that a spec names or selects; None if it is unknown which exist."""
    if not spec.namespaces and spec.namespace_selector is None:
        return ALL_NAMESPACES
    if namespaces is None:
        return Scope(False, spec.namespaces)
    found = {each.key.name: each for each in namespaces}
    selected: set[str] = set()
    if (selector := spec.namespace_selector) is not None:
        selected = {name for name, each in found.items() if selector.matches(each.labels)}
    names = sorted(selected.union(spec.namespaces))
    missing = tuple(name for name in names if name not in found or found[name].deleting)
    return Scope(False, tuple(names), missing)
