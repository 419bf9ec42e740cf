"""Delivers the events of one Subscription from the stream to its sink.

An event is acknowledged only after the sink has accepted it, and the server confirms the acknowledgement.
Otherwise the server redelivers the event; one that the sink has already accepted is not sent again.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final

from quintet.apis.subscription import Subscription, TypeMatching
from quintet.apis.subscription.filters import matches
from quintet.clock import Clock, Timer
from quintet.eventing.decide import naming
from quintet.eventing.dispatcher.dead_letters import DeadLetters
from quintet.eventing.dispatcher.decide.outgoing_event import InvalidEvent, OutgoingEvent, build_outgoing
from quintet.eventing.dispatcher.decide.retry_policy import (
    PROGRESS_SECONDS,
    DeliveryResult,
    NextStep,
    RetryPolicy,
)
from quintet.eventing.dispatcher.metrics import DeliveryMetrics
from quintet.eventing.dispatcher.retries import InFlight, Retries, first_attempts, later_attempt
from quintet.eventing.dispatcher.sink_client import SinkClient
from quintet.nats.errors import NatsError
from quintet.nats.jetstream import Delivery

MAX_LATER: Final = 16
"""Events from the retry stream that are in delivery or next in line; others are asked for again later."""
LATER_SECONDS: Final = 1.0
MAX_UNCONFIRMED: Final = 10_000
"""Accepted events whose acknowledgement the server has not confirmed; older ones are forgotten."""

log = logging.getLogger(__name__)


class SubscriptionDelivery:
    """Delivers the events of one Subscription."""

    def __init__(
        self,
        subscription: Subscription,
        subjects: dict[str, str],
        event_type_prefix: str,
        in_order: bool,
        sink_client: SinkClient,
        retries: Retries,
        dead_letters: DeadLetters,
        retry_policy: RetryPolicy,
        clock: Clock,
    ) -> None:
        self._subscription = subscription
        self._types = subjects
        self._event_type_prefix = event_type_prefix
        self._in_order = in_order
        self._sink_client = sink_client
        self._retries = retries
        self._dead_letters = dead_letters
        self.retry_policy = retry_policy
        self._clock = clock
        self._in_flight: set[asyncio.Task[None]] = set()
        self._later = 0
        # One at a time, in addition to the events in flight that the server counts.
        self._later_lane = asyncio.Lock()
        # By sequence number. A recreated stream starts at 1 again, so the event identity is compared too.
        self._unconfirmed: OrderedDict[tuple[bool, int], tuple[str, str]] = OrderedDict()
        self.metrics = DeliveryMetrics(subscription.key)
        self.stopped = False

    def update(
        self,
        subscription: Subscription,
        subjects: dict[str, str],
        retry_policy: RetryPolicy,
        *,
        in_order: bool,
    ) -> None:
        """Use a changed Subscription from the next event on."""
        self._subscription = subscription
        self._types = subjects
        self.retry_policy = retry_policy
        self._in_order = in_order
        self.metrics.keep_only(tuple(subjects.values()))

    def start(self, delivery: Delivery) -> None:
        """Start to deliver an event of the stream of events."""
        if self.stopped:
            _send(delivery.nak)
            return
        self._run(self._deliver(first_attempts(delivery)))

    def start_later(self, delivery: Delivery) -> None:
        """Start to deliver an event of the retry stream; one at a time."""
        if self.stopped or self._later >= MAX_LATER:
            _send(delivery.nak, LATER_SECONDS)
            return
        self._run(self._deliver_later(later_attempt(delivery)))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._in_flight.add(task)
        task.add_done_callback(self._on_done)
        self.metrics.in_flight.set(len(self._in_flight))

    async def finish(self, seconds: float) -> None:
        """Accept no more events and wait for those in flight; return the rest to the server."""
        self.stopped = True
        if not self._in_flight:
            return
        _, late = await asyncio.wait(self._in_flight, timeout=seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.gather(*late, return_exceptions=True)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._in_flight.discard(task)
        self.metrics.in_flight.set(len(self._in_flight))
        if not task.cancelled() and (error := task.exception()) is not None:
            # The event was not acknowledged, so the server redelivers it.
            log.error("Delivery failed unexpectedly", extra=self._log_fields(), exc_info=error)

    async def _deliver_later(self, event: InFlight) -> None:
        progress = _ProgressReports(event.delivery, self._clock)
        self._later += 1
        try:
            async with self._later_lane:
                progress.stop()
                await self._deliver(event)
        finally:
            self._later -= 1
            progress.stop()

    async def _deliver(self, received: InFlight) -> None:
        message = received.delivery.message
        try:
            event = build_outgoing(message.headers, message.payload, self._event_type_prefix)
        except InvalidEvent as error:
            await self._store_dead_letter(received, DeliveryResult(0, f"not a valid CloudEvent: {error}"))
            return
        if self._is_filtered(event, message.subject):
            self.metrics.filtered.inc()
            _send(received.delivery.ack)
            return
        if self._unconfirmed.get(received.sequence) == event.identity:
            self.metrics.redelivered.inc()
            await self._acknowledge(received, event)
            return
        result = await self._attempt(received, event)
        if event.is_test:
            self._dead_letters.report_test(self._subscription, event.identity[1], result, received.tries)
        decision = self.retry_policy.decide(result, received.tries)
        match decision.step:
            case NextStep.ACKNOWLEDGE:
                await self._acknowledge(received, event)
            case NextStep.RETRY:
                await self._retry(received, decision.delay)
            case NextStep.DEAD_LETTER:
                await self._store_dead_letter(received, result)

    def _is_filtered(self, event: OutgoingEvent, subject: str) -> bool:
        """Return whether an event has another type than the subject says, or does not fit the filters.

        The subjects of a consumer may cover more than those of its types, if these have wildcards.
        """
        filters = self._subscription.spec.filters
        if filters and not matches(filters, event.attributes):
            return True
        wanted = naming.find_type(self._types, subject)
        if wanted is not None:
            return event.has_other_type(wanted)
        has_wildcards = self._subscription.spec.type_matching is TypeMatching.WILDCARD
        return has_wildcards and all(map(event.has_other_type, self._types.values()))

    async def _retry(self, event: InFlight, delay: float) -> None:
        """Let an event wait for its next attempt.

        It waits in the retry stream. It keeps its place among the events in flight if they are delivered in
        order, or if there is no room: usually the sink is down then, and no other event could be delivered.
        """
        if self._in_order and not event.has_waited:
            _send(event.delivery.nak, delay)
            return
        try:
            await self._retries.wait(self._subscription, event, delay)
        except NatsError as error:
            log.debug("Event keeps its place", extra=self._log_fields() | {"error": str(error)})
            _send(event.delivery.nak, delay)
        else:
            _send(event.delivery.ack)

    async def _attempt(self, received: InFlight, event: OutgoingEvent) -> DeliveryResult:
        delivery = received.delivery
        progress = _ProgressReports(delivery, self._clock)
        started = self._clock.monotonic()
        try:
            result = await self._sink_client.post(
                self._subscription.spec.sink, event, self.retry_policy.timeout
            )
        except asyncio.CancelledError:
            _send(delivery.nak)
            raise
        finally:
            progress.stop()
        event_type = naming.find_type(self._types, received.subject) or ""
        self.metrics.count_attempt(event_type, result, self._clock.monotonic() - started)
        if not result.is_accepted:
            log.info(
                "Event not delivered",
                extra=self._log_fields() | {"result": str(result), "attempt": received.tries},
            )
        return result

    async def _acknowledge(self, received: InFlight, event: OutgoingEvent) -> None:
        sequence = received.sequence
        self._unconfirmed[sequence] = event.identity
        if len(self._unconfirmed) > MAX_UNCONFIRMED:
            self._unconfirmed.popitem(last=False)
        try:
            await received.delivery.ack_confirmed()
        except NatsError as error:
            # The server redelivers it, and it is recognised then.
            log.info("Acknowledgement not confirmed", extra=self._log_fields() | {"error": str(error)})
        else:
            self._unconfirmed.pop(sequence, None)

    async def _store_dead_letter(self, event: InFlight, result: DeliveryResult) -> None:
        if not self.retry_policy.keeps_dead_letters:
            self._dead_letters.report_dropped(self._subscription, event, result)
            self.metrics.dropped.inc()
            _send(event.delivery.term)
            return
        try:
            await self._dead_letters.store(self._subscription, event, result)
        except NatsError as error:
            log.warning("Dead letter not stored", extra=self._log_fields() | {"error": str(error)})
            _send(event.delivery.nak, self.retry_policy.max_backoff)
            return
        self.metrics.dead_letters.inc()
        _send(event.delivery.term)

    def _log_fields(self) -> dict[str, str]:
        return {"subscription": str(self._subscription.key), "sink": self._subscription.spec.sink}


class _ProgressReports:
    """Reports regularly to the server that a delivery is in progress, so that it does not redeliver."""

    def __init__(self, delivery: Delivery, clock: Clock) -> None:
        self._delivery = delivery
        self._clock = clock
        self._timer: Timer = clock.call_later(PROGRESS_SECONDS, self._report)

    def stop(self) -> None:
        """Stop reporting."""
        self._timer.cancel()

    def _report(self) -> None:
        _send(self._delivery.in_progress)
        self._timer = self._clock.call_later(PROGRESS_SECONDS, self._report)


def _send(command: Callable[..., None], *arguments: float) -> None:
    """Send a command about an event; without a connection the server redelivers it after its timeout."""
    with contextlib.suppress(NatsError):
        command(*arguments)
