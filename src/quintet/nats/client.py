"""A client of one NATS server: publish, request, subscribe, and automatic reconnection.

A lost connection is reopened with exponential backoff, and its subscriptions are restored. Requests in flight
on a lost connection fail with `Disconnected`; the client does not buffer messages while it is disconnected.
"""

import asyncio
import logging
import random
import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from quintet.clock import Clock
from quintet.nats import protocol
from quintet.nats.connect import connect
from quintet.nats.connection import NatsConnection
from quintet.nats.errors import Closed, Disconnected, NatsError, NotPermitted, PayloadTooLarge, RequestTimeout
from quintet.nats.messages import Message
from quintet.nats.options import NatsOptions
from quintet.nats.protocol import ServerInfo
from quintet.nats.requests import PendingRequests

logger = logging.getLogger(__name__)

MessageCallback = Callable[[Message], None]

_FIRST_BACKOFF = 0.1
# A connection that lasted this long resets the backoff.
_STABLE_SECONDS = 10.0
# How long a replaced connection stays open for responses that are on their way.
_CLOSE_DELAY_SECONDS = 5.0
_INBOX_SID = 1  # the subscription id of the inbox for responses
_PUBLISH_VIOLATION = re.compile(
    r'Permissions Violation for Publish (?:to|with Reply of) "([^"]+)"', re.IGNORECASE
)


class NatsSubscription:
    """A subscription whose messages are passed to a callback."""

    def __init__(
        self, client: "NatsClient", sid: int, subject: str, queue: str, callback: MessageCallback
    ) -> None:
        self._client = client
        self.sid = sid
        self.subject = subject
        self.queue = queue
        self.callback = callback

    def unsubscribe(self) -> None:
        """End the subscription."""
        self._client.unsubscribe(self)


