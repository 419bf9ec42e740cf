"""Computes the status of an EventingBackend from the conditions of its parts. Pure.

The reconcile shell adds transition times and generations to the conditions.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from quintet.apis.eventingbackend.types import (
    BACKEND_READY,
    PARTS,
    PUBLISHER_PROXY_READY,
    READY,
    SUBSCRIPTION_CONTROLLER_READY,
    ConfigFault,
    EffectiveValue,
    EventingBackendStatus,
    SubjectPrefixes,
)
from quintet.apis.meta import Condition, find_condition

INVALID_CONFIG: Final = "The provided spec.config has validation errors"
REASONS: Final[Mapping[str, str]] = {
    BACKEND_READY: "Backend ready",
    PUBLISHER_PROXY_READY: "Publisher proxy deployment ready",
    SUBSCRIPTION_CONTROLLER_READY: "Subscription controller started",
}
"""Published reasons of ready parts."""
NOT_READY_REASONS: Final[Mapping[str, str]] = {
    BACKEND_READY: "Backend not ready",
    PUBLISHER_PROXY_READY: "Publisher proxy deployment not ready",
    SUBSCRIPTION_CONTROLLER_READY: "Subscription controller not started",
}
"""Published reasons of parts that are not ready, if there is no more specific one."""


class PartCondition(NamedTuple):
    """The condition of one part."""

    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    """Defaults to the published reason."""
    message: str = ""


def status_of(
    *,
    backend_type: str,
    generation: int,
    faults: Sequence[ConfigFault],
    in_use: Sequence[EffectiveValue],
    former_subjects: Sequence[SubjectPrefixes] = (),
    backend: PartCondition,
    publisher: PartCondition,
    subscriptions: PartCondition,
) -> EventingBackendStatus:
    """Return the status, without the times in its conditions.

    `backend_type`, `in_use` and the conditions describe the backend that serves: with an invalid spec,
    that of the last valid one.
    """
    if faults:
        count = f"{len(faults)} errors" if len(faults) > 1 else "1 error"
        said = f"{count} in spec.config, see status.validationErrors"
        backend = PartCondition(
            "False", INVALID_CONFIG, said if not backend.message else f"{said}; {backend.message}"
        )
    parts = tuple(
        _condition(type_, condition)
        for type_, condition in zip(PARTS, (backend, publisher, subscriptions), strict=True)
    )
    return EventingBackendStatus(
        backend_type=backend_type,
        eventing_ready=eventing_ready(parts),
        observed_generation=generation,
        validation_errors=tuple(faults),
        effective_config=tuple(in_use),
        former_subjects=tuple(former_subjects),
        conditions=(*parts, _ready(parts, faulty=bool(faults))),
    )


def eventing_ready(conditions: tuple[Condition, ...]) -> bool:
    """Return whether every part is known to be ready; a missing or unknown part is not."""
    found = [find_condition(conditions, part) for part in PARTS]
    return all(condition is not None and condition.status == "True" for condition in found)


def ready_now(status: EventingBackendStatus, generation: int) -> bool:
    """Return whether the status is ready and describes the current generation."""
    return bool(status.eventing_ready) and status.observed_generation == generation


def _condition(type_: str, condition: PartCondition) -> Condition:
    published = (REASONS if condition.status == "True" else NOT_READY_REASONS)[type_]
    return Condition(type_, condition.status, condition.reason or published, condition.message)


def _ready(parts: Sequence[Condition], *, faulty: bool) -> Condition:
    """Return the standard `Ready` condition for programs, with a CamelCase reason."""
    short = [part for part in parts if part.status != "True"]
    if not short:
        return Condition(READY, "True", "AllPartsReady", "events are taken in, kept and delivered")
    # A False condition is more specific than an Unknown one.
    worst = next((part for part in short if part.status == "False"), short[0])
    words = "".join(word.capitalize() for word in worst.type.removesuffix(" Ready").split())
    reason = "InvalidConfig" if faulty else f"{words}NotReady"
    said = "; ".join(f"{part.type}: {part.message or part.reason}" for part in short)
    return Condition(READY, worst.status, reason, said)
