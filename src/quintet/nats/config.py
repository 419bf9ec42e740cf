"""What JetStream says and is told of streams and consumers. Times are nanoseconds, as on the wire.

Used by `jetstream`. A field that is `UNSET` is not sent; fields that we do not know are left out
when an answer is read.
"""

from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

SECOND = 1_000_000_000


class StreamConfig(msgspec.Struct, kw_only=True, frozen=True):
    """What a stream keeps, and how long."""

    name: str
    subjects: tuple[str, ...] = ()
    retention: str = "limits"
    storage: str = "file"
    discard: str = "old"
    num_replicas: int = 1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    max_consumers: int = -1
    duplicate_window: int = 120 * SECOND
    discard_new_per_subject: bool | UnsetType = UNSET
    description: str | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    allow_direct: bool | UnsetType = UNSET
    deny_delete: bool | UnsetType = UNSET
    deny_purge: bool | UnsetType = UNSET


class StreamState(msgspec.Struct, kw_only=True, frozen=True):
    """What a stream keeps now."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    consumer_count: int = 0
    num_subjects: int = 0


class StreamInfo(msgspec.Struct, kw_only=True, frozen=True):
    """A stream as the server has it."""

    config: StreamConfig
    state: StreamState = StreamState()
    created: datetime | None = None


class ConsumerConfig(msgspec.Struct, kw_only=True, frozen=True):
    """What a consumer is given, and how long it may take."""

    durable_name: str = ""
    # Text, not a list of words: a consumer of somebody else may have what we do not know.
    deliver_policy: str = "all"
    opt_start_seq: int | UnsetType = UNSET
    ack_policy: str = "explicit"
    ack_wait: int = 30 * SECOND
    max_deliver: int = -1
    max_ack_pending: int = 1000
    max_waiting: int = 512
    replay_policy: str = "instant"
    filter_subject: str | UnsetType = UNSET
    filter_subjects: tuple[str, ...] | UnsetType = UNSET
    backoff: tuple[int, ...] | UnsetType = UNSET
    num_replicas: int | UnsetType = UNSET
    description: str | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    inactive_threshold: int | UnsetType = UNSET


class SequencePair(msgspec.Struct, kw_only=True, frozen=True):
    """A place in the consumer's count and in the stream's."""

    consumer_seq: int = 0
    stream_seq: int = 0


class ConsumerInfo(msgspec.Struct, kw_only=True, frozen=True):
    """A consumer as the server has it."""

    stream_name: str = ""
    name: str = ""
    created: datetime | None = None
    config: ConsumerConfig | None = None
    delivered: SequencePair = SequencePair()
    ack_floor: SequencePair = SequencePair()
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0


class AccountInfo(msgspec.Struct, kw_only=True, frozen=True):
    """What an account uses."""

    memory: int = 0
    storage: int = 0
    streams: int = 0
    consumers: int = 0


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """The server keeps the message: in which stream, at which place, and whether it had it already."""

    stream: str
    sequence: int = msgspec.field(name="seq")
    duplicate: bool = False


class StoredMessage(msgspec.Struct, kw_only=True, frozen=True):
    """A message of a stream, as it is kept."""

    subject: str
    sequence: int = msgspec.field(name="seq")
    payload: bytes = msgspec.field(name="data", default=b"")
    head: bytes = msgspec.field(name="hdrs", default=b"")
    time: datetime | None = None
