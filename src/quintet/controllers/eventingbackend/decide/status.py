"""What to say about the pods of a backend, and which changes are news. Pure.

How the conditions of all parts become a status: `apis.eventingbackend.readiness`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from quintet.apis.eventingbackend import EventingBackend, EventingBackendStatus, Standing
from quintet.apis.eventingbackend.types import PARTS, READY
from quintet.apis.meta import Condition, Struct, find_condition

_MOST_NAMED = 10
WAITS = Standing("False", message="not made yet: it waits for the backend to be ready")
NOTHING_TO_START = Standing("True", message="the backend delivers events by itself")


class WorkloadCondition(Struct, frozen=True):
    """What a Deployment says about itself."""

    type: str = ""
    status: str = ""
    message: str = ""


class WorkloadStatus(Struct, frozen=True):
    """What is read of the status of a Deployment or StatefulSet."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """A Deployment or StatefulSet as it was seen."""

    generation: int = 0
    wanted: int = 0
    """How many pods its spec asks for."""
    status: WorkloadStatus = field(default_factory=WorkloadStatus)
    secret: str = ""
    """The Secret that its pods have."""
    secret_version: str = ""
    settings: str = ""
    """What its pods are told."""
    scaled: bool = False
    """Whether somebody set the number of pods through the scale subresource."""
    claim_size: str = ""
    servers: int = 1
    """Of a server: how many there were to be when it was made."""

    @property
    def complete(self) -> bool:
        """Whether every pod is of the current generation and available, and no old one is left."""
        status = self.status
        current = self.generation > 0 and status.observed_generation >= self.generation
        counts = {status.replicas, status.updated_replicas, status.available_replicas}
        return current and counts == {self.wanted}

    @property
    def progress(self) -> str:
        """How far it is, and what is in its way."""
        status = self.status
        current = status.observed_generation >= self.generation
        done = min(status.updated_replicas, status.available_replicas) if current else 0
        text = f"{done} of {self.wanted} pods are ready with the current settings"
        trouble = [
            each.message
            for each in status.conditions
            if (each.type, each.status) in (("ReplicaFailure", "True"), ("Progressing", "False"))
        ]
        return "; ".join((text, *trouble))


def standing_of(rollout: WorkloadState | None) -> Standing:
    """Whether the pods of a part are all there; None: they were not made."""
    if rollout is None:
        return WAITS
    if rollout.complete:
        # A part that somebody scaled to nothing takes in and delivers nothing.
        return Standing("True" if rollout.wanted else "False", message=rollout.progress)
    return Standing("False", message=rollout.progress)


def waits_for_subscriptions(count: int) -> Standing:
    """Of a backend that moves: what is published where nobody listens is lost."""
    return Standing("False", message=f"moves when {count} more Subscriptions listen to the new stream")


def delivers_the_rest(stream: str, left: int | None) -> Standing:
    """Of a backend that moves: dispatchers stay until the old stream is empty."""
    count = "events" if left is None else f"{left} events"
    return Standing("False", message=f"delivers {count} that are left in stream {stream} before it moves")


def in_use_by(backend: EventingBackend, users: Sequence[str]) -> EventingBackendStatus:
    """What is said while a deletion waits; everything goes on until then, so nothing else changes."""
    named = ", ".join(users[:_MOST_NAMED])
    more = f" and {len(users) - _MOST_NAMED} more" if len(users) > _MOST_NAMED else ""
    text = f"deletion waits for the Subscriptions that use it: {named}{more}; delete or change them to go on"
    others = tuple(each for each in backend.status.conditions if each.type != READY)
    return msgspec.structs.replace(
        backend.status,
        observed_generation=backend.metadata.generation,
        conditions=(*others, Condition(READY, "False", "DeletionWaits", text)),
    )


class News(NamedTuple):
    """A condition that changed, as an Event tells it."""

    good: bool
    reason: str
    note: str


def news(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> Iterator[News]:
    """What changed in the parts of a backend; that a new one is not ready yet is no news."""
    for part in PARTS:
        old, new = find_condition(before, part), find_condition(after, part)
        if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
            continue
        if old is None and new.status != "True" and part != PARTS[0]:
            continue
        note = f"{part}: {new.message or new.reason}"
        yield News(new.status == "True", _one_word(new.reason), note)


def _one_word(reason: str) -> str:
    """A reason in words, as programs expect reasons of Events."""
    words = "".join(character if character.isalnum() else " " for character in reason).split()
    return "".join(word[0].upper() + word[1:] for word in words)[:128]
