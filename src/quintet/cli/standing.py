"""How an object of ours stands, from its conditions and the columns of its kind. Pure.

Called by `status`, `tree` and `explain`. No kind has code here: which conditions there are and how they
depend on each other is one table, and what else is worth knowing is what `kubectl get` would show.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from quintet.apis.meta import Condition
from quintet.apis.steering import SUSPENDED

if TYPE_CHECKING:
    from quintet.apis.meta import JsonObject
    from quintet.apis.resources import CustomResource

HEADLINES = ("Ready", "Available", "Succeeded")
"""The condition that sums up all others; every kind has one of these."""
CAUSES = ("Blocked", "Conflicted", "RolledBack", "Degraded", "Failed")
"""Conditions that tell of trouble when they are true; others depend on them."""
ACTIVITIES = ("Running", "Progressing")
"""Conditions that are neither good nor bad."""
AFTERWARDS = ("Verified",)
"""Conditions that wait for the one that sums up."""
_STEP = re.compile(r'\.(\w+)|\[\?\(@\.type=="([^"]+)"\)\]')


class Mark(StrEnum):
    """What to think of a condition."""

    GOOD = "ok"
    BAD = "wrong"
    OPEN = "open"
    NEUTRAL = "-"


@dataclass(frozen=True, slots=True)
class Standing:
    """How one object stands."""

    kind: str
    namespace: str
    name: str
    headline: str
    """The condition that sums up the others."""
    ready: str
    """True, False or Unknown, as its conditions say."""
    reason: str
    message: str
    created: str
    deleting: bool
    suspended: bool
    generation: int
    observed: int
    conditions: tuple[Condition, ...]
    facts: tuple[tuple[str, str], ...]

    @property
    def typed(self) -> str:
        """How to name it to a command."""
        return f"{self.kind.lower()}/{self.name}"

    @property
    def current(self) -> bool:
        """Whether the controller has seen the last change."""
        return self.observed >= self.generation

    @property
    def verdict(self) -> str:
        """The short answer, in the word of the condition that sums up: ready, available, succeeded."""
        word = self.headline.lower()
        return {"True": word, "False": f"not {word}"}.get(self.ready, f"not yet {word}")


def standing(kind: CustomResource, obj: JsonObject) -> Standing:
    """How an object stands, as far as it says."""
    meta, status = obj.get("metadata") or {}, obj.get("status") or {}
    conditions = in_order(tuple(map(_condition, status.get("conditions") or ())))
    headline = next((each for each in conditions if each.type in HEADLINES), None)
    deleting = bool(meta.get("deletionTimestamp"))
    return Standing(
        kind=kind.resource.kind,
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        headline=headline.type if headline else HEADLINES[0],
        ready=headline.status if headline else "Unknown",
        reason=headline.reason if headline else "NoStatus",
        message=headline.message if headline else "its controller has said nothing about it yet",
        created=meta.get("creationTimestamp") or "",
        deleting=deleting,
        suspended=(meta.get("annotations") or {}).get(SUSPENDED) == "true" and not deleting,
        generation=int(meta.get("generation") or 0),
        observed=int(status.get("observedGeneration") or 0),
        conditions=conditions,
        facts=facts(kind, obj),
    )


def mark(condition: Condition) -> Mark:
    """What to think of a condition."""
    if condition.type in ACTIVITIES:
        return Mark.NEUTRAL
    if condition.status not in ("True", "False"):
        return Mark.OPEN
    return Mark.GOOD if (condition.status == "True") != (condition.type in CAUSES) else Mark.BAD


def in_order(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Those first on which others depend: causes, activities, parts, the sum of it, what comes afterwards."""

    def place(condition: Condition) -> int:
        for number, types in enumerate((CAUSES, ACTIVITIES)):
            if condition.type in types:
                return number
        return 4 if condition.type in AFTERWARDS else 3 if condition.type in HEADLINES else 2

    return tuple(sorted(conditions, key=place))


def remarks(found: Standing) -> list[str]:
    """What one should know before reading the conditions."""
    said = []
    if found.deleting:
        said.append("it is being deleted")
    if found.suspended:
        said.append("it is suspended: its controller leaves it alone until `quintet resume`")
    if not found.current:
        seen = f"generation {found.generation}, seen {found.observed}"
        said.append(f"the controller has not seen the last change ({seen})")
    return said


def facts(kind: CustomResource, obj: JsonObject) -> tuple[tuple[str, str], ...]:
    """What `kubectl get -o wide` would show besides conditions, messages and the age."""
    shown = []
    for column in kind.columns:
        if "conditions[" in column.path or column.type == "date" or column.path == ".status.message":
            continue
        value = at(obj, column.path)
        if value not in (None, ""):
            shown.append((column.name, _text(value)))
    return tuple(shown)


def at(obj: Any, path: str) -> Any:
    """What stands at the path of a column; None if nothing does."""
    for match in _STEP.finditer(path):
        field, type = match.groups()
        if field is not None:
            obj = obj.get(field) if isinstance(obj, dict) else None
        else:
            items = obj if isinstance(obj, list) else ()
            obj = next((each for each in items if isinstance(each, dict) and each.get("type") == type), None)
    return obj


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _condition(raw: JsonObject) -> Condition:
    return Condition(
        type=str(raw.get("type") or ""),
        status=str(raw.get("status") or "Unknown"),
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or ""),
        last_transition_time=str(raw.get("lastTransitionTime") or ""),
    )
