"""Delivers the events of one Subscription: from the stream to its sink, and says to the server how it went.

Made by `roster`; called back for every event that the consumer hands out. An event is acknowledged
only after the sink has it, and the acknowledgement is confirmed by the server; whatever dies in
between, the event comes again. What came again though the sink has it is not sent twice.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from quintet.apis.subscription import Subscription
from quintet.clock import Clock, Timer
from quintet.eventing.dispatcher.deadletters import DeadLetters
from quintet.eventing.dispatcher.decide.envelope import Outgoing, UnreadableEvent, outgoing
from quintet.eventing.dispatcher.decide.policy import SIGN_OF_LIFE_SECONDS, Answer, Patience, Step
from quintet.eventing.dispatcher.metrics import Meters
from quintet.eventing.dispatcher.sinks import Sinks
from quintet.nats.errors import NatsError
from quintet.nats.jetstream import Delivery

MOST_REMEMBERED: Final = 10_000
"""Events that a sink has and whose acknowledgement the server has not confirmed."""

log = logging.getLogger(__name__)


class Courier:
    """One Subscription and what is under way for it."""

    def __init__(
        self,
        subscription: Subscription,
        subjects: dict[str, str],
        event_type_prefix: str,
        sinks: Sinks,
        dead_letters: DeadLetters,
        patience: Patience,
        clock: Clock,
    ) -> None:
        self._subscription = subscription
        self._types = subjects
        self._event_type_prefix = event_type_prefix
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._patience = patience
        self._clock = clock
        self._under_way: set[asyncio.Task[None]] = set()
        # By number in the stream; who made the stream anew would begin at 1, so the identity counts too.
        self._taken: OrderedDict[int, tuple[str, str]] = OrderedDict()
        self.meters = Meters(subscription.key)
        self.stopped = False
        self._works = True

    def follow(self, subscription: Subscription, subjects: dict[str, str]) -> None:
        """Deliver as this says, from the next event on."""
        self._subscription = subscription
        self._types = subjects
        self.meters.keep_only(tuple(subjects.values()))

    def take(self, delivery: Delivery) -> None:
        """Begin to deliver an event."""
        if self.stopped:
            _say(delivery.nak)
            return
        task = asyncio.get_running_loop().create_task(self._carry(delivery))
        self._under_way.add(task)
        task.add_done_callback(self._arrived)
        self.meters.under_way.set(len(self._under_way))

    async def finish(self, seconds: float) -> None:
        """Take on nothing more and let what is under way arrive; what takes too long is given back."""
        self.stopped = True
        if not self._under_way:
            return
        _, late = await asyncio.wait(self._under_way, timeout=seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.gather(*late, return_exceptions=True)

    def _arrived(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self.meters.under_way.set(len(self._under_way))
        if not task.cancelled() and (error := task.exception()) is not None:
            # The event was not acknowledged, so it comes again.
            log.error("Delivery crashed", extra=self._about(), exc_info=error)

    async def _carry(self, delivery: Delivery) -> None:
        message = delivery.message
        try:
            event = outgoing(message.headers, message.payload, self._event_type_prefix)
        except UnreadableEvent as error:
            await self._give_up(delivery, Answer(0, f"it is no CloudEvent: {error}"))
            return
        if self._taken.get(delivery.stream_sequence) == event.identity:
            self.meters.again.inc()
            await self._acknowledge(delivery, event)
            return
        answer = await self._try(delivery, event)
        decision = self._patience.after(answer, delivery.delivered)
        match decision.step:
            case Step.ACKNOWLEDGE:
                await self._acknowledge(delivery, event)
            case Step.TRY_AGAIN:
                _say(delivery.nak, decision.delay)
            case Step.GIVE_UP:
                await self._give_up(delivery, answer)

    async def _try(self, delivery: Delivery, event: Outgoing) -> Answer:
        sign = _SignsOfLife(delivery, self._clock)
        started = self._clock.monotonic()
        try:
            answer = await self._sinks.post(self._subscription.spec.sink, event)
        except asyncio.CancelledError:
            _say(delivery.nak)
            raise
        finally:
            sign.stop()
        event_type = self._types.get(delivery.message.subject, "")
        self.meters.tried(event_type, answer, self._clock.monotonic() - started)
        if not answer.taken:
            log.info(
                "Not delivered", extra=self._about() | {"answer": str(answer), "try": delivery.delivered}
            )
        return answer

    async def _acknowledge(self, delivery: Delivery, event: Outgoing) -> None:
        sequence = delivery.stream_sequence
        self._taken[sequence] = event.identity
        if len(self._taken) > MOST_REMEMBERED:
            self._taken.popitem(last=False)
        try:
            await delivery.ack_confirmed()
        except NatsError as error:
            # It will come again, and is recognised then.
            log.info("Acknowledgement not confirmed", extra=self._about() | {"error": str(error)})
        else:
            self._taken.pop(sequence, None)

    async def _give_up(self, delivery: Delivery, answer: Answer) -> None:
        try:
            await self._dead_letters.keep(self._subscription, delivery, answer)
        except NatsError as error:
            log.warning("Dead letter not kept", extra=self._about() | {"error": str(error)})
            _say(delivery.nak, self._patience.last_retry)
            return
        self.meters.dead.inc()
        _say(delivery.term)

    def _about(self) -> dict[str, str]:
        return {"subscription": str(self._subscription.key), "sink": self._subscription.spec.sink}


class _SignsOfLife:
    """Tells the server now and then that an event is still being worked on, so that it waits."""

    def __init__(self, delivery: Delivery, clock: Clock) -> None:
        self._delivery = delivery
        self._clock = clock
        self._timer: Timer = clock.call_later(SIGN_OF_LIFE_SECONDS, self._tell)

    def stop(self) -> None:
        """The work is done."""
        self._timer.cancel()

    def _tell(self) -> None:
        _say(self._delivery.in_progress)
        self._timer = self._clock.call_later(SIGN_OF_LIFE_SECONDS, self._tell)


def _say(word: Callable[..., None], *arguments: float) -> None:
    """Tell the server; if it cannot hear, it finds out by itself when its patience ends."""
    with contextlib.suppress(NatsError):
        word(*arguments)
