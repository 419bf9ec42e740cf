"""Parses the Secret of an EventMesh: URLs and OAuth2 client credentials. Pure.

Errors and `repr` never contain values of the Secret.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from quintet.apis.decoding import DECODE_ERRORS

MESSAGING: Final = "messaging"
NAMESPACE: Final = "namespace"
BROKER: Final = "saprestmgw"
GRANT_TYPE: Final = "client_credentials"
NOT_FOUND: Final = "The specified EventMesh secret is not found. Please provide an existing secret."
MALFORMED: Final = "The EventMesh secret data is not formatted properly."

_Text = Annotated[str, Meta(min_length=1, max_length=4096)]


class SecretError(ValueError):
    """An invalid Secret; `detail` names the invalid key, never its value."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(MALFORMED)


class EventMesh(msgspec.Struct, frozen=True, kw_only=True):
    """URLs and credentials of one EventMesh."""

    publish_url: str
    token_url: str
    client_id: str
    client_secret: str
    namespace: str
    """The source of all events in EventMesh."""

    def __repr__(self) -> str:
        return f"EventMesh({self.publish_url})"


class _Login(msgspec.Struct):
    clientid: _Text
    clientsecret: _Text
    tokenendpoint: _Text
    granttype: _Text = GRANT_TYPE


class _Broker(msgspec.Struct):
    type: _Text


class _Entry(msgspec.Struct):
    broker: _Broker
    oa2: _Login
    uri: _Text


def from_secret(data: Mapping[str, bytes]) -> EventMesh:
    """Return the EventMesh of a Secret; raises `SecretError`."""
    entry = _entry(_require(data, MESSAGING))
    if entry.oa2.granttype != GRANT_TYPE:
        raise SecretError(f"{MESSAGING}: oa2.granttype must be {GRANT_TYPE}")
    try:
        namespace = _require(data, NAMESPACE).decode().strip()
    except UnicodeDecodeError:
        raise SecretError(f"{NAMESPACE}: is not text") from None
    if not namespace.isprintable():
        raise SecretError(f"{NAMESPACE}: must be one line of printable text")
    return EventMesh(
        publish_url=f"{_url(entry.uri, 'uri').rstrip('/')}/sap/ems/v1/events",
        token_url=_url(entry.oa2.tokenendpoint, "oa2.tokenendpoint"),
        client_id=entry.oa2.clientid,
        client_secret=entry.oa2.clientsecret,
        namespace=namespace,
    )


def _require(data: Mapping[str, bytes], key: str) -> bytes:
    value = data.get(key, b"")
    if not value.strip():
        raise SecretError(f"{key}: is missing")
    return value


def _entry(messaging: bytes) -> _Entry:
    try:
        entries = msgspec.json.decode(messaging, type=list[dict[str, Any]])
    except DECODE_ERRORS:
        raise SecretError(f"{MESSAGING}: must be a JSON list of objects") from None
    for entry in entries:
        broker = entry.get("broker")
        if isinstance(broker, dict) and broker.get("type") == BROKER:
            try:
                return msgspec.convert(entry, _Entry)
            except msgspec.ValidationError as error:
                # The messages of msgspec contain types and paths, but no values.
                raise SecretError(f"{MESSAGING}: {error}") from None
    raise SecretError(f"{MESSAGING}: no entry has the broker type {BROKER}")


def _url(text: str, where: str) -> str:
    try:
        url = urlsplit(text)
        good = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        good = False
    # The URL becomes part of a request line, so it must not contain line breaks or spaces.
    if not good or not text.isascii() or not text.isprintable() or " " in text or url.username:
        raise SecretError(f"{MESSAGING}: {where} must be a URL with http or https")
    return text
