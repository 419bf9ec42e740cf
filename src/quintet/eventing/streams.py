"""The desired JetStream streams of a backend, their differences and their owner. Pure.

A backend has one stream for events, one for events that wait for a retry, and one for dead letters.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET

from quintet.apis.eventingbackend import Effective, EventingBackend
from quintet.apis.meta import ObjectKey
from quintet.eventing.decide import naming
from quintet.nats.config import SECOND, ConsumerConfig, StreamConfig, StreamInfo

OWNER: Final = "quintet.dev/backend"
"""Metadata key of a stream: the backend that manages it."""

_MAX_RETRIES: Final = 2000
_MAX_RETRIES_PER_SUBSCRIPTION: Final = 250
_DUPLICATES: Final = 120 * SECOND
# The largest event that publishers accept.
_EVENT_BYTES: Final = 64 << 10
# Other settings of a stream are not managed.
_MANAGED: Final = (
    "subjects",
    "retention",
    "storage",
    "discard",
    "num_replicas",
    "max_msgs",
    "max_bytes",
    "max_age",
    "max_msgs_per_subject",
    "max_msg_size",
    "max_consumers",
    "duplicate_window",
    "discard_new_per_subject",
    "deny_delete",
    "deny_purge",
)


def stream_config(
    backend: EventingBackend, config: Effective, old_prefixes: Iterable[str] = ()
) -> StreamConfig:
    """Return the desired stream of a backend.

    `old_prefixes` are subject prefixes that pods may still publish to while they move to the new one.
    """
    per_subject = _limit(config.integer("maxMessagesPerSubject"))
    rejects_new = config.text("discardPolicy") == "new"
    return StreamConfig(
        name=config.text("streamName"),
        subjects=_subjects(config.text("streamSubjectPrefix"), *old_prefixes),
        retention=cast(Literal["limits", "interest"], config.text("retentionPolicy")),
        storage=_storage(config),
        discard="new" if rejects_new else "old",
        num_replicas=config.integer("streamReplicas"),
        max_msgs=_limit(config.integer("maxMessages")),
        max_bytes=_limit(int(config.measure("maxBytes"))),
        max_msgs_per_subject=per_subject,
        duplicate_window=_DUPLICATES,
        # Otherwise a full subject drops its oldest event, although the policy is to reject new ones.
        discard_new_per_subject=True if rejects_new and per_subject > 0 else UNSET,
        metadata={OWNER: owner_value(backend)},
    )


def dead_letter_config(backend: EventingBackend, config: Effective) -> StreamConfig:
    """Return the desired dead-letter stream of a backend."""
    return StreamConfig(
        name=dead_letter_stream(config.text("streamName")),
        # Earlier releases used the subject itself.
        subjects=(
            config.text("deadLetterSubject"),
            naming.dead_letter_subject(config.text("deadLetterSubject"), "*"),
        ),
        storage=_storage(config),
        num_replicas=config.integer("streamReplicas"),
        max_bytes=int(config.measure("deadLetterMaxBytes")),
        max_age=int(config.measure("deadLetterMaxAge") * SECOND),
        duplicate_window=_DUPLICATES,
        metadata={OWNER: owner_value(backend)},
    )


def retry_config(backend: EventingBackend, config: Effective) -> StreamConfig:
    """Return the desired stream of the events that wait for a retry.

    When it is full, it refuses events; they wait in the stream of events then. It reserves no storage.
    """
    stream = config.text("streamName")
    return StreamConfig(
        name=retry_stream(stream),
        subjects=(naming.retry_subject(stream, "*"),),
        # Keeps events whose consumer was deleted by hand, unlike interest retention.
        retention="workqueue",
        storage=_storage(config),
        discard="new",
        num_replicas=config.integer("streamReplicas"),
        max_msgs=_MAX_RETRIES,
        max_msgs_per_subject=_MAX_RETRIES_PER_SUBSCRIPTION,
        duplicate_window=_DUPLICATES,
        discard_new_per_subject=True,
        metadata={OWNER: owner_value(backend)},
    )


def retry_consumer() -> ConsumerConfig:
    """Return the consumer of a retry stream, which all dispatchers share."""
    return ConsumerConfig(durable_name=naming.RETRY_CONSUMER, max_ack_pending=_MAX_RETRIES)


def retry_stream(stream: str) -> str:
    """Return the name of the retry stream of a stream."""
    return f"{stream}-retry"


def most_bytes(config: Effective) -> int:
    """Return how much the streams of a backend can store; 0 without a limit."""
    events = _limit(int(config.measure("maxBytes")))
    dead_letters = int(config.measure("deadLetterMaxBytes"))
    return events + dead_letters + _MAX_RETRIES * _EVENT_BYTES if events > 0 else 0


def full_limit(found: StreamInfo) -> str:
    """Return the option whose limit makes a stream refuse events; empty if there is room for one.

    Without room for the largest event the stream counts as full. Messages per subject count only if the
    state lists subjects.
    """
    config, state = found.config, found.state
    if config.discard != "new":
        return ""
    if 0 < config.max_bytes < state.bytes + _EVENT_BYTES:
        return "maxBytes"
    if 0 < config.max_msgs <= state.messages:
        return "maxMessages"
    most = max((state.subjects or {}).values(), default=0)
    return "maxMessagesPerSubject" if 0 < config.max_msgs_per_subject <= most else ""


def dead_letter_stream(stream: str) -> str:
    """Return the name of the dead-letter stream of a stream."""
    return f"{stream}-dead-letter"


def differences(desired: StreamConfig, found: StreamConfig) -> list[str]:
    """Return the names of managed settings that differ, and the key of the owner mark if that differs."""
    differing = [name for name in _MANAGED if _value(desired, name) != _value(found, name)]
    marks = {_metadata(config).get(OWNER) for config in (desired, found)}
    return differing if len(marks) == 1 else [*differing, OWNER]


def merge_config(desired: StreamConfig, found: StreamConfig) -> StreamConfig:
    """Return the existing configuration with the managed settings and the owner of the desired one."""
    managed: dict[str, Any] = {name: getattr(desired, name) for name in _MANAGED}
    return msgspec.structs.replace(
        found, **managed, metadata={**_metadata(found), OWNER: _metadata(desired)[OWNER]}
    )


def without_owner(found: StreamConfig) -> StreamConfig:
    """Return the configuration without its owner."""
    rest = {name: value for name, value in _metadata(found).items() if name != OWNER}
    return msgspec.structs.replace(found, metadata=rest)


def owner_value(backend: EventingBackend) -> str:
    """Return the value of `OWNER` for a backend."""
    return f"{backend.metadata.namespace}/{backend.metadata.name}/{backend.metadata.uid}"


def owner_of(found: StreamConfig) -> ObjectKey | None:
    """Return the key of the backend that a stream belongs to; None if it belongs to none."""
    namespace, name, *_ = (*_metadata(found).get(OWNER, "").split("/"), "")
    return ObjectKey(namespace, name) if namespace and name else None


def is_marked_for(backend: EventingBackend, found: StreamConfig) -> bool:
    """Return whether a stream belongs to this very backend, not to an earlier one of the same name."""
    return _metadata(found).get(OWNER) == owner_value(backend)


def _subjects(*given: str) -> tuple[str, ...]:
    """Return the wildcard subjects of the prefixes; JetStream rejects overlapping ones."""
    prefixes = [each for each in dict.fromkeys(given) if each]
    outer = [each for each in prefixes if not any(each.startswith(f"{other}.") for other in prefixes)]
    return tuple(f"{each}.>" for each in outer)


def _metadata(config: StreamConfig) -> Mapping[str, str]:
    return {} if isinstance(config.metadata, msgspec.UnsetType) else config.metadata


def _value(config: StreamConfig, name: str) -> object:
    value = getattr(config, name)
    return False if value is UNSET else value


def _storage(config: Effective) -> Literal["file", "memory"]:
    return "memory" if config.text("streamStorageType") == "memory" else "file"


def _limit(number: int) -> int:
    """Return the limit for NATS, where -1 means unlimited."""
    return number if number > 0 else -1
