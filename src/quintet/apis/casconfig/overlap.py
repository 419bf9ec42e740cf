"""Policies of one config that set the same on the same objects: allowed, but the later one wins. Pure."""

from collections.abc import Iterator
from itertools import combinations

import msgspec

from quintet.apis.casconfig.kinds import parse_kind
from quintet.apis.casconfig.spec import CASConfigSpec, Include, Policy, Values
from quintet.apis.meta import JsonObject


def overlaps(obj: JsonObject) -> Iterator[str]:
    """Warnings about an object that is known to be well written."""
    spec = msgspec.convert(obj.get("spec") or {}, CASConfigSpec)
    for first, second in combinations(spec.policies, 2):
        both = _both_set(first, second)
        if both and not _apart(first.include, second.include):
            yield (
                f"policies {first.name} and {second.name} may have the same targets and both set "
                f"{', '.join(both)}: {second.name} wins"
            )


def _both_set(first: Policy, second: Policy) -> list[str]:
    """What both set, to different values."""
    one, other = _set_by(first.values), _set_by(second.values)
    return [what for what, value in one.items() if what in other and other[what] != value]


def _set_by(values: Values) -> dict[str, object]:
    found: dict[str, object] = {}
    found |= {f"label {key}": value for key, value in values.labels.items()}
    found |= {f"annotation {key}": value for key, value in values.annotations.items()}
    found |= {f"variable {name}": value for name, value in values.envs.items()}
    found |= {f"{source.to_type} {source.to_key}": source for source in values.sources}
    found |= {f"container {each.get('name')}": each for each in (*values.containers, *values.sidecars)}
    if values.containers:
        found["all containers"] = values.containers
    if values.main is not None:
        found["the main container"] = values.main
    return found


def _apart(one: Include, other: Include) -> bool:
    """Whether no object can be a target of both, as far as can be told from what was written."""
    named = (one.names, other.names)
    globs = any("*" in name for names in named for name in names)
    return (
        _disjoint(tuple(map(_kind, one.kinds)), tuple(map(_kind, other.kinds)))
        or _disjoint(one.namespaces, other.namespaces)
        or _disjoint(one.service_accounts, other.service_accounts)
        or (not globs and _disjoint(*named))
        or _contradict(one.labels, other.labels)
        or _contradict(one.annotations, other.annotations)
    )


def _kind(text: str) -> str:
    found = parse_kind(text)
    return found.kind if found is not None else text


def _disjoint(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return bool(one and other) and set(one).isdisjoint(other)


def _contradict(one: dict[str, str], other: dict[str, str]) -> bool:
    return any(other.get(key, value) != value for key, value in one.items())
