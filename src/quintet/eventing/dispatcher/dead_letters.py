"""Stores events that could not be delivered, and reports them and test events by Kubernetes Events.

An event is stored with its headers and the last result before it is terminated. Kubernetes Events are limited
to one per Subscription and minute, with the number of dead letters since the last one.
"""

import logging
from typing import Final

from quintet.apis.meta import ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.clock import Clock
from quintet.eventing.decide import naming
from quintet.eventing.decide.test_reports import DELIVERED, NOT_DELIVERED, report_note
from quintet.eventing.dispatcher.decide.retry_policy import DeliveryResult
from quintet.eventing.dispatcher.retries import SUBJECT, TRIES, InFlight, event_headers, message_id
from quintet.nats.jetstream import MESSAGE_ID, JetStream
from quintet.runtime.events import NORMAL, WARNING, Recorder

REASON: Final = "DeliveryGivenUp"
EVENT_INTERVAL: Final = 60.0
"""Minimum seconds between two Kubernetes Events for one Subscription."""
PUBLISH_TIMEOUT: Final = 10.0
MOST_TESTS: Final = 30
"""The most reports of test events in `EVENT_INTERVAL`; every publisher can send test events."""

SUBSCRIPTION: Final = "Quintet-Subscription"
ANSWER: Final = "Quintet-Answer"
"""Headers of a dead letter, in addition to those of the event, its subject and the number of attempts."""

log = logging.getLogger(__name__)


class EventThrottle:
    """Limits how often something is reported, and counts what was not reported."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._reported_at: dict[ObjectKey, float] = {}
        self._unreported: dict[ObjectKey, int] = {}

    def count(self, key: ObjectKey, now: float) -> int:
        """Count an occurrence; return the number since the last report, or 0 if it is too early to report."""
        count = self._unreported.get(key, 0) + 1
        if key in self._reported_at and now - self._reported_at[key] < self._seconds:
            self._unreported[key] = count
            return 0
        self._reported_at[key] = now
        self._unreported[key] = 0
        return count

    def forget(self, key: ObjectKey) -> None:
        """Forget a key."""
        self._reported_at.pop(key, None)
        self._unreported.pop(key, None)


class DeadLetters:
    """Stores events on the dead-letter subject."""

    def __init__(self, jetstream: JetStream, subject: str, recorder: Recorder, clock: Clock) -> None:
        self._jetstream = jetstream
        self._subject = subject
        self._recorder = recorder
        self._clock = clock
        self._throttle = EventThrottle(EVENT_INTERVAL)
        self._tests_since, self._tests = 0.0, 0

    async def store(self, subscription: Subscription, event: InFlight, result: DeliveryResult) -> None:
        """Store an event; raises `NatsError` if the server does not confirm it."""
        message = event.delivery.message
        headers = {
            **event_headers(message.headers),
            SUBSCRIPTION: str(subscription.key),
            SUBJECT: event.subject,
            TRIES: str(event.tries),
            ANSWER: _one_line(str(result)),
            MESSAGE_ID: message_id(subscription, event),
        }
        subject = naming.dead_letter_subject(self._subject, naming.consumer_name(subscription.metadata))
        await self._jetstream.publish(subject, message.payload, headers, PUBLISH_TIMEOUT)
        log.warning(
            "Event stored as a dead letter",
            extra={
                "subscription": str(subscription.key),
                "result": str(result),
                "attempt": event.tries,
            },
        )
        self._report(
            subscription,
            event.tries,
            result,
            f"kept as dead letters: `quintet deadletters list {subscription.metadata.name}`",
        )

    def report_dropped(self, subscription: Subscription, event: InFlight, result: DeliveryResult) -> None:
        """Report an event that is dropped, because its Subscription or backend keeps no dead letters."""
        log.warning(
            "Event dropped",
            extra={
                "subscription": str(subscription.key),
                "result": str(result),
                "attempt": event.tries,
            },
        )
        self._report(subscription, event.tries, result, "dropped")

    def report_test(
        self, subscription: Subscription, event_id: str, result: DeliveryResult, attempts: int
    ) -> None:
        """Report an attempt to deliver a test event, unless there were too many in the last minute."""
        now = self._clock.monotonic()
        if now - self._tests_since >= EVENT_INTERVAL:
            self._tests_since, self._tests = now, 0
        self._tests += 1
        if self._tests > MOST_TESTS:
            return
        type_, reason = (NORMAL, DELIVERED) if result.is_accepted else (WARNING, NOT_DELIVERED)
        self._recorder.record(
            SUBSCRIPTIONS,
            subscription.key,
            subscription.metadata.uid,
            type_,
            reason,
            report_note(event_id, attempts, str(result)),
            action="Deliver",
        )

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted Subscription."""
        self._throttle.forget(key)

    def _report(
        self, subscription: Subscription, attempts: int, result: DeliveryResult, outcome: str
    ) -> None:
        key = subscription.key
        count = self._throttle.count(key, self._clock.monotonic())
        if not count:
            return
        what = f"{count} events" if count > 1 else "an event"
        tries = f"{attempts} attempts" if attempts > 1 else "1 attempt"
        note = (
            f"{what} could not be delivered to {subscription.spec.sink} in {tries} "
            f"(last: {result}); {outcome}"
        )
        self._recorder.record(
            SUBSCRIPTIONS, key, subscription.metadata.uid, WARNING, REASON, note, action="Deliver"
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:512]
