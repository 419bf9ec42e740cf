"""The Subscriptions that this process delivers events for, with a pull consumer for each.

A Subscription belongs to the backend in its status, because only the controller knows all backends. An
invalid, paused or deleted Subscription gets no events; they stay in the stream.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Final

import msgspec

from quintet.apis.meta import ObjectKey, find_condition
from quintet.apis.subscription import Subscription
from quintet.apis.subscription.types import READY, SINK_LEAVES
from quintet.apis.subscription.validation import spec_errors
from quintet.clock import Clock
from quintet.eventing.decide import naming
from quintet.eventing.decide.consumers import max_in_flight, pull_batch
from quintet.eventing.dispatcher.dead_letters import DeadLetters
from quintet.eventing.dispatcher.decide.retry_policy import RetryPolicy
from quintet.eventing.dispatcher.delivery import SubscriptionDelivery
from quintet.eventing.dispatcher.retries import Retries
from quintet.eventing.dispatcher.sink_client import SinkClient
from quintet.eventing.settings import DispatcherSettings
from quintet.nats.errors import NatsError
from quintet.nats.jetstream import Delivery, JetStream, PullConsumer
from quintet.runtime.cache import Store

PULL_SECONDS: Final = 60.0
HEARTBEAT_SECONDS: Final = 15.0
INACTIVE_SECONDS: Final = 60.0
"""How long an event waits for its retry while its Subscription gets no events."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ActiveSubscription:
    """Delivery and pull consumer of one Subscription."""

    delivery: SubscriptionDelivery
    consumer: PullConsumer
    batch: int
    name: str
    """The name of the consumer."""


class ActiveSubscriptions:
    """The active Subscriptions of one backend."""

    def __init__(
        self,
        settings: DispatcherSettings,
        jetstream: JetStream,
        sink_client: SinkClient,
        retries: Retries,
        dead_letters: DeadLetters,
        retry_policy: RetryPolicy,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._jetstream = jetstream
        self._sink_client = sink_client
        self._retries = retries
        self._dead_letters = dead_letters
        self._retry_policy = retry_policy
        self._clock = clock
        self._active: dict[ObjectKey, ActiveSubscription] = {}
        self._by_consumer: dict[str, ActiveSubscription] = {}
        self._finishing: set[asyncio.Task[None]] = set()
        self._retry_consumer: PullConsumer | None = None

    def watch_store(self, store: Store[Subscription]) -> None:
        """Deliver for all Subscriptions of a store, now and after changes."""
        store.subscribe(lambda old, new, initial: self._on_change(old, new))
        for subscription in store:
            self._on_change(None, subscription)
        self._retry_consumer = self._retries.pull(self._deliver_later, _log_retry_error)

    def inactive(self) -> list[tuple[ObjectKey, NatsError | None]]:
        """Return the Subscriptions without a confirmed pull request, each with the last error."""
        consumers = ((key, each.consumer) for key, each in self._active.items())
        return [(key, consumer.failure) for key, consumer in consumers if not consumer.is_active]

    def __len__(self) -> int:
        return len(self._active)

    async def finish(self, seconds: float) -> None:
        """Stop pulling and wait for the events in flight."""
        if self._retry_consumer is not None:
            self._retry_consumer.stop()
        for each in self._active.values():
            each.consumer.stop()
        deliveries = [each.delivery for each in self._active.values()]
        await asyncio.gather(*(delivery.finish(seconds) for delivery in deliveries), *self._finishing)

    def _deliver_later(self, consumer: str, delivery: Delivery) -> None:
        known = self._by_consumer.get(consumer)
        if known is not None:
            known.delivery.start_later(delivery)
            return
        # It is invalid or paused, or moves to another backend, or is deleted: then the controller deletes it.
        with contextlib.suppress(NatsError):
            delivery.nak(INACTIVE_SECONDS)

    def _on_change(self, old: Subscription | None, new: Subscription | None) -> None:
        if new is not None and self._is_deliverable(new):
            key = new.key
            # A Subscription that was deleted and recreated has another consumer.
            if old is not None and old.metadata.uid != new.metadata.uid:
                self._stop(key)
            self._start_or_update(new)
        elif (gone := new or old) is not None:
            self._stop(gone.key)

    def _is_deliverable(self, subscription: Subscription) -> bool:
        metadata, status = subscription.metadata, subscription.status
        if metadata.deleting or status.backend.name != self._settings.backend or not status.backend.types:
            return False
        if subscription.spec.paused:
            return False
        ready = find_condition(status.conditions, READY)
        if ready is not None and ready.reason == SINK_LEAVES:
            return False
        # Validated again here, because requests to the sink are sent with the network access of this pod.
        return not spec_errors(msgspec.to_builtins(subscription.spec), metadata.namespace)

    def _start_or_update(self, subscription: Subscription) -> None:
        settings, key = self._settings, subscription.key
        subjects = naming.subscription_subjects(
            subscription, settings.nats.subject_prefix, settings.event_type_prefix
        )
        retry_policy = self._retry_policy.override(subscription.spec.delivery)
        allowed = max_in_flight(subscription, settings.max_in_flight)
        batch = pull_batch(allowed)
        known = self._active.get(key)
        if known is not None:
            known.delivery.update(subscription, subjects, retry_policy, in_order=allowed == 1)
            if known.batch != batch:
                known.consumer.stop()
                known.consumer = self._create_consumer(known.name, subscription, known.delivery, batch)
                known.batch = batch
            return
        delivery = SubscriptionDelivery(
            subscription,
            subjects,
            settings.event_type_prefix,
            allowed == 1,
            self._sink_client,
            self._retries,
            self._dead_letters,
            retry_policy,
            self._clock,
        )
        name = naming.consumer_name(subscription.metadata)
        consumer = self._create_consumer(name, subscription, delivery, batch)
        self._active[key] = self._by_consumer[name] = ActiveSubscription(delivery, consumer, batch, name)
        log.debug("Delivering to sink", extra={"subscription": str(key), "sink": subscription.spec.sink})

    def _create_consumer(
        self, name: str, subscription: Subscription, delivery: SubscriptionDelivery, batch: int
    ) -> PullConsumer:
        key = subscription.key

        def on_error(error: NatsError) -> None:
            log.warning("Pull request failed", extra={"subscription": str(key), "error": str(error)})

        return self._jetstream.pull(
            self._settings.nats.stream,
            name,
            batch,
            delivery.start,
            expires=PULL_SECONDS,
            heartbeat=HEARTBEAT_SECONDS,
            on_error=on_error,
        )

    def _stop(self, key: ObjectKey) -> None:
        known = self._active.pop(key, None)
        if known is None:
            return
        self._by_consumer.pop(known.name, None)
        known.consumer.stop()
        log.debug("No longer delivering", extra={"subscription": str(key)})
        task = asyncio.get_running_loop().create_task(self._finish(key, known.delivery))
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def _finish(self, key: ObjectKey, delivery: SubscriptionDelivery) -> None:
        await delivery.finish(delivery.retry_policy.timeout)
        if key not in self._active:
            delivery.metrics.close()
            self._dead_letters.forget(key)


def _log_retry_error(error: NatsError) -> None:
    log.warning("Pull request for retries failed", extra={"error": str(error)})
