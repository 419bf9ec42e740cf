"""Status of a CASConfig, from the steps and their outcome."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from quintet.apis.casconfig import (
    CASConfig,
    CASConfigStatus,
    ConditionType,
    PlannedChange,
    Target,
    TargetState,
)
from quintet.apis.casconfig.ledger import PREFIX
from quintet.apis.casconfig.types import MOST_LISTED, MOST_PATHS, MOST_PLANNED, Reach
from quintet.apis.jsonpatch import diff
from quintet.apis.meta import Condition, JsonObject
from quintet.apis.text import truncate
from quintet.controllers.casconfig.decide.plan import Reason, Step, kind_name

Entry = TypeVar("Entry", Target, PlannedChange)

_LONGEST_DIFF = 8192
_LONGEST = 1024
_MOST_BYTES = 384 * 1024
"""Of the listed targets, and of the plan: etcd refuses objects of more than 1.5 MiB."""
_TROUBLED = (TargetState.FAILED, TargetState.CONTESTED, TargetState.LEFT, TargetState.SKIPPED)


@dataclass(frozen=True, slots=True)
class Report:
    """Result of one reconciliation."""

    steps: Sequence[Step] = ()
    """Current state of every object that the config changes, or used to change."""
    problem: tuple[Reason, str] | None = None
    """Why nothing was changed."""
    failure: str = ""
    """Target that could not be changed, and why."""
    rolled_back: bool | None = None
    """Whether all changes before the failure were rolled back; None if there were none."""
    preview: bool = False
    plan: tuple[PlannedChange, ...] = ()
    reach: tuple[Reach, ...] = ()
    unfinished: bool = False


def status_of(config: CASConfig, report: Report) -> CASConfigStatus:
    """Return the status, without the transition times of its conditions."""
    targets = [_target(step) for step in report.steps]
    # The list may be cut: targets with problems come first.
    targets.sort(key=lambda each: (each.state not in _TROUBLED, each.kind, each.namespace, each.name))
    matched = [step for step in report.steps if step.is_target]
    applied = sum(step.state is TargetState.APPLIED for step in matched)
    ready = _ready_condition(report, len(matched), applied)
    listed = _first_bytes(targets[:MOST_LISTED])
    return CASConfigStatus(
        observed_generation=config.metadata.generation,
        matched=len(matched),
        applied=applied,
        failed=_count(report, TargetState.FAILED),
        contested=_count(report, TargetState.CONTESTED),
        summary=f"{applied}/{len(matched)}",
        message=ready.message[:4096],
        targets=listed,
        targets_not_listed=len(targets) - len(listed),
        plan=_first_bytes(report.plan[:MOST_PLANNED]),
        reach=report.reach,
        unfinished=report.unfinished,
        conditions=(
            ready,
            _applied_condition(report, ready),
            _rolled_back_condition(report),
            _conflicted_condition(report),
        ),
    )


def _first_bytes(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return as many entries as fit."""
    sizes = itertools.accumulate(len(msgspec.json.encode(each)) + 1 for each in entries)
    return tuple(each for each, size in zip(entries, sizes, strict=True) if size <= _MOST_BYTES)


def planned_change(step: Step, before: JsonObject, after: JsonObject) -> PlannedChange:
    """Return a planned change as lines, without the ledger annotation."""
    lines = [
        _line(each)
        for each in diff(_shown(before), _shown(after))
        if not each["path"].startswith("/metadata/managedFields")
    ]
    text = "\n".join(lines)
    if len(text) > _LONGEST_DIFF:
        text = f"{text[: _LONGEST_DIFF - 20]}\n… and more"
    return PlannedChange(f"{kind_name(step.resource)} {step.key}", text)


def _target(step: Step) -> Target:
    return Target(
        kind=kind_name(step.resource),
        name=step.key.name,
        namespace=step.key.namespace,
        policy=",".join(step.policies),
        state=step.state,
        reason="" if step.reason == Reason.APPLIED else step.reason[:64],
        message=truncate(step.message, _LONGEST),
        paths=tuple(path[:512] for path in (step.paths or step.left)[:MOST_PATHS]),
        rounds=step.rounds,
    )


def _ready_condition(report: Report, matched: int, applied: int) -> Condition:
    if report.problem is not None:
        return _condition(ConditionType.READY, False, *report.problem)
    if report.failure:
        return _condition(ConditionType.READY, False, Reason.FAILED, report.failure)
    unreadable = [step for step in report.steps if step.reason == Reason.LEDGER_UNREADABLE]
    if unreadable:
        text = f"{_objects(len(unreadable))} cannot be changed. {unreadable[0]}: {unreadable[0].message}"
        return _condition(ConditionType.READY, False, Reason.LEDGER_UNREADABLE, text)
    contested = [step for step in report.steps if step.state is TargetState.CONTESTED]
    if contested:
        text = f"{len(contested)} of {matched} targets are contested. {contested[0]}: {contested[0].message}"
        return _condition(ConditionType.READY, False, Reason.CONTESTED, text)
    if report.preview:
        text = f"preview: {_objects(len(report.plan))} would be changed; nothing was changed"
        return _condition(ConditionType.READY, True, Reason.PREVIEW, text)
    if matched == 0:
        return _condition(ConditionType.READY, True, Reason.NO_TARGETS, "no object matches")
    text = f"{applied} of {matched} targets are up to date"
    return _condition(ConditionType.READY, True, Reason.APPLIED, text)