class NatsClient:
    """A NATS client. `async with` connects and raises if that fails; later connections are automatic."""

    def __init__(self, options: NatsOptions, clock: Clock) -> None:
        self._options = options
        self.clock = clock
        self._connection: NatsConnection | None = None
        self._requests = PendingRequests(clock)
        self._subscriptions: dict[int, NatsSubscription] = {}
        self._callbacks: dict[int, MessageCallback] = {_INBOX_SID: self._requests.resolve}
        self._last_sid = _INBOX_SID
        self._last_inbox = 0
        self._reconnect_task: asyncio.Task[None] | None = None
        self._move_task: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._closing = False
        self._connected_at = 0.0
        self._attempts = 0
        self._last_server_error = ""
        self.on_change: list[Callable[[bool], None]] = []
        """Called with True after connecting and with False after a connection was lost."""
        self.on_refusal: list[Callable[[str, NotPermitted], None]] = []
        """Called with a subject that the user may not publish to, after a message to it was dropped."""
        self.failure: NatsError | None = None
        """Why there is no connection; None while there is one."""

    async def __aenter__(self) -> Self:
        self._use(await self._connect())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def connected(self) -> bool:
        """Whether the client is connected."""
        return self._connection is not None

    @property
    def closed(self) -> bool:
        """Whether the client was closed or has given up reconnecting."""
        return self._closed.is_set()

    @property
    def info(self) -> ServerInfo:
        """The last INFO of the server."""
        return self._connection.info if self._connection else ServerInfo()

    @property
    def inbox(self) -> str:
        """The subject prefix of responses to this client."""
        return self._requests.inbox

    def new_inbox(self) -> str:
        """Return a subject that only this client uses."""
        self._last_inbox += 1
        return f"{self.inbox[:-1]}p.{self._last_inbox}"

    # Publish and request.

    def publish(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        """Queue a message for sending; all messages of one event loop iteration are written together."""
        connection = self._connection
        if connection is None:
            raise self._not_connected()
        protocol.check_subject(subject)
        message, limit = (
            protocol.encode_publish(subject, payload, headers, reply),
            connection.info.max_payload,
        )
        # Headers count too, and a server closes the connection of a client that sends more.
        if len(message) > limit and (size := len(message) - message.index(b"\n") - 3) > limit:
            raise PayloadTooLarge(f"the message has {size} bytes, the NATS server accepts {limit}")
        connection.send(message)

    def send_request(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, timeout: float = 5.0
    ) -> asyncio.Future[Message]:
        """Send a request and return a future of its response."""
        reply, future = self._requests.open(subject, timeout)
        try:
            self.publish(subject, payload, headers, reply)
        except BaseException:
            self._requests.discard(reply)
            raise
        return future

    async def request(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, timeout: float = 5.0
    ) -> Message:
        """Send a request and wait for its response."""
        return await self.send_request(subject, payload, headers, timeout)

    async def flush(self, timeout: float = 5.0) -> None:
        """Wait until the server has processed everything that was sent so far."""
        processed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_pong(error: Exception | None) -> None:
            if not processed.done():
                processed.set_exception(Disconnected(str(error))) if error else processed.set_result(None)

        def on_timeout() -> None:
            if not processed.done():
                processed.set_exception(RequestTimeout("the NATS server did not respond to a PING in time"))

        self.ping(on_pong)
        timer = self.clock.call_later(timeout, on_timeout)
        try:
            await processed
        finally:
            timer.cancel()

    def ping(self, on_pong: Callable[[Exception | None], None]) -> None:
        """Send a PING; call back with None on its PONG, or with an error if the connection is lost."""
        if self._connection is None:
            raise self._not_connected()
        self._connection.ping(on_pong)

    # Subscribe.

    def subscribe(self, subject: str, callback: MessageCallback, queue: str = "") -> NatsSubscription:
        """Subscribe to a subject, also after reconnecting; the callback must not block."""
        protocol.check_subject(subject)
        if queue:
            protocol.check_subject(queue)
        if self._closing:
            raise self._not_connected()
        self._last_sid += 1
        subscription = NatsSubscription(self, self._last_sid, subject, queue, callback)
        if self._connection is not None:
            self._connection.send(protocol.encode_subscribe(subject, queue, subscription.sid))
        # Registered only now: if sending fails, there is no subscription to end.
        self._subscriptions[subscription.sid] = subscription
        self._callbacks[subscription.sid] = callback
        return subscription

    def unsubscribe(self, subscription: NatsSubscription) -> None:
        """End a subscription; does nothing if it has ended."""
        if self._subscriptions.pop(subscription.sid, None) is None:
            return
        del self._callbacks[subscription.sid]
        if self._connection is not None and not self._connection.lost:
            self._connection.send_unlimited(protocol.encode_unsubscribe(subscription.sid))

    # Close.

    async def close(self) -> None:
        """Close the connection; requests in flight fail with `Closed`."""
        self._closing = True
        for task in (self._reconnect_task, self._move_task):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self._notify(connected=False)
        self._finish(Closed("the client was closed"))

    async def wait_closed(self) -> None:
        """Wait until the client was closed or has given up reconnecting."""
        await self._closed.wait()

    def _finish(self, error: NatsError) -> None:
        self.failure = self.failure or error
        self._requests.fail(error)
        self._requests.close()
        self._closed.set()

    # Callbacks of the connection.

    def on_message(self, message: Message) -> None:
        """Pass a message to the callback of its subscription."""
        callback = self._callbacks.get(message.subscription)
        if callback is None:
            return
        try:
            callback(message)
        except Exception:
            logger.exception("the callback for a message on %s failed", message.subject)

    def on_info(self, connection: NatsConnection, info: ServerInfo) -> None:
        """Move to another server if this one announces that it shuts down (lame duck mode)."""
        if info.ldm and connection is self._connection and self._move_task is None:
            self._move_task = asyncio.create_task(self._move(), name="nats-move")

    def on_error(self, text: str) -> None:
        """Log an error of the server, and fail the requests that it concerns."""
        if text != self._last_server_error:  # a server may repeat it for every message
            self._last_server_error = text
            logger.warning("the NATS server at %s reported an error: %s", self._options.address, text)
        if found := _PUBLISH_VIOLATION.search(text):
            error = NotPermitted(f"no permission to publish to {found[1]}")
            self._requests.fail(error, found[1])
            for callback in list(self.on_refusal):
                callback(found[1], error)

    def on_lost(self, connection: NatsConnection, error: Exception | None) -> None:
        """Fail the requests in flight and start to reconnect."""
        if connection is not self._connection:
            return
        self._connection = None
        reason = str(error or "the server closed the connection")
        self.failure = error if isinstance(error, NatsError) else Disconnected(reason)
        lost = (
            error
            if isinstance(error, NotPermitted)
            else Disconnected(f"lost the connection to NATS: {reason}")
        )
        self._requests.fail(lost)
        self._notify(connected=False)
        if self.clock.monotonic() - self._connected_at > _STABLE_SECONDS:
            self._attempts = 0
        if not self._closing:
            logger.warning("lost the connection to NATS at %s: %s", self._options.address, reason)
            self._reconnect_task = asyncio.create_task(self._reconnect(), name="nats-reconnect")

    # Connect.

    async def _connect(self) -> NatsConnection:
        # The login subscribes to responses, so that a user without permission to receive them is rejected.
        return await connect(self._options, protocol.encode_subscribe(f"{self.inbox}*", "", _INBOX_SID))

    def _use(self, connection: NatsConnection) -> None:
        if connection.lost:
            raise Disconnected(f"lost the connection to NATS: {connection.error}")
        self._connection = connection
        self._connected_at = self.clock.monotonic()
        self.failure = None
        commands = [
            protocol.encode_subscribe(each.subject, each.queue, each.sid)
            for each in self._subscriptions.values()
        ]
        if commands:
            connection.send(b"".join(commands))
        connection.start(self, self.clock, self._options.ping_seconds)
        self._notify(connected=True)

    async def _reconnect(self) -> None:
        while self._options.max_reconnects < 0 or self._attempts < self._options.max_reconnects:
            backoff = min(_FIRST_BACKOFF * 2 ** min(self._attempts, 20), self._options.reconnect_seconds)
            self._attempts += 1
            # Jitter, so that the clients of a restarted server do not reconnect at the same moment.
            await self.clock.sleep(backoff * random.uniform(0.8, 1.2))
            try:
                self._use(await self._connect())
            except NatsError as error:
                self.failure = error
                logger.info("reconnecting to NATS failed (attempt %d): %s", self._attempts, error)
                continue
            logger.info("reconnected to NATS at %s", self._options.address)
            return
        logger.error(
            "gave up reconnecting to NATS at %s after %d attempts", self._options.address, self._attempts
        )
        self._closing = True
        self._finish(Closed(f"gave up after {self._attempts} attempts: {self.failure}"))

    async def _move(self) -> None:
        """Connect to another server of the same host name, and leave the one that shuts down."""
        old, backoff = self._connection, _FIRST_BACKOFF
        try:
            while old is not None and self._connection is old:
                try:
                    new = await self._connect()
                    if new.lost:  # using it would lose every subscription
                        raise Disconnected("the new connection was lost immediately")
                except NatsError:
                    await self.clock.sleep(backoff)
                    backoff = min(2 * backoff, self._options.reconnect_seconds)
                    continue
                if self._connection is not old:
                    new.abort()  # the old connection is lost, and `_reconnect` replaces it
                    return
                for sid in self._subscriptions:
                    old.send_unlimited(protocol.encode_unsubscribe(sid))
                self._use(new)
                logger.info("moved from a NATS server that shuts down to %s", new.info.server_name)
                self.clock.call_later(_CLOSE_DELAY_SECONDS, old.close)
                return
        finally:
            self._move_task = None

    def _notify(self, *, connected: bool) -> None:
        for callback in list(self.on_change):
            try:
                callback(connected)
            except Exception:
                logger.exception("a callback for changes of the NATS connection failed")

    def _not_connected(self) -> Disconnected:
        if self._closing:
            return Closed("the connection to NATS is closed")
        return Disconnected(f"not connected to NATS at {self._options.address}: {self.failure}")
