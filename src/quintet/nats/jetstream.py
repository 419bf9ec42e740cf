"""JetStream: publish with acknowledgement, look after streams and consumers, pull.

Used by the publisher proxy, the dispatcher and the controllers. Each method is one request to the
server (`consumers` may be several) and raises an error of `errors`; `pulling` has the standing pull.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.nats.client import Client
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
    JetStreamUnavailable,
    NatsError,
    NoResponders,
    ProtocolError,
    StreamMissing,
    error_for,
)
from quintet.nats.messages import Message
from quintet.nats.pulling import Delivery, Pull

__all__ = [
    "EXPECTED_STREAM",
    "MESSAGE_ID",
    "AccountInfo",
    "Ack",
    "ConsumerConfig",
    "ConsumerInfo",
    "Delivery",
    "JetStream",
    "Pull",
    "StoredMessage",
    "StreamConfig",
    "StreamInfo",
    "StreamState",
    "ack_of",
]

MESSAGE_ID = "Nats-Msg-Id"
"""A header: a second message with the same value is not stored again for a while."""

EXPECTED_STREAM = "Nats-Expected-Stream"
"""A header: store it in this stream or not at all."""

_API = "$JS.API."
_PATIENCE = 5.0
# A server that lies about its number must not keep us busy for ever.
_MOST_CONSUMERS = 100_000

T = TypeVar("T")


class _Failure(msgspec.Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct, frozen=True):
    error: _Failure | None = None


class _PublishAnswer(msgspec.Struct, frozen=True, gc=False):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Failure | None = None


class _Deleted(msgspec.Struct, frozen=True):
    success: bool = False


class _Stored(msgspec.Struct, frozen=True):
    message: StoredMessage


class _Page(msgspec.Struct, frozen=True):
    total: int = 0
    offset: int = 0
    limit: int = 0
    consumers: tuple[ConsumerInfo, ...] | None = None


_answer = msgspec.json.Decoder(_Answer)
_published = msgspec.json.Decoder(_PublishAnswer)


def ack_of(message: Message) -> Ack:
    """Read the answer to a publish."""
    try:
        answer = _published.decode(message.payload)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"the answer to a publish cannot be read: {error}") from error
    if answer.error is not None:
        raise error_for(answer.error.code, answer.error.err_code, answer.error.description)
    if not answer.stream:
        raise ProtocolError("the answer to a publish names no stream")
    return Ack(stream=answer.stream, sequence=answer.seq, duplicate=answer.duplicate)


class JetStream:
    """The JetStream of the server that a client is connected to."""

    def __init__(self, client: Client, timeout: float = _PATIENCE) -> None:
        self.client = client
        self._timeout = timeout

    # Messages.

    async def publish(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str] | None = None,
        timeout: float = _PATIENCE,
    ) -> Ack:
        """Have a message stored; return when the server has it."""
        try:
            return ack_of(await self.client.ask(subject, payload, headers, timeout))
        except NoResponders as error:
            raise StreamMissing(f"no stream listens on {subject}") from error

    def send(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str] | None = None,
        timeout: float = _PATIENCE,
    ) -> asyncio.Future[Message]:
        """Like `publish`, without a coroutine: give the answer to `ack_of`. `NoResponders`: no stream."""
        return self.client.ask(subject, payload, headers, timeout)

    async def get_message(self, stream: str, sequence: int) -> StoredMessage:
        """Return a message by its place in the stream."""
        answer = await self._call(f"STREAM.MSG.GET.{stream}", {"seq": sequence}, _Stored)
        return answer.message

    def pull(
        self,
        stream: str,
        consumer: str,
        batch: int,
        callback: Callable[[Delivery], None],
        *,
        expires: float = 30.0,
        heartbeat: float = 5.0,
        on_trouble: Callable[[NatsError], None] | None = None,
    ) -> Pull:
        """Have messages handed to a callback, at most `batch` of them without our word on them."""
        return Pull(
            self.client,
            stream,
            consumer,
            callback,
            batch=batch,
            expires=expires,
            heartbeat=heartbeat,
            on_trouble=on_trouble,
        )

    # The account.

    async def account_info(self) -> AccountInfo:
        """What the account uses; fails where it has no JetStream."""
        return await self._call("INFO", None, AccountInfo)

    # Streams.

    async def stream_info(self, name: str) -> StreamInfo:
        """Return a stream as it is."""
        return await self._call(f"STREAM.INFO.{name}", None, StreamInfo)

    async def create_stream(self, config: StreamConfig) -> StreamInfo:
        """Make a stream; one that is the same already is fine."""
        return await self._call(f"STREAM.CREATE.{config.name}", config, StreamInfo)

    async def update_stream(self, config: StreamConfig) -> StreamInfo:
        """Change a stream."""
        return await self._call(f"STREAM.UPDATE.{config.name}", config, StreamInfo)

    async def delete_stream(self, name: str) -> None:
        """Remove a stream and all that it keeps."""
        await self._call(f"STREAM.DELETE.{name}", None, _Deleted)

    async def purge_stream(self, name: str) -> None:
        """Remove all that a stream keeps."""
        await self._call(f"STREAM.PURGE.{name}", None, _Deleted)

    # Consumers.

    async def create_or_update_consumer(self, stream: str, config: ConsumerConfig) -> ConsumerInfo:
        """Make a durable consumer, or change it in place."""
        wanted = {"stream_name": stream, "config": config, "action": ""}
        return await self._call(f"CONSUMER.CREATE.{stream}.{config.durable_name}", wanted, ConsumerInfo)

    async def consumer_info(self, stream: str, name: str) -> ConsumerInfo:
        """Return a consumer as it is."""
        return await self._call(f"CONSUMER.INFO.{stream}.{name}", None, ConsumerInfo)

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Remove a consumer."""
        await self._call(f"CONSUMER.DELETE.{stream}.{name}", None, _Deleted)

    async def consumers(self, stream: str) -> list[ConsumerInfo]:
        """Return all consumers of a stream."""
        found: list[ConsumerInfo] = []
        while True:
            page = await self._call(f"CONSUMER.LIST.{stream}", {"offset": len(found)}, _Page)
            found.extend(page.consumers or ())
            if not page.consumers or len(found) >= min(page.total, _MOST_CONSUMERS):
                return found

    async def _call(self, what: str, request: Any, answer: type[T]) -> T:
        payload = b"" if request is None else msgspec.json.encode(request)
        try:
            message = await self.client.ask(_API + what, payload, None, self._timeout)
        except NoResponders as error:
            raise JetStreamUnavailable("the server has no JetStream, or not for this account") from error
        try:
            if (failure := _answer.decode(message.payload).error) is not None:
                raise error_for(failure.code, failure.err_code, failure.description)
            return msgspec.json.decode(message.payload, type=answer)
        except DECODE_ERRORS as error:
            raise ProtocolError(f"the answer to {what} cannot be read: {error}") from error