def blocked_status(config: CASConfig, reason: Reason, message: str) -> CASConfigStatus:
    """Return the status if nothing could be done; the targets stay as they were."""
    ready = _condition(ConditionType.READY, False, reason, message)
    return msgspec.structs.replace(
        config.status,
        observed_generation=config.metadata.generation,
        message=message[:4096],
        conditions=(ready, replaced_type(ready, ConditionType.APPLIED)),
    )


def recovered_status(config: CASConfig, reason: Reason, message: str) -> CASConfigStatus:
    """Return the status if nothing can be done, after an interrupted batch was undone."""
    text = f"all changes were undone, because another process did not finish them. {message}"
    rolled_back = _condition(ConditionType.ROLLED_BACK, True, Reason.ROLLED_BACK, text)
    blocked = blocked_status(config, reason, message)
    return msgspec.structs.replace(
        blocked,
        applied=0,
        summary=f"0/{blocked.matched}",
        targets=(),
        targets_not_listed=0,
        reach=(),
        unfinished=False,
        conditions=(*blocked.conditions, rolled_back),
    )


def _applied_condition(report: Report, ready: Condition) -> Condition:
    if report.preview or ready.reason in (Reason.NO_TARGETS, Reason.CONTESTED):
        return _condition(ConditionType.APPLIED, False, Reason(ready.reason), ready.message)
    return replaced_type(ready, ConditionType.APPLIED)


def _rolled_back_condition(report: Report) -> Condition:
    if report.rolled_back is None:
        return _condition(
            ConditionType.ROLLED_BACK, False, Reason.NOT_ROLLED_BACK, "nothing had to be rolled back"
        )
    if report.rolled_back:
        text = f"all changes were rolled back. {report.failure}"
        return _condition(ConditionType.ROLLED_BACK, True, Reason.ROLLED_BACK, text)
    text = f"not all changes could be rolled back yet. {report.failure}"
    return _condition(ConditionType.ROLLED_BACK, False, Reason.ROLLING_BACK, text)


def _conflicted_condition(report: Report) -> Condition:
    for state, reason in ((TargetState.CONTESTED, Reason.CONTESTED), (TargetState.LEFT, Reason.LEFT)):
        found = [step for step in report.steps if step.state is state]
        if found:
            return _condition(ConditionType.CONFLICTED, True, reason, f"{found[0]}: {found[0].message}")
    skipped = [step for step in report.steps if step.skipped]
    if skipped:
        text = f"{_objects(len(skipped))} did not get all values. {skipped[0]}: {skipped[0].message}"
        return _condition(ConditionType.CONFLICTED, True, Reason.SKIPPED, text)
    return _condition(
        ConditionType.CONFLICTED, False, Reason.NO_CONFLICT, "no other manager sets the same fields"
    )


def replaced_type(condition: Condition, kind: ConditionType) -> Condition:
    """Return a copy of a condition with another type."""
    return Condition(kind, condition.status, condition.reason, condition.message)


def _condition(kind: ConditionType, status: bool, reason: Reason, message: str) -> Condition:
    return Condition(kind, "True" if status else "False", reason, message[:32768])


def _count(report: Report, state: TargetState) -> int:
    return sum(step.state is state for step in report.steps)


def _objects(count: int) -> str:
    return "1 object" if count == 1 else f"{count} objects"


def _shown(obj: JsonObject) -> JsonObject:
    metadata = {
        key: value
        for key, value in obj["metadata"].items()
        if key not in ("managedFields", "resourceVersion", "generation")
    }
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {key: value for key, value in annotations.items() if not key.startswith(PREFIX)}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def _line(operation: JsonObject) -> str:
    sign = {"add": "+", "remove": "-", "replace": "~"}[operation["op"]]
    if operation["op"] == "remove":
        return f"{sign} {operation['path']}"
    return f"{sign} {operation['path']}: {_json(operation['value'])}"


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def as_failed(step: Step, reason: str, message: str) -> Step:
    """Return the step as failed."""
    return replace(_not_taken(step), state=TargetState.FAILED, reason=reason, message=message, paths=())


def as_rolled_back(step: Step, message: str) -> Step:
    """Return the step as rolled back."""
    return replace(
        _not_taken(step), state=TargetState.ROLLED_BACK, reason=Reason.ROLLED_BACK, message=message, paths=()
    )


def as_waiting(step: Step) -> Step:
    """Return the step as waiting for other targets."""
    return replace(
        _not_taken(step), state=TargetState.WAITING, reason=Reason.FAILED, message="another target failed"
    )


def _not_taken(step: Step) -> Step:
    # Only a value that was reverted counts as a round; a refused write that is retried does not.
    return replace(step, patch=(), retaken=(), rounds=step.rounds - bool(step.retaken))
