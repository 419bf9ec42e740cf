"""What the status of an EventingBackend says, from what is known about its parts. Pure.

Called by the controller with one `Standing` per part. The times of transitions and the generation of
each condition are added by `runtime.conditions`.
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
)
from quintet.apis.meta import Condition, find_condition

INVALID_CONFIG: Final = "The provided spec.config has validation errors"
REASONS: Final[Mapping[str, str]] = {
    BACKEND_READY: "Backend ready",
    PUBLISHER_PROXY_READY: "Publisher proxy deployment ready",
    SUBSCRIPTION_CONTROLLER_READY: "Subscription controller started",
}
"""Published reasons of parts that are ready."""
NOT_READY_REASONS: Final[Mapping[str, str]] = {
    BACKEND_READY: "Backend not ready",
    PUBLISHER_PROXY_READY: "Publisher proxy deployment not ready",
    SUBSCRIPTION_CONTROLLER_READY: "Subscription controller not started",
}
"""For a part of which nothing more exact is known."""


class Standing(NamedTuple):
    """What is known about one part."""

    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    """In words; left out, it is the published one."""
    message: str = ""


def status_of(
    *,
    backend_type: str,
    generation: int,
    faults: Sequence[ConfigFault],
    in_use: Sequence[EffectiveValue],
    backend: Standing,
    publisher: Standing,
    subscriptions: Standing,
) -> EventingBackendStatus:
    """The status, except for the times in its conditions.

    `backend_type` and `in_use` are of the backend that serves, which while there are faults is the
    one of the last good spec; so are the standings.
    """
    if faults:
        count = f"{len(faults)} mistakes" if len(faults) > 1 else "1 mistake"
        said = f"{count} in spec.config, see status.validationErrors"
        backend = Standing(
            "False", INVALID_CONFIG, said if not backend.message else f"{said}; {backend.message}"
        )
    parts = tuple(
        _condition(type_, standing)
        for type_, standing in zip(PARTS, (backend, publisher, subscriptions), strict=True)
    )
    return EventingBackendStatus(
        backend_type=backend_type,
        eventing_ready=eventing_ready(parts),
        observed_generation=generation,
        validation_errors=tuple(faults),
        effective_config=tuple(in_use),
        conditions=(*parts, _ready(parts, faulty=bool(faults))),
    )


def eventing_ready(conditions: tuple[Condition, ...]) -> bool:
    """Whether every part is known to be ready: a part that is unknown or not named is not."""
    found = [find_condition(conditions, part) for part in PARTS]
    return all(condition is not None and condition.status == "True" for condition in found)


def ready_now(status: EventingBackendStatus, generation: int) -> bool:
    """What a reader may rely on: ready, and said about the present generation."""
    return bool(status.eventing_ready) and status.observed_generation == generation


def _condition(type_: str, standing: Standing) -> Condition:
    published = (REASONS if standing.status == "True" else NOT_READY_REASONS)[type_]
    return Condition(type_, standing.status, standing.reason or published, standing.message)


def _ready(parts: Sequence[Condition], *, faulty: bool) -> Condition:
    """One standard condition for programs, with a CamelCase reason."""
    short = [part for part in parts if part.status != "True"]
    if not short:
        return Condition(READY, "True", "AllPartsReady", "events are taken in, kept and delivered")
    # What is known to be wrong says more than what is not known.
    worst = next((part for part in short if part.status == "False"), short[0])
    words = "".join(word.capitalize() for word in worst.type.removesuffix(" Ready").split())
    reason = "InvalidConfig" if faulty else f"{words}NotReady"
    said = "; ".join(f"{part.type}: {part.message or part.reason}" for part in short)
    return Condition(READY, worst.status, reason, said)
