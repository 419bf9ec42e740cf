"""Continuous pull requests to a JetStream consumer, with a bounded number of unacknowledged messages.

A pull request asks for as many messages as there is room for, and the next one follows when half of the room
is free. The server confirms an open request by heartbeats. When they stop, after a reconnect and after an
error, a new request with a new inbox replaces all earlier ones.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from quintet.apis.text import parse_number
from quintet.nats.client import NatsClient, NatsSubscription
from quintet.nats.config import SECOND
from quintet.nats.errors import (
    ConsumerNotFound,
    Disconnected,
    JetStreamError,
    NatsError,
    NotPermitted,
    NotReady,
    ProtocolError,
)
from quintet.nats.messages import Message

if TYPE_CHECKING:
    from quintet.clock import Clock, Timer

logger = logging.getLogger(__name__)

# Status codes of the server for a pull request.
_HEARTBEAT, _NO_MESSAGES, _EXPIRED, _TERMINATED, _NO_RESPONDERS = 100, 404, 408, 409, 503
_FIRST_BACKOFF, _MAX_BACKOFF = 0.25, 10.0


class Delivery:
    """One delivery of a message. Acknowledge it once with `ack`, `nak` or `term`; later calls do nothing."""

    __slots__ = (
        "_client",
        "_on_acknowledge",
        "delivered",
        "message",
        "pending",
        "stored_at",
        "stream_sequence",
    )

    def __init__(self, client: NatsClient, message: Message, on_acknowledge: Callable[[], None]) -> None:
        self.message = message
        self._client = client
        self._on_acknowledge: Callable[[], None] | None = on_acknowledge
        tokens = message.reply.split(".")
        # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>; servers of a
        # cluster may put a domain and an account before the stream.
        first = 2 if len(tokens) == 9 else 4
        if len(tokens) < first + 7 or tokens[0] != "$JS" or tokens[1] != "ACK":
            raise ProtocolError(f"a delivery with an invalid reply subject: {message.reply[:80]!r}")
        try:
            self.delivered = int(tokens[first + 2])
            self.stream_sequence = int(tokens[first + 3])
            self.stored_at = int(tokens[first + 5]) / SECOND
            self.pending = int(tokens[first + 6])
        except (ValueError, OverflowError) as error:
            raise ProtocolError(
                f"a delivery with an invalid reply subject: {message.reply[:80]!r}"
            ) from error

    @property
    def is_acknowledged(self) -> bool:
        """Whether `ack`, `nak` or `term` was called."""
        return self._on_acknowledge is None

    def ack(self) -> None:
        """Acknowledge the message. If that raises `Disconnected`, the server redelivers the message."""
        self._acknowledge(b"+ACK")

    def nak(self, delay: float = 0.0) -> None:
        """Ask for redelivery, after a delay in seconds."""
        self._acknowledge(b'-NAK {"delay": %d}' % int(delay * SECOND) if delay > 0 else b"-NAK")

    def term(self, reason: str = "") -> None:
        """Ask never to deliver the message again."""
        self._acknowledge(f"+TERM {reason}".encode() if reason else b"+TERM")

    def in_progress(self) -> None:
        """Restart the acknowledgement timeout of the server."""
        if self._on_acknowledge is not None:
            self._client.publish(self.message.reply, b"+WPI")

    async def ack_confirmed(self, timeout: float = 5.0) -> None:
        """Acknowledge the message and wait for the confirmation of the server."""
        if self._complete():
            await self._client.request(self.message.reply, b"+ACK", timeout=timeout)

    def _acknowledge(self, payload: bytes) -> None:
        if self._complete():
            self._client.publish(self.message.reply, payload)

    def _complete(self) -> bool:
        """Return True on the first call."""
        callback, self._on_acknowledge = self._on_acknowledge, None
        if callback is None:
            return False
        # Also if the acknowledgement cannot be sent: the message is no longer in flight here.
        callback()
        return True


class PullConsumer:
    """Passes the messages of a JetStream consumer to a callback until it is stopped."""

    def __init__(
        self,
        client: NatsClient,
        stream: str,
        consumer: str,
        callback: Callable[[Delivery], None],
        *,
        batch: int,
        expires: float,
        heartbeat: float,
        on_error: Callable[[NatsError], None] | None = None,
    ) -> None:
        self._client = client
        self._clock: Clock = client.clock
        self._callback = callback
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._name = f"{stream}/{consumer}"
        self._batch = batch
        self._expires = expires
        self._heartbeat = min(heartbeat, expires / 2)
        self._on_error = on_error
        self._subscription: NatsSubscription | None = None
        self._generation = 0
        self._requested = 0
        self._in_flight = 0
        self._last_heard = 0.0
        self._backoff = _FIRST_BACKOFF
        self._heartbeat_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._stopped = False
        self.is_active = False
        """Whether the server has confirmed our pull request."""
        self.failure: NatsError | None = None
        """Why the last pull request failed; None after one was confirmed."""
        client.on_change.append(self._on_change)
        client.on_refusal.append(self._on_refusal)
        self._start()

    @property
    def in_flight(self) -> int:
        """The number of messages that are not acknowledged yet."""
        return self._in_flight

    def stop(self) -> None:
        """Stop pulling; messages in flight can still be acknowledged."""
        if self._stopped:
            return
        self._stopped = True
        self._client.on_change.remove(self._on_change)
        self._client.on_refusal.remove(self._on_refusal)
        self._cancel()

    # Pull requests.

    def _start(self) -> None:
        """Send a new pull request with a new inbox; the server redelivers what went to the old one."""
        self._cancel()
        if self._stopped or not self._client.connected:
            return
        self._generation += 1
        number = self._generation
        inbox = f"{self._client.new_inbox()}.{number}"
        try:
            self._subscription = self._client.subscribe(inbox, self._on_message)
            self._last_heard = self._clock.monotonic()
            self._request()
            self._client.ping(lambda error: self._on_pong(number, error))
        except Disconnected:
            return  # `_on_change` starts again after the reconnect
        except NatsError as error:
            self._retry_later(error)
            return
        self._heartbeat_timer = self._clock.call_later(self._heartbeat, self._check_heartbeat)

    def _cancel(self) -> None:
        self.is_active = False
        self._requested = 0
        for timer in (self._heartbeat_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        self._heartbeat_timer = self._retry_timer = None
        if self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            try:
                subscription.unsubscribe()
            except NatsError as error:
                logger.debug("cannot unsubscribe the old inbox of %s: %s", self._name, error)

    def _request(self) -> None:
        """Request as many messages as there is room for, unless more than half of the room is in use."""
        room = self._batch - self._in_flight - self._requested
        if self._subscription is None or room <= 0 or 2 * (self._requested + self._in_flight) > self._batch:
            return
        request = {
            "batch": room,
            "expires": int(self._expires * SECOND),
            "idle_heartbeat": int(self._heartbeat * SECOND),
        }
        self._requested += room
        self._client.publish(self._subject, msgspec.json.encode(request), reply=self._subscription.subject)

    def _on_pong(self, number: int, error: Exception | None) -> None:
        """Mark the pull request as confirmed: an error would have arrived before the PONG."""
        if error is None and number == self._generation and self._subscription is not None:
            self.is_active, self.failure = True, None

    def _on_refusal(self, subject: str, error: NotPermitted) -> None:
        if subject == self._subject and not self._stopped:
            self._retry_later(error)

    def _on_change(self, connected: bool) -> None:
        if connected:
            self._start()
        else:
            self._cancel()

    def _check_heartbeat(self) -> None:
        """Start again after two missed heartbeats: the server has lost our pull request."""
        self._heartbeat_timer = None
        silence = self._clock.monotonic() - self._last_heard
        if self._requested and silence > 2.5 * self._heartbeat:
            logger.warning(
                "no heartbeat from consumer %s for %.1f s: sending a new pull request", self._name, silence
            )
            self._start()
            return
        self._heartbeat_timer = self._clock.call_later(self._heartbeat, self._check_heartbeat)

    # Messages.

    def _on_message(self, message: Message) -> None:
        self._last_heard = self._clock.monotonic()
        if not message.head or not (status := message.status):
            self._requested = max(0, self._requested - 1)
            self._in_flight += 1
            self._backoff = _FIRST_BACKOFF
            try:
                delivery = Delivery(self._client, message, self._on_acknowledge)
            except ProtocolError:
                self._in_flight -= 1
                raise
            self._callback(delivery)
        elif status == _HEARTBEAT:
            self._backoff = _FIRST_BACKOFF
        elif status in (_NO_MESSAGES, _EXPIRED) or (
            status == _TERMINATED and message.status_text == "Batch Completed"
        ):
            left = parse_number((message.headers or {}).get("Nats-Pending-Messages", ""))
            self._requested = max(0, self._requested - left) if left is not None else 0
            self._try_request()
        else:
            self._retry_later(_status_error(status, message.status_text, self._name))

    def _on_acknowledge(self) -> None:
        self._in_flight -= 1
        self._try_request()

    def _try_request(self) -> None:
        try:
            self._request()
        except Disconnected:
            return  # `_on_change` starts again after the reconnect
        except NatsError as error:
            self._retry_later(error)

    def _retry_later(self, error: NatsError) -> None:
        """Start again with exponential backoff, and report the error."""
        self._cancel()
        self.failure = error
        if self._stopped:
            return
        wait, self._backoff = self._backoff, min(2 * self._backoff, _MAX_BACKOFF)
        self._retry_timer = self._clock.call_later(wait, self._start)
        if self._on_error is not None:
            self._on_error(error)


def _status_error(status: int, text: str, name: str) -> NatsError:
    if status == _NO_RESPONDERS or text == "Consumer Deleted":
        return ConsumerNotFound(404, 10014, f"consumer {name} does not exist")
    if status == _TERMINATED:
        return NotReady(status, 0, f"{name}: {text}")
    return JetStreamError(status, 0, f"{name}: {text}")
