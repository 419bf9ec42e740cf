"""Settings of the publisher proxy and dispatcher pods, passed as JSON in an environment variable.

The controller encodes and the process decodes the same types. Nothing in them is secret; credentials are
files of a Secret that is mounted at `CREDENTIALS`.
"""

from typing import Final

import msgspec

from quintet.apis.meta import Struct
from quintet.eventing.dispatcher.decide.retry_policy import RetryPolicy

VARIABLE: Final = "QUINTET_EVENTING"
CREDENTIALS: Final = "/etc/quintet/credentials"
POD_GRACE_SECONDS: Final = 80
"""Longer than a publisher waits for an acknowledgement, and than a sink may take to respond."""


class NatsSettings(Struct, frozen=True, kw_only=True):
    """The NATS server and stream of events."""

    url: str
    stream: str
    subject_prefix: str
    max_reconnects: int = -1
    reconnect_seconds: float = 3.0
    credentials: str = ""
    """The directory of the mounted Secret; empty: no login."""


class BebSettings(Struct, frozen=True, kw_only=True):
    """An EventMesh, whose address and credentials are in the Secret."""

    credentials: str
    qos: str = "AT_LEAST_ONCE"


class PublisherSettings(Struct, frozen=True, kw_only=True):
    """Settings of a publisher proxy, with one of the two backends."""

    namespace: str
    backend: str
    event_type_prefix: str
    request_seconds: float = 5.0
    nats: NatsSettings | None = None
    beb: BebSettings | None = None


class DispatcherSettings(Struct, frozen=True, kw_only=True):
    """Settings of a dispatcher."""

    namespace: str
    backend: str
    event_type_prefix: str
    nats: NatsSettings
    max_in_flight: int
    deliver_policy: str
    dead_letter_subject: str
    retry_policy: RetryPolicy = RetryPolicy()


def encode_settings(settings: PublisherSettings | DispatcherSettings) -> str:
    """Return the value of the environment variable; deterministic for equal settings."""
    return msgspec.json.encode(settings, order="sorted").decode()
