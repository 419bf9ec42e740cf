"""Wildcards in event types and subjects: `*` stands for one segment, `>` for one or more at the end. Pure."""

from collections.abc import Iterable
from itertools import zip_longest
from typing import Final

ONE: Final = "*"
REST: Final = ">"


def has_wildcard(pattern: str) -> bool:
    """Return whether a type or subject has wildcards."""
    return ONE in pattern or REST in pattern


def pattern_problem(pattern: str) -> str:
    """Return what is wrong with the wildcards of a type; empty if they are valid."""
    segments = pattern.split(".")
    if any(has_wildcard(each) and len(each) > 1 for each in segments):
        return "must have * and > only as whole segments"
    return "must have > only as the last segment" if REST in segments[:-1] else ""


def fits(pattern: str, text: str) -> bool:
    """Return whether a pattern stands for a type or subject without wildcards."""
    if not has_wildcard(pattern):
        return pattern == text
    wanted, given = pattern.split("."), text.split(".")
    if wanted[-1] == REST:
        if len(given) < len(wanted):
            return False
        wanted.pop()
        given = given[: len(wanted)]
    return len(wanted) == len(given) and all(a in (ONE, b) for a, b in zip(wanted, given, strict=True))


def overlap(one: str, other: str) -> bool:
    """Return whether two patterns stand for a common type or subject."""
    for a, b in zip_longest(one.split("."), other.split(".")):
        if a is None or b is None:
            return False
        if REST in (a, b):
            return True
        if a != b and ONE not in (a, b):
            return False
    return True


def cover(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return patterns that do not overlap and stand for at least as much as the given ones."""
    found = list(dict.fromkeys(patterns))
    if not any(map(has_wildcard, found)):
        return tuple(found)
    covering: list[str] = []
    for pattern in found:
        wide = pattern
        while (other := next((each for each in covering if overlap(each, wide)), None)) is not None:
            covering.remove(other)
            wide = _merge(other, wide)
        covering.append(wide)
    return tuple(covering)


def _merge(one: str, other: str) -> str:
    """Return a pattern that stands for everything that two patterns stand for."""
    merged: list[str] = []
    for a, b in zip_longest(one.split("."), other.split(".")):
        if a is None or b is None or REST in (a, b):
            return ".".join((*merged, REST))
        merged.append(a if a == b else ONE)
    return ".".join(merged)
