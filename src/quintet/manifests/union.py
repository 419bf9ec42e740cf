"""The union of RBAC rules.

RBAC only lets the operator grant permissions that it has itself: its role contains the union of the roles
that it creates. Wildcards are not allowed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from quintet.apis.meta import JsonObject

Grant = tuple[str, str, str, str]
"""API group, resource, verb and resource name; an empty name means all names."""
_ORDER = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


def grants(rules: Iterable[JsonObject]) -> Iterator[Grant]:
    """Yield every single permission in a list of rules."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    if "*" in (group, resource, verb):
                        raise ValueError(f"a role must not contain a wildcard: {rule}")
                    for name in rule.get("resourceNames", [""]):
                        yield group, resource, verb, name


def union(rules: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the shortest list of rules with the same permissions."""
    held = set(grants(rules))
    named: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for group, resource, verb, name in held:
        if name == "" or (group, resource, verb, "") not in held:
            named[group, resource, verb].add(name)
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = defaultdict(set)
    for (group, resource, verb), names in named.items():
        verbs[group, resource, tuple(sorted(names))].add(verb)
    together: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource, only), held_verbs in sorted(verbs.items()):
        together[group, only, tuple(sorted(held_verbs, key=_position))].append(resource)
    return [
        _rule(group, resources, names, ordered) for (group, names, ordered), resources in together.items()
    ]


def _position(verb: str) -> tuple[int, str]:
    return (_ORDER.index(verb) if verb in _ORDER else len(_ORDER), verb)


def _rule(group: str, resources: list[str], names: tuple[str, ...], verbs: tuple[str, ...]) -> JsonObject:
    rule: JsonObject = {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
    return rule if names == ("",) else {**rule, "resourceNames": list(names)}
