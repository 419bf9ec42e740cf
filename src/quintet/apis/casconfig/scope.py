"""In which namespaces a config may have targets. Pure."""

from typing import Final

from quintet.apis.casconfig.spec import CASConfigSpec, Level

PROTECTED: Final = "kube-system"
"""What runs there keeps the cluster alive."""


def namespaces_in_scope(spec: CASConfigSpec, own: str) -> tuple[str, ...] | None:
    """The namespaces in which to look for targets; None: all, and what is in no namespace."""
    if spec.scope.level is Level.CLUSTER:
        return spec.scope.namespaces or None
    return spec.scope.namespaces or (own,)


def out_of_scope(spec: CASConfigSpec, own: str, namespace: str, operator: str) -> str | None:
    """Why an object in a namespace (empty for one in none) is no target; None if it may be one."""
    if namespace and namespace == operator:
        return f"{namespace} is the namespace of the operator itself"
    if namespace == PROTECTED and spec.scope.level is Level.CLUSTER:
        return f"{namespace} is not part of level cluster"
    places = namespaces_in_scope(spec, own)
    if places is None or namespace in places:
        return None
    if not namespace:
        return "it is in no namespace, and spec.scope.level is namespace"
    return f"namespace {namespace} is not in the scope, which is {', '.join(places)}"
