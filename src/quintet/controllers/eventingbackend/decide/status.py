"""Conditions of a backend's pods, and the Events for their changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from quintet.apis.eventingbackend import EventingBackend, EventingBackendStatus, PartCondition
from quintet.apis.eventingbackend.types import PARTS, READY
from quintet.apis.meta import Condition, Struct, find_condition

_MOST_NAMED = 10
WAITS = PartCondition("False", message="not created yet: it waits for the backend to be ready")
NOTHING_TO_START = PartCondition("True", message="the backend itself delivers events")


class WorkloadCondition(Struct, frozen=True):
    """The fields that are read of a workload's condition."""

    type: str = ""
    status: str = ""
    message: str = ""


class WorkloadStatus(Struct, frozen=True):
    """The fields that are read of a Deployment's or StatefulSet's status."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """The observed state of a Deployment or StatefulSet."""

    generation: int = 0
    replicas: int = 0
    """Replicas of its spec."""
    status: WorkloadStatus = field(default_factory=WorkloadStatus)
    secret: str = ""
    """Secret that its pods mount."""
    secret_version: str = ""
    settings: str = ""
    """Settings of its pods, encoded."""
    scaled: bool = False
    """Whether the scale subresource has set the replicas."""
    claim_size: str = ""
    servers: int = 1
    """Cluster size of a NATS server when it was created."""

    @property
    def complete(self) -> bool:
        """Whether all pods are updated and available, and no old one is left."""
        status = self.status
        current = self.generation > 0 and status.observed_generation >= self.generation
        counts = {status.replicas, status.updated_replicas, status.available_replicas}
        return current and counts == {self.replicas}

    @property
    def progress(self) -> str:
        """Number of ready pods, and what prevents others."""
        status = self.status
        current = status.observed_generation >= self.generation
        done = min(status.updated_replicas, status.available_replicas) if current else 0
        text = f"{done} of {self.replicas} pods are ready with the current settings"
        trouble = [
            each.message
            for each in status.conditions
            if (each.type, each.status) in (("ReplicaFailure", "True"), ("Progressing", "False"))
        ]
        return "; ".join((text, *trouble))


def part_condition(rollout: WorkloadState | None) -> PartCondition:
    """Return the condition of a part's pods; `None` if they do not exist."""
    if rollout is None:
        return WAITS
    if rollout.complete:
        # A part that is scaled to zero delivers nothing.
        return PartCondition("True" if rollout.replicas else "False", message=rollout.progress)
    return PartCondition("False", message=rollout.progress)


def waits_for_subscriptions(missing: Sequence[str]) -> PartCondition:
    """Return the condition while consumers are missing at the new stream: events would be lost."""
    return PartCondition(
        "False",
        message=f"migrates when {len(missing)} more Subscriptions have a consumer at the new stream: "
        f"{_names(missing)}",
    )


def delivers_the_rest(stream: str, left: int | None) -> PartCondition:
    """Return the condition while dispatchers deliver the remaining events of the old stream."""
    count = "events" if left is None else f"{left} events"
    return PartCondition("False", message=f"delivers {count} remaining in stream {stream} before it migrates")


def in_use_by(backend: EventingBackend, users: Sequence[str]) -> EventingBackendStatus:
    """Return the status while Subscriptions block the deletion; all else is unchanged."""
    text = f"deletion waits for the Subscriptions that use it: {_names(users)}; delete or change them"
    others = tuple(each for each in backend.status.conditions if each.type != READY)
    return msgspec.structs.replace(
        backend.status,
        observed_generation=backend.metadata.generation,
        conditions=(*others, Condition(READY, "False", "DeletionWaits", text)),
    )


class News(NamedTuple):
    """The Event for a changed condition."""

    good: bool
    reason: str
    note: str


def news(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> Iterator[News]:
    """Yield an Event for each changed condition, except for parts of a new backend that are not ready yet."""
    for part in PARTS:
        old, new = find_condition(before, part), find_condition(after, part)
        if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
            continue
        if old is None and new.status != "True" and part != PARTS[0]:
            continue
        note = f"{part}: {new.message or new.reason}"
        yield News(new.status == "True", _one_word(new.reason), note)


def _names(found: Sequence[str]) -> str:
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"{', '.join(found[:_MOST_NAMED])}{more}"


def _one_word(reason: str) -> str:
    """Return a reason in CamelCase, as Events require."""
    words = "".join(character if character.isalnum() else " " for character in reason).split()
    return "".join(word[0].upper() + word[1:] for word in words)[:128]
