"""What a pod of the data plane is told, as one JSON text in its environment.

The controller writes it and the process reads it with the same types, so they cannot disagree.
Everything in it is public; credentials come from files of a Secret that is mounted at `CREDENTIALS`.
"""

from typing import Final

import msgspec

from quintet.apis.meta import Struct

VARIABLE: Final = "QUINTET_EVENTING"
CREDENTIALS: Final = "/etc/quintet/credentials"


class NatsSettings(Struct, frozen=True, kw_only=True):
    """Where events are kept."""

    url: str
    stream: str
    subject_prefix: str
    max_reconnects: int = -1
    reconnect_seconds: float = 3.0
    credentials: str = ""
    """The folder with the files of the Secret; empty: no login."""


class BebSettings(Struct, frozen=True, kw_only=True):
    """An EventMesh; everything about it is in the Secret."""

    credentials: str
    qos: str = "AT_LEAST_ONCE"


class PublisherSettings(Struct, frozen=True, kw_only=True):
    """What a publisher proxy works with: one of the two backends."""

    namespace: str
    backend: str
    event_type_prefix: str
    request_seconds: float = 5.0
    nats: NatsSettings | None = None
    beb: BebSettings | None = None


class DispatcherSettings(Struct, frozen=True, kw_only=True):
    """What a dispatcher works with."""

    namespace: str
    backend: str
    event_type_prefix: str
    nats: NatsSettings
    max_in_flight: int
    deliver_policy: str
    dead_letter_subject: str


def encoded(settings: PublisherSettings | DispatcherSettings) -> str:
    """The value of the variable; the same settings give the same text."""
    return msgspec.json.encode(settings, order="sorted").decode()
