"""A standing pull on a consumer: messages as they come, as many as there is room for.

Made by `jetstream`. The server is asked for as much as may be in hand at once, and again as soon as
half of it is free. Heartbeats prove that it still knows of us; when they stay away, after a
reconnect and after trouble, everything is asked for anew under a new address.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from quintet.nats.client import Client, Subscription
from quintet.nats.config import SECOND
from quintet.nats.errors import ApiError, ConsumerNotFound, Disconnected, NatsError, NotReady, ProtocolError
from quintet.nats.messages import Message

if TYPE_CHECKING:
    from quintet.clock import Clock, Timer

logger = logging.getLogger(__name__)

_HEARTBEAT, _NONE, _EXPIRED, _ENDED, _NOBODY = 100, 404, 408, 409, 503
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0


class Delivery:
    """A message that waits for our word: done, again later, or never again. The first word counts."""

    __slots__ = ("_client", "_settled", "delivered", "message", "pending", "stream_sequence")

    def __init__(self, client: Client, message: Message, settled: Callable[[], None]) -> None:
        self.message = message
        self._client = client
        self._settled: Callable[[], None] | None = settled
        words = message.reply.split(".")
        # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>, and before the
        # stream a domain and an account where the server is one of many.
        first = 2 if len(words) == 9 else 4
        if len(words) < first + 7 or words[0] != "$JS" or words[1] != "ACK":
            raise ProtocolError(f"a delivery with the address {message.reply[:80]!r}")
        try:
            self.delivered = int(words[first + 2])
            self.stream_sequence = int(words[first + 3])
            self.pending = int(words[first + 6])
        except ValueError as error:
            raise ProtocolError(f"a delivery with the address {message.reply[:80]!r}") from error

    @property
    def settled(self) -> bool:
        """Whether our word was given."""
        return self._settled is None

    def ack(self) -> None:
        """It is done. `Disconnected`: the word cannot be sent, the message will come again."""
        self._settle(b"+ACK")

    def nak(self, delay: float = 0.0) -> None:
        """Deliver it again, after a while."""
        self._settle(b'-NAK {"delay": %d}' % int(delay * SECOND) if delay > 0 else b"-NAK")

    def term(self, reason: str = "") -> None:
        """Never deliver it again."""
        self._settle(f"+TERM {reason}".encode() if reason else b"+TERM")

    def in_progress(self) -> None:
        """It takes longer: count the time from now."""
        if self._settled is not None:
            self._client.publish(self.message.reply, b"+WPI")

    async def ack_confirmed(self, timeout: float = 5.0) -> None:
        """It is done, and the server knows."""
        if self._take():
            await self._client.request(self.message.reply, b"+ACK", timeout=timeout)

    def _settle(self, word: bytes) -> None:
        if self._take():
            self._client.publish(self.message.reply, word)

    def _take(self) -> bool:
        settled, self._settled = self._settled, None
        if settled is None:
            return False
        # Room is made even if the word cannot be sent: the message is not in hand any more.
        settled()
        return True


class Pull:
    """Messages of a consumer, handed to a callback as long as it runs."""

    def __init__(
        self,
        client: Client,
        stream: str,
        consumer: str,
        callback: Callable[[Delivery], None],
        *,
        batch: int,
        expires: float,
        heartbeat: float,
        on_trouble: Callable[[NatsError], None] | None = None,
    ) -> None:
        self._client = client
        self._clock: Clock = client.clock
        self._callback = callback
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._name = f"{stream}/{consumer}"
        self._batch = batch
        self._expires = expires
        self._heartbeat = min(heartbeat, expires / 2)
        self._on_trouble = on_trouble
        self._subscription: Subscription | None = None
        self._round = 0
        self._asked = 0
        self._in_hand = 0
        self._heard = 0.0
        self._pause = _FIRST_PAUSE
        self._watch: Timer | None = None
        self._again: Timer | None = None
        self._stopped = False
        self.holds = False
        """Whether the server is known to have our request, or our hands are full."""
        client.on_change.append(self._changed)
        self._begin()

    @property
    def in_hand(self) -> int:
        """How many messages wait for our word."""
        return self._in_hand

    def stop(self) -> None:
        """Receive nothing more; what is in hand may still be acknowledged."""
        if self._stopped:
            return
        self._stopped = True
        self._client.on_change.remove(self._changed)
        self._leave()

    async def drain(self, timeout: float) -> bool:
        """Stop, and wait until nothing is in hand; False if that took too long."""
        self.stop()
        deadline = self._clock.monotonic() + timeout
        while self._in_hand and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.02)
        return not self._in_hand

    # Asking.

    def _begin(self) -> None:
        """Ask for everything anew, under a new address: what the old one would bring comes again here."""
        self._leave()
        if self._stopped or not self._client.connected:
            return
        self._round += 1
        number = self._round
        address = f"{self._client.private_inbox()}.{number}"
        try:
            self._subscription = self._client.subscribe(address, self._received)
            self._heard = self._clock.monotonic()
            self._ask()
            self._client.ping(lambda error: self._confirmed(number, error))
        except Disconnected:
            return  # `_changed` comes again
        except NatsError as error:
            self._trouble(error)
            return
        self._watch = self._clock.call_later(self._heartbeat, self._look)

    def _leave(self) -> None:
        self.holds = False
        self._asked = 0
        for timer in (self._watch, self._again):
            if timer is not None:
                timer.cancel()
        self._watch = self._again = None
        if self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            try:
                subscription.unsubscribe()
            except NatsError as error:
                logger.debug("leaving the old address of %s: %s", self._name, error)

    def _ask(self) -> None:
        """Ask for what there is room for, unless more than half is on its way."""
        room = self._batch - self._in_hand - self._asked
        if self._subscription is None or room <= 0 or 2 * (self._asked + self._in_hand) > self._batch:
            return
        wanted = {
            "batch": room,
            "expires": int(self._expires * SECOND),
            "idle_heartbeat": int(self._heartbeat * SECOND),
        }
        self._asked += room
        self._client.publish(self._subject, msgspec.json.encode(wanted), reply=self._subscription.subject)

    def _confirmed(self, number: int, error: Exception | None) -> None:
        """The server has read our request, and an objection would have come before this."""
        if error is None and number == self._round and self._subscription is not None:
            self.holds = True

    def _changed(self, connected: bool) -> None:
        if connected:
            self._begin()
        else:
            self._leave()

    def _look(self) -> None:
        """Two heartbeats missed: the server does not know of us any more."""
        self._watch = None
        silence = self._clock.monotonic() - self._heard
        if self._asked and silence > 2.5 * self._heartbeat:
            logger.warning("no heartbeat of %s for %.1f s: asking anew", self._name, silence)
            self._begin()
            return
        self._watch = self._clock.call_later(self._heartbeat, self._look)

    # Receiving.

    def _received(self, message: Message) -> None:
        self._heard = self._clock.monotonic()
        if not message.head or not (status := message.status):
            self._asked = max(0, self._asked - 1)
            self._in_hand += 1
            self._pause = _FIRST_PAUSE
            try:
                delivery = Delivery(self._client, message, self._settled)
            except ProtocolError:
                self._in_hand -= 1
                raise
            self._callback(delivery)
        elif status == _HEARTBEAT:
            self._pause = _FIRST_PAUSE
        elif status in (_NONE, _EXPIRED) or (status == _ENDED and message.status_text == "Batch Completed"):
            left = (message.headers or {}).get("Nats-Pending-Messages", "")
            self._asked = max(0, self._asked - int(left)) if left.isdigit() else 0
            self._ask_safely()
        else:
            self._trouble(_meaning(status, message.status_text, self._name))

    def _settled(self) -> None:
        self._in_hand -= 1
        self._ask_safely()

    def _ask_safely(self) -> None:
        try:
            self._ask()
        except Disconnected:
            return  # `_changed` comes again
        except NatsError as error:
            self._trouble(error)

    def _trouble(self, error: NatsError) -> None:
        """Try again after a pause that grows, and say so."""
        self._leave()
        if self._stopped:
            return
        wait, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        self._again = self._clock.call_later(wait, self._begin)
        if self._on_trouble is not None:
            self._on_trouble(error)


def _meaning(status: int, text: str, name: str) -> NatsError:
    if status == _NOBODY or text == "Consumer Deleted":
        return ConsumerNotFound(404, 10014, f"the consumer {name} is not there")
    if status == _ENDED:
        return NotReady(status, 0, f"{name}: {text}")
    return ApiError(status, 0, f"{name}: {text}")
