"""Several lists of rules → the shortest list that grants the same. Called by `operator`.

Whoever grants rights must hold them: the operator's role is the union of the roles that it makes, and
this is where that union is taken. A wildcard is refused, for nothing of ours may hold one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from quintet.apis.meta import JsonObject

Grant = tuple[str, str, str, str]
"""Group, resource, verb, and the one name that it is for; empty for all names."""
_ORDER = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


def grants(rules: Iterable[JsonObject]) -> Iterator[Grant]:
    """Every single right in a list of rules."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    if "*" in (group, resource, verb):
                        raise ValueError(f"nothing of ours may hold a wildcard: {rule}")
                    for name in rule.get("resourceNames", [""]):
                        yield group, resource, verb, name


def union(rules: Iterable[JsonObject]) -> list[JsonObject]:
    """The same rights, each once. What is granted for all names is not granted for some of them again."""
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
