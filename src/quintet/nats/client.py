"""A client of one NATS server that stays connected: publish, request, subscribe.

Used by `jetstream` and by everybody who talks to NATS. Leaving a connection is noticed, it is made
again with growing pauses, and every subscription with it. What was in flight when a connection was
lost fails with `Disconnected`: nothing is kept for later behind the caller's back.
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
from quintet.nats.dial import dial
from quintet.nats.errors import Closed, Disconnected, NatsError, NotPermitted, PayloadTooLarge, RequestTimeout
from quintet.nats.messages import Message
from quintet.nats.options import Options
from quintet.nats.protocol import ServerInfo
from quintet.nats.requests import Requests
from quintet.nats.wire import Wire

logger = logging.getLogger(__name__)

Callback = Callable[[Message], None]

_FIRST_PAUSE = 0.1
# A connection that lasted so long was a good one; after a shorter one the pauses go on growing.
_STEADY_SECONDS = 10.0
# How long a connection that was replaced may still bring answers.
_FAREWELL_SECONDS = 5.0
_INBOX = 1  # the number of the subscription that brings answers
_FORBIDDEN = re.compile(r'Permissions Violation for Publish to "([^"]+)"', re.IGNORECASE)


class Subscription:
    """Messages of one subject, handed to a callback as they arrive."""

    def __init__(self, client: "Client", number: int, subject: str, queue: str, callback: Callback) -> None:
        self._client = client
        self.number = number
        self.subject = subject
        self.queue = queue
        self.callback = callback

    def unsubscribe(self) -> None:
        """Receive no more."""
        self._client.end(self)


class Client:
    """Connects on `async with`, which fails if the first attempt does; from then on by itself."""

    def __init__(self, options: Options, clock: Clock) -> None:
        self._options = options
        self.clock = clock
        self._wire: Wire | None = None
        self._requests = Requests(clock)
        self._subscriptions: dict[int, Subscription] = {}
        self._callbacks: dict[int, Callback] = {_INBOX: self._requests.answer}
        self._last_number = _INBOX
        self._last_inbox = 0
        self._keeper: asyncio.Task[None] | None = None
        self._mover: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._closing = False
        self._since = 0.0
        self._tries = 0
        self._last_refusal = ""
        self.on_change: list[Callable[[bool], None]] = []
        """Told True when connected, False when not."""
        self.failure: NatsError | None = None
        """Why there is no connection; None while there is one."""

    async def __aenter__(self) -> Self:
        self._adopt(await dial(self._options))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._wire is not None

    @property
    def closed(self) -> bool:
        """Whether there will be none any more."""
        return self._ended.is_set()

    @property
    def info(self) -> ServerInfo:
        """What the server said of itself last."""
        return self._wire.info if self._wire else ServerInfo()

    @property
    def inbox(self) -> str:
        """The beginning of subjects that are ours alone."""
        return self._requests.inbox

    def private_inbox(self) -> str:
        """A subject that nobody else uses, below which more may be made."""
        self._last_inbox += 1
        return f"{self.inbox[:-1]}p.{self._last_inbox}"

    # Sending.

    def publish(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        """Hand a message to the connection; it leaves with all others of this turn of the event loop."""
        wire = self._wire
        if wire is None:
            raise self._no_connection()
        protocol.check_subject(subject)
        message, most = protocol.publish(subject, payload, headers, reply), wire.info.max_payload
        # Headers count, too, and a server ends the connection of whoever sends more.
        if len(message) > most and (size := len(message) - message.index(b"\n") - 3) > most:
            raise PayloadTooLarge(f"{size} bytes are more than NATS takes in a message ({most})")
        wire.send(message)

    def ask(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, timeout: float = 5.0
    ) -> asyncio.Future[Message]:
        """Like `request`, for those who wait for many answers at once: the answer as a future."""
        reply, future = self._requests.open(subject, timeout)
        try:
            self.publish(subject, payload, headers, reply)
        except BaseException:
            self._requests.forget(reply)
            raise
        return future

    async def request(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, timeout: float = 5.0
    ) -> Message:
        """Wait for the answer to a message."""
        return await self.ask(subject, payload, headers, timeout)

    async def flush(self, timeout: float = 5.0) -> None:
        """Wait until the server has read everything that was sent so far."""
        read: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answered(error: Exception | None) -> None:
            if not read.done():
                read.set_exception(Disconnected(str(error))) if error else read.set_result(None)

        def late() -> None:
            if not read.done():
                read.set_exception(RequestTimeout("NATS did not answer a PING in time"))

        self.ping(answered)
        timer = self.clock.call_later(timeout, late)
        try:
            await read
        finally:
            timer.cancel()

    def ping(self, answered: Callable[[Exception | None], None]) -> None:
        """Call back when the server has read everything that was sent so far, or never will."""
        if self._wire is None:
            raise self._no_connection()
        self._wire.ping(answered)

    # Receiving.

    def subscribe(self, subject: str, callback: Callback, queue: str = "") -> Subscription:
        """Have messages handed to a callback, which must not block; also after a reconnect."""
        protocol.check_subject(subject)
        if queue:
            protocol.check_subject(queue)
        if self._closing:
            raise self._no_connection()
        self._last_number += 1
        made = Subscription(self, self._last_number, subject, queue, callback)
        if self._wire is not None:
            self._wire.send(protocol.subscribe(subject, queue, made.number))
        # Only now: whoever gets an error has no subscription to end.
        self._subscriptions[made.number] = made
        self._callbacks[made.number] = callback
        return made

    def end(self, subscription: Subscription) -> None:
        """End a subscription."""
        if self._subscriptions.pop(subscription.number, None) is None:
            return
        del self._callbacks[subscription.number]
        if self._wire is not None and not self._wire.ended:
            self._wire.send_always(protocol.unsubscribe(subscription.number))

    # The end.

    async def drain(self, timeout: float = 10.0) -> None:
        """Receive nothing new, let everything that was asked be answered, then close."""
        for subscription in list(self._subscriptions.values()):
            subscription.unsubscribe()
        deadline = self.clock.monotonic() + timeout
        try:
            while self._requests and self.connected and self.clock.monotonic() < deadline:
                await self.clock.sleep(0.02)
            if self.connected:
                await self.flush(max(0.1, deadline - self.clock.monotonic()))
        except NatsError as error:
            logger.warning("NATS went away while leaving it: %s", error)
        await self.close()

    async def close(self) -> None:
        """End the connection; whoever waits for an answer gets `Closed`."""
        self._closing = True
        for task in (self._keeper, self._mover):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
            self._tell(connected=False)
        self._finish(Closed("the client was closed"))

    async def wait_closed(self) -> None:
        """Wait until the client was closed, or has given up."""
        await self._ended.wait()

    def _finish(self, error: NatsError) -> None:
        self.failure = self.failure or error
        self._requests.fail(error)
        self._requests.close()
        self._ended.set()

    # What the wire tells.

    def message(self, message: Message) -> None:
        """A message has arrived."""
        callback = self._callbacks.get(message.subscription)
        if callback is None:
            return
        try:
            callback(message)
        except Exception:
            logger.exception("handling a message on %s failed", message.subject)

    def info_changed(self, wire: Wire, info: ServerInfo) -> None:
        """The server says anew what it is; one that is about to stop is left in time."""
        if info.ldm and wire is self._wire and self._mover is None:
            self._mover = asyncio.create_task(self._move(), name="nats-move")

    def refusal(self, text: str) -> None:
        """The server did not do something."""
        if text != self._last_refusal:  # a server may say it for every message
            self._last_refusal = text
            logger.warning("NATS at %s refused: %s", self._options.place, text)
        if found := _FORBIDDEN.search(text):
            self._requests.fail(NotPermitted(f"not permitted to publish to {found[1]}"), found[1])

    def lost(self, wire: Wire, error: Exception | None) -> None:
        """A connection is over."""
        if wire is not self._wire:
            return
        self._wire = None
        reason = str(error or "the server closed the connection")
        self.failure = error if isinstance(error, NatsError) else Disconnected(reason)
        self._requests.fail(Disconnected(f"the connection to NATS was lost: {reason}"))
        self._tell(connected=False)
        if self.clock.monotonic() - self._since > _STEADY_SECONDS:
            self._tries = 0
        if not self._closing:
            logger.warning("lost the connection to NATS at %s: %s", self._options.place, reason)
            self._keeper = asyncio.create_task(self._reconnect(), name="nats-reconnect")

    # Making connections.

    def _adopt(self, wire: Wire) -> None:
        if wire.ended:
            raise Disconnected(f"the connection to NATS was lost: {wire.error}")
        self._wire = wire
        self._since = self.clock.monotonic()
        self.failure = None
        words = [protocol.subscribe(f"{self.inbox}*", "", _INBOX)]
        words += [
            protocol.subscribe(each.subject, each.queue, each.number) for each in self._subscriptions.values()
        ]
        wire.send(b"".join(words))
        wire.attend(self, self.clock, self._options.ping_seconds)
        self._tell(connected=True)

    async def _reconnect(self) -> None:
        while self._options.max_reconnects < 0 or self._tries < self._options.max_reconnects:
            pause = min(_FIRST_PAUSE * 2 ** min(self._tries, 20), self._options.reconnect_seconds)
            self._tries += 1
            # Not all clients of a server that comes back should come at the same moment.
            await self.clock.sleep(pause * random.uniform(0.8, 1.2))
            try:
                self._adopt(await dial(self._options))
            except NatsError as error:
                self.failure = error
                logger.info("connecting to NATS again failed (try %d): %s", self._tries, error)
                continue
            logger.info("connected to NATS at %s again", self._options.place)
            return
        logger.error("gave up connecting to NATS at %s after %d tries", self._options.place, self._tries)
        self._closing = True
        self._finish(Closed(f"gave up after {self._tries} tries: {self.failure}"))

    async def _move(self) -> None:
        """Leave a server that is about to stop for another one behind the same name, if there is one."""
        old, pause = self._wire, _FIRST_PAUSE
        try:
            while old is not None and self._wire is old:
                try:
                    new = await dial(self._options)
                    if new.ended:  # to leave the old one for it would lose every subscription
                        raise Disconnected("the connection was lost at once")
                except NatsError:
                    await self.clock.sleep(pause)
                    pause = min(2 * pause, self._options.reconnect_seconds)
                    continue
                if self._wire is not old:
                    new.abort()  # it is lost already, and replaced by `_reconnect`
                    return
                for number in self._subscriptions:
                    old.send_always(protocol.unsubscribe(number))
                self._adopt(new)
                logger.info("left a NATS server that is about to stop for %s", new.info.server_name)
                self.clock.call_later(_FAREWELL_SECONDS, old.close)
                return
        finally:
            self._mover = None

    def _tell(self, *, connected: bool) -> None:
        for callback in list(self.on_change):
            try:
                callback(connected)
            except Exception:
                logger.exception("somebody who follows the connection to NATS failed")

    def _no_connection(self) -> Disconnected:
        if self._closing:
            return Closed("the connection to NATS is closed")
        return Disconnected(f"there is no connection to NATS at {self._options.place}: {self.failure}")
