"""The streams of a backend: how they must be, how they differ, and whose they are. Pure.

Events are kept in one stream; those that could not be delivered in a second one beside it.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET

from quintet.apis.eventingbackend import Effective, EventingBackend
from quintet.apis.meta import ObjectKey
from quintet.nats.config import SECOND, StreamConfig

OWNER: Final = "quintet.dev/backend"
"""In the metadata of a stream: the backend that shapes it."""

_DAY: Final = 24 * 3600 * SECOND
_DEAD_LETTER_AGE: Final = 7 * _DAY
_DEAD_LETTER_BYTES: Final = 128 * 1024 * 1024
_DUPLICATES: Final = 120 * SECOND
# Whatever else a stream has is left to those who set it.
_SHAPE: Final = (
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


def stream_config(backend: EventingBackend, config: Effective, kept: str = "") -> StreamConfig:
    """The stream of a backend, as its configuration says.

    `kept` is a prefix of subjects that pods still publish under while they move to another one.
    """
    per_subject = _limit(config.integer("maxMessagesPerSubject"))
    refuses = config.text("discardPolicy") == "new"
    return StreamConfig(
        name=config.text("streamName"),
        subjects=_subjects(config.text("streamSubjectPrefix"), kept),
        retention=cast(Literal["limits", "interest"], config.text("retentionPolicy")),
        storage=_storage(config),
        discard="new" if refuses else "old",
        num_replicas=config.integer("streamReplicas"),
        max_msgs=_limit(config.integer("maxMessages")),
        max_bytes=_limit(int(config.measure("maxBytes"))),
        max_msgs_per_subject=per_subject,
        duplicate_window=_DUPLICATES,
        # Else a full subject drops its oldest event, although new ones were to be refused.
        discard_new_per_subject=True if refuses and per_subject > 0 else UNSET,
        metadata={OWNER: owner_mark(backend)},
    )


def dead_letter_config(backend: EventingBackend, config: Effective) -> StreamConfig:
    """Where events stay for a while that could not be delivered."""
    return StreamConfig(
        name=dead_letter_stream(config.text("streamName")),
        subjects=(config.text("deadLetterSubject"),),
        storage=_storage(config),
        num_replicas=config.integer("streamReplicas"),
        max_bytes=_DEAD_LETTER_BYTES,
        max_age=_DEAD_LETTER_AGE,
        duplicate_window=_DUPLICATES,
        metadata={OWNER: owner_mark(backend)},
    )


def dead_letter_stream(stream: str) -> str:
    """The name of the stream beside a stream."""
    return f"{stream}-dead-letter"


def differences(wanted: StreamConfig, found: StreamConfig) -> list[str]:
    """The settings of ours that a stream does not have."""
    return [name for name in _SHAPE if _value(wanted, name) != _value(found, name)]


def put_right(wanted: StreamConfig, found: StreamConfig) -> StreamConfig:
    """The stream with our settings, marked as ours; what is none of our business stays."""
    ours: dict[str, Any] = {name: getattr(wanted, name) for name in _SHAPE}
    return msgspec.structs.replace(
        found, **ours, metadata={**_metadata(found), OWNER: _metadata(wanted)[OWNER]}
    )


def without_mark(found: StreamConfig) -> StreamConfig:
    """The stream as one that no backend shapes."""
    rest = {name: value for name, value in _metadata(found).items() if name != OWNER}
    return msgspec.structs.replace(found, metadata=rest)


def owner_mark(backend: EventingBackend) -> str:
    """What is written into a stream about the backend that shapes it."""
    return f"{backend.metadata.namespace}/{backend.metadata.name}/{backend.metadata.uid}"


def owner_of(found: StreamConfig) -> tuple[ObjectKey, str] | None:
    """The backend that shapes a stream, and its uid; None if none says so."""
    namespace, _, rest = _metadata(found).get(OWNER, "").partition("/")
    name, _, uid = rest.partition("/")
    return (ObjectKey(namespace, name), uid) if namespace and name else None


def _subjects(prefix: str, kept: str) -> tuple[str, ...]:
    """All subjects below the prefixes; JetStream refuses one that another one includes already."""
    prefixes = [each for each in dict.fromkeys((prefix, kept)) if each]
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
    """NATS knows one way to say that there is no limit."""
    return number if number > 0 else -1
