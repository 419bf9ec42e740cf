"""Requests and responses of the JetStream API about streams and consumers. Durations are nanoseconds.

A field that is `UNSET` is not sent. Unknown fields of a response are ignored.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

from quintet.nats.messages import parse_headers

SECOND = 1_000_000_000


class StreamConfig(msgspec.Struct, kw_only=True, frozen=True):
    """The configuration of a stream."""

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
    """The state of a stream."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    consumer_count: int = 0
    num_subjects: int = 0
    subjects: dict[str, int] | None = None
    """Messages of each subject, if the request asked for them."""


class StreamInfo(msgspec.Struct, kw_only=True, frozen=True):
    """Configuration and state of a stream."""

    config: StreamConfig
    state: StreamState = StreamState()
    created: datetime | None = None


class ConsumerConfig(msgspec.Struct, kw_only=True, frozen=True):
    """The configuration of a consumer."""

    durable_name: str = ""
    # A string, not a Literal: consumers of other clients may have values that we do not know.
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
    """A sequence number of the consumer and the one of the stream."""

    consumer_seq: int = 0
    stream_seq: int = 0


class ConsumerInfo(msgspec.Struct, kw_only=True, frozen=True):
    """Configuration and state of a consumer."""

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
    """The JetStream usage of an account."""

    memory: int = 0
    storage: int = 0
    streams: int = 0
    consumers: int = 0


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """The acknowledgement of a published message; `duplicate` if the stream had it already."""

    stream: str
    sequence: int = msgspec.field(name="seq")
    duplicate: bool = False


class StoredMessage(msgspec.Struct, kw_only=True, frozen=True):
    """A message in a stream."""

    subject: str
    sequence: int = msgspec.field(name="seq")
    payload: bytes = msgspec.field(name="data", default=b"")
    head: bytes = msgspec.field(name="hdrs", default=b"")
    time: datetime | None = None

    @property
    def headers(self) -> Mapping[str, str] | None:
        """The headers; None if there are none."""
        return parse_headers(self.head)
