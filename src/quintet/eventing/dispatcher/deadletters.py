"""Where events go that could not be delivered at the last try, and how users hear of it.

Called by `courier`. The event is kept first, with its own headers and with what is known about its
end, and only then given up. Kubernetes Events about it are few: one for each Subscription in a while,
with the number of events since the last one.
"""

import logging
from collections.abc import Mapping
from typing import Final

from quintet.apis.meta import ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.clock import Clock
from quintet.eventing.dispatcher.decide.policy import Answer
from quintet.nats.jetstream import Delivery, JetStream
from quintet.runtime.events import WARNING, Recorder

REASON: Final = "DeliveryGivenUp"
QUIET_SECONDS: Final = 60.0
"""How long nothing more is said about one Subscription."""
KEEP_SECONDS: Final = 10.0

SUBSCRIPTION: Final = "Quintet-Subscription"
SUBJECT: Final = "Quintet-Subject"
TRIES: Final = "Quintet-Tries"
ANSWER: Final = "Quintet-Answer"
"""Headers of a dead letter, beside those of the event."""

log = logging.getLogger(__name__)


class Silence:
    """Says now and then how often something happened, instead of each time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._said: dict[ObjectKey, float] = {}
        self._unsaid: dict[ObjectKey, int] = {}

    def broken(self, key: ObjectKey, now: float) -> int:
        """It happened once more: how often since that was said last, or 0 if it is too early to say so."""
        count = self._unsaid.get(key, 0) + 1
        if key in self._said and now - self._said[key] < self._seconds:
            self._unsaid[key] = count
            return 0
        self._said[key] = now
        self._unsaid[key] = 0
        return count

    def forget(self, key: ObjectKey) -> None:
        """Nothing more is said about it."""
        self._said.pop(key, None)
        self._unsaid.pop(key, None)


class DeadLetters:
    """Keeps events on one subject of the server."""

    def __init__(self, jetstream: JetStream, subject: str, recorder: Recorder, clock: Clock) -> None:
        self._jetstream = jetstream
        self._subject = subject
        self._recorder = recorder
        self._clock = clock
        self._silence = Silence(QUIET_SECONDS)

    async def keep(self, subscription: Subscription, delivery: Delivery, answer: Answer) -> None:
        """Keep an event; raises `NatsError` if the server does not confirm that it has it."""
        message = delivery.message
        headers = {
            **_kept(message.headers or {}),
            SUBSCRIPTION: str(subscription.key),
            SUBJECT: message.subject,
            TRIES: str(delivery.delivered),
            ANSWER: _one_line(str(answer)),
            # Should we die before the event is given up, it is kept only once all the same.
            "Nats-Msg-Id": f"{subscription.metadata.uid}/{delivery.stream_sequence}",
        }
        await self._jetstream.publish(self._subject, message.payload, headers, KEEP_SECONDS)
        log.warning(
            "Event given up",
            extra={"subscription": str(subscription.key), "answer": str(answer), "try": delivery.delivered},
        )
        self._announce(subscription, delivery.delivered, answer)

    def forget(self, key: ObjectKey) -> None:
        """The Subscription is gone."""
        self._silence.forget(key)

    def _announce(self, subscription: Subscription, tries: int, answer: Answer) -> None:
        key = subscription.key
        count = self._silence.broken(key, self._clock.monotonic())
        if not count:
            return
        what = f"{count} events" if count > 1 else "an event"
        note = (
            f"{what} could not be delivered to {subscription.spec.sink} in {tries} tries (last: {answer}); "
            f"kept on the subject {self._subject}"
        )
        self._recorder.record(
            SUBSCRIPTIONS, key, subscription.metadata.uid, WARNING, REASON, note, action="Deliver"
        )


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """What the event brought, without words that the server would take as meant for itself."""
    return {name: value for name, value in headers.items() if not name.lower().startswith("nats-")}


def _one_line(text: str) -> str:
    return " ".join(text.split())[:512]
