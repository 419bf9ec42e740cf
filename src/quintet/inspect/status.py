"""The status of a Quintet object, from its conditions and the printer columns of its kind. Pure.

No kind has code here: the conditions and their order are tables for all kinds.
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

SUMMARY_CONDITIONS = ("Ready", "Available", "Succeeded")
"""Conditions that summarize all others; every kind has one of them."""
PROBLEM_CONDITIONS = ("Blocked", "Conflicted", "RolledBack", "Degraded", "Failed")
"""Conditions that report a problem when they are true; others depend on them."""
ACTIVITY_CONDITIONS = ("Running", "Progressing")
"""Conditions that report an activity, which is neither good nor bad."""
LATE_CONDITIONS = ("Verified",)
"""Conditions that are set after the summary."""
_PATH_STEP = re.compile(r'\.(\w+)|\[\?\(@\.type=="([^"]+)"\)\]')


class Rating(StrEnum):
    """Whether a condition is as it should be; `open`: not known yet."""

    GOOD = "ok"
    BAD = "wrong"
    OPEN = "open"
    NEUTRAL = "-"


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The status of one object."""

    kind: str
    namespace: str
    name: str
    headline: str
    """The type of the summary condition."""
    ready: str
    """The status of the summary condition: True, False or Unknown."""
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
        """The object as KIND/NAME, as users type it."""
        return f"{self.kind.lower()}/{self.name}"

    @property
    def current(self) -> bool:
        """Whether the controller has observed the last change of the spec."""
        return self.observed >= self.generation

    @property
    def rating(self) -> Rating:
        """Whether the object is as it should be."""
        return {"True": Rating.GOOD, "False": Rating.BAD}.get(self.ready, Rating.OPEN)

    @property
    def verdict(self) -> str:
        """The summary in words, such as `ready`, `not available` or `not yet succeeded`."""
        word = self.headline.lower()
        return {"True": word, "False": f"not {word}"}.get(self.ready, f"not yet {word}")


def read_status(kind: CustomResource, obj: JsonObject) -> ObjectStatus:
    """Return the status of an object."""
    meta, status = obj.get("metadata") or {}, obj.get("status") or {}
    conditions = sort_conditions(tuple(map(_condition, status.get("conditions") or ())))
    headline = next((each for each in conditions if each.type in SUMMARY_CONDITIONS), None)
    deleting = bool(meta.get("deletionTimestamp"))
    return ObjectStatus(
        kind=kind.resource.kind,
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        headline=headline.type if headline else SUMMARY_CONDITIONS[0],
        ready=headline.status if headline else "Unknown",
        reason=headline.reason if headline else "NoStatus",
        message=headline.message if headline else "its controller has not written a status yet",
        created=meta.get("creationTimestamp") or "",
        deleting=deleting,
        suspended=(meta.get("annotations") or {}).get(SUSPENDED) == "true" and not deleting,
        generation=int(meta.get("generation") or 0),
        observed=int(status.get("observedGeneration") or 0),
        conditions=conditions,
        facts=facts(kind, obj),
    )


def rate_condition(condition: Condition) -> Rating:
    """Return whether a condition is as it should be."""
    if condition.type in ACTIVITY_CONDITIONS:
        return Rating.NEUTRAL
    if condition.status not in ("True", "False"):
        return Rating.OPEN
    return (
        Rating.GOOD if (condition.status == "True") != (condition.type in PROBLEM_CONDITIONS) else Rating.BAD
    )


def sort_conditions(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return causes first: problems, activities, details, the summary, and what follows the summary."""

    def place(condition: Condition) -> int:
        for number, types in enumerate((PROBLEM_CONDITIONS, ACTIVITY_CONDITIONS)):
            if condition.type in types:
                return number
        return 4 if condition.type in LATE_CONDITIONS else 3 if condition.type in SUMMARY_CONDITIONS else 2

    return tuple(sorted(conditions, key=place))


def status_remarks(found: ObjectStatus) -> list[str]:
    """Return remarks about deletion, suspension and an outdated status."""
    found_remarks = []
    if found.deleting:
        found_remarks.append("it is being deleted")
    if found.suspended:
        found_remarks.append("it is suspended: its controller skips it until `quintet resume`")
    if not found.current:
        generations = f"generation {found.generation}, observed {found.observed}"
        found_remarks.append(f"the controller has not observed the last change ({generations})")
    return found_remarks


def facts(kind: CustomResource, obj: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return the values that `kubectl get -o wide` shows besides conditions, message and age."""
    shown = []
    for column in kind.columns:
        if "conditions[" in column.path or column.type == "date" or column.path == ".status.message":
            continue
        value = read_path(obj, column.path)
        if value not in (None, ""):
            shown.append((column.name, _text(value)))
    return tuple(shown)


def read_path(obj: Any, path: str) -> Any:
    """Return the value at the JSON path of a printer column; None if there is none."""
    for match in _PATH_STEP.finditer(path):
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
