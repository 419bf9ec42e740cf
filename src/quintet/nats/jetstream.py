"""JetStream: publish with acknowledgement, manage streams and consumers, pull messages.

Each method sends one request to the server (`consumers` one per page) and raises errors of `nats.errors`.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.nats.client import NatsClient
from quintet.nats.config import (
    AccountInfo,
    Ack,
    ConsumerConfig,
    ConsumerInfo,
    StoredMessage,
    StreamConfig,
    StreamInfo,
    StreamState,
)
from quintet.nats.errors import (
    JetStreamError,
    JetStreamUnavailable,
    MessageNotFound,
    NatsError,
    NoResponders,
    ProtocolError,
    StreamMissing,
    error_for,
)
from quintet.nats.messages import Message
from quintet.nats.pull_consumer import Delivery, PullConsumer

__all__ = [
    "EXPECTED_STREAM",
    "MESSAGE_ID",
    "AccountInfo",
    "Ack",
    "ConsumerConfig",
    "ConsumerInfo",
    "Delivery",
    "JetStream",
    "PullConsumer",
    "StoredMessage",
    "StreamConfig",
    "StreamInfo",
    "StreamState",
    "parse_ack",
]

MESSAGE_ID = "Nats-Msg-Id"
"""Header for deduplication: the stream drops a second message with the same value."""

EXPECTED_STREAM = "Nats-Expected-Stream"
"""Header: store the message in this stream or reject it."""

_EXPECTED_LAST_ID = "Nats-Expected-Last-Msg-Id"
_API = "$JS.API."
_TIMEOUT = 5.0
# Bounds what a server can make us read; servers send 256 consumers per page.
_MAX_CONSUMERS = 100_000
_MAX_PAGES = 400

T = TypeVar("T")


class _ErrorBody(msgspec.Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Response(msgspec.Struct, frozen=True):
    error: _ErrorBody | None = None


class _PublishResponse(msgspec.Struct, frozen=True, gc=False):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _ErrorBody | None = None


class _DeleteResponse(msgspec.Struct, frozen=True):
    success: bool = False
    purged: int = 0


class _StoredResponse(msgspec.Struct, frozen=True):
    message: StoredMessage


class _ConsumerPage(msgspec.Struct, frozen=True):
    total: int = 0
    offset: int = 0
    limit: int = 0
    consumers: tuple[ConsumerInfo, ...] | None = None


_response_decoder = msgspec.json.Decoder(_Response)
_publish_decoder = msgspec.json.Decoder(_PublishResponse)


def parse_ack(message: Message) -> Ack:
    """Return the acknowledgement of a published message."""
    try:
        response = _publish_decoder.decode(message.payload)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"invalid publish acknowledgement: {error}") from error
    if response.error is not None:
        raise error_for(response.error.code, response.error.err_code, response.error.description)
    if not response.stream:
        raise ProtocolError("a publish acknowledgement without a stream")
    return Ack(stream=response.stream, sequence=response.seq, duplicate=response.duplicate)


class JetStream:
    """The JetStream API of the server that a client is connected to."""

    def __init__(self, client: NatsClient, timeout: float = _TIMEOUT) -> None:
        self.client = client
        self._timeout = timeout

    # Messages.

    async def publish(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str] | None = None,
        timeout: float = _TIMEOUT,
    ) -> Ack:
        """Publish a message and wait until the server has stored it."""
        try:
            return parse_ack(await self.client.send_request(subject, payload, headers, timeout))
        except NoResponders as error:
            raise StreamMissing(f"no stream has the subject {subject}") from error

    def send(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str] | None = None,
        timeout: float = _TIMEOUT,
    ) -> asyncio.Future[Message]:
        """Publish a message and return a future for `parse_ack`; `NoResponders` means no stream."""
        return self.client.send_request(subject, payload, headers, timeout)

    async def check_publish(self, subject: str) -> None:
        """Raise `NotPermitted` if the user may not publish to a subject; stores nothing."""
        headers = {_EXPECTED_LAST_ID: secrets.token_hex(11)}  # the stream rejects the message
        with contextlib.suppress(JetStreamError, NoResponders):
            await self.publish(subject, b"", headers, self._timeout)

    async def get_message(self, stream: str, sequence: int) -> StoredMessage:
        """Return a message by its sequence number."""
        response = await self._call(f"STREAM.MSG.GET.{stream}", {"seq": sequence}, _StoredResponse)
        return response.message

    async def next_message(self, stream: str, subject: str, sequence: int) -> StoredMessage:
        """Return the first message with a subject, from a sequence number on."""
        request = {"seq": sequence, "next_by_subj": subject}
        return (await self._call(f"STREAM.MSG.GET.{stream}", request, _StoredResponse)).message

    async def delete_message(self, stream: str, sequence: int) -> None:
        """Delete a message, if it exists."""
        with contextlib.suppress(MessageNotFound):
            request = {"seq": sequence, "no_erase": True}
            await self._call(f"STREAM.MSG.DELETE.{stream}", request, _DeleteResponse)

    def pull(
        self,
        stream: str,
        consumer: str,
        batch: int,
        callback: Callable[[Delivery], None],
        *,
        expires: float = 30.0,
        heartbeat: float = 5.0,
        on_error: Callable[[NatsError], None] | None = None,
    ) -> PullConsumer:
        """Pass the messages of a consumer to a callback, with at most `batch` of them unacknowledged."""
        return PullConsumer(
            self.client,
            stream,
            consumer,
            callback,
            batch=batch,
            expires=expires,
            heartbeat=heartbeat,
            on_error=on_error,
        )

    # Account.

    async def account_info(self) -> AccountInfo:
        """Return the usage of the account; raises `JetStreamUnavailable` if it has no JetStream."""
        return await self._call("INFO", None, AccountInfo)

    # Streams.

    async def stream_info(self, name: str, subjects_filter: str = "") -> StreamInfo:
        """Return configuration and state of a stream, with the first 100,000 subjects that match a filter."""
        request = {"subjects_filter": subjects_filter} if subjects_filter else None
        return await self._call(f"STREAM.INFO.{name}", request, StreamInfo)

    async def create_stream(self, config: StreamConfig) -> StreamInfo:
        """Create a stream; succeeds if it exists with the same configuration."""
        return await self._call(f"STREAM.CREATE.{config.name}", config, StreamInfo)

    async def update_stream(self, config: StreamConfig) -> StreamInfo:
        """Update the configuration of a stream."""
        return await self._call(f"STREAM.UPDATE.{config.name}", config, StreamInfo)

    async def delete_stream(self, name: str) -> None:
        """Delete a stream and its messages."""
        await self._call(f"STREAM.DELETE.{name}", None, _DeleteResponse)

    async def purge_stream(self, name: str, subject: str = "") -> int:
        """Delete all messages of a stream, or those of a subject; return how many."""
        only = {"filter": subject} if subject else None
        return (await self._call(f"STREAM.PURGE.{name}", only, _DeleteResponse)).purged

    # Consumers.

    async def create_or_update_consumer(self, stream: str, config: ConsumerConfig) -> ConsumerInfo:
        """Create a durable consumer, or update it in place."""
        request = {"stream_name": stream, "config": config, "action": ""}
        return await self._call(f"CONSUMER.CREATE.{stream}.{config.durable_name}", request, ConsumerInfo)

    async def consumer_info(self, stream: str, name: str) -> ConsumerInfo:
        """Return configuration and state of a consumer."""
        return await self._call(f"CONSUMER.INFO.{stream}.{name}", None, ConsumerInfo)

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Delete a consumer."""
        await self._call(f"CONSUMER.DELETE.{stream}.{name}", None, _DeleteResponse)

    async def consumers(self, stream: str) -> list[ConsumerInfo]:
        """Return all consumers of a stream."""
        found: list[ConsumerInfo] = []
        for _ in range(_MAX_PAGES):
            page = await self._call(f"CONSUMER.LIST.{stream}", {"offset": len(found)}, _ConsumerPage)
            found.extend(page.consumers or ())
            if not page.consumers or len(found) >= min(page.total, _MAX_CONSUMERS):
                return found
        raise ProtocolError(
            f"the server sent the consumers of stream {stream} in more than {_MAX_PAGES} pages"
        )

    async def _call(self, method: str, request: Any, response: type[T]) -> T:
        payload = b"" if request is None else msgspec.json.encode(request)
        try:
            message = await self.client.send_request(_API + method, payload, None, self._timeout)
        except NoResponders as error:
            raise JetStreamUnavailable("the server has no JetStream, or not for this account") from error
        try:
            if (failure := _response_decoder.decode(message.payload).error) is not None:
                raise error_for(failure.code, failure.err_code, failure.description)
            return msgspec.json.decode(message.payload, type=response)
        except DECODE_ERRORS as error:
            raise ProtocolError(f"invalid response to {method}: {error}") from error
