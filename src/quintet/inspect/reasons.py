"""What each reason of each kind means and what to do about it, from the tables of the documentation."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from importlib.resources import files

from quintet import kinds

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class ReasonEntry:
    """A reason of a kind."""

    kind: str
    """Empty if every kind has it."""
    reason: str
    condition: str
    """The condition, verdict or action that has the reason; may be empty."""
    meaning: str
    action: str
    """What to do; may be empty."""
    link: str
    """The section of the documentation."""


def all_reasons() -> tuple[ReasonEntry, ...]:
    """Return the reasons of all kinds."""
    return tuple(entry for entries in _by_reason().values() for entry in entries)


def find_reason(kind: str, reason: str, condition: str = "") -> ReasonEntry | None:
    """Return the entry of a reason, if possible of this condition; None if it is not documented."""
    found = _by_reason().get((kind, reason)) or _by_reason().get(("", reason)) or []
    return next((each for each in found if each.condition == condition), found[0] if found else None)


def find_page(kind: str, reason: str) -> str:
    """Return the section that explains a reason, or else the page of the kind."""
    found = find_reason(kind, reason)
    return found.link if found else kind_page(kind)


def kind_page(kind: str) -> str:
    """Return the documentation page of a kind."""
    return next(each.docs_page for each in kinds.all_kinds() if each.name == kind)


@functools.cache
def _by_reason() -> dict[tuple[str, str], list[ReasonEntry]]:
    found: dict[tuple[str, str], list[ReasonEntry]] = {}
    for each in json.loads(files("quintet.inspect").joinpath("reasons.json").read_text(encoding="utf-8")):
        plain = each | {key: _LINK.sub(r"\1", each[key]) for key in ("meaning", "action")}
        found.setdefault((each["kind"], each["reason"]), []).append(ReasonEntry(**plain))
    return found
