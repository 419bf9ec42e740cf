"""Which Subscriptions this process delivers for: one courier and one standing pull for each.

Follows the cache of Subscriptions. A Subscription belongs to the backend that its status names,
because only the controller knows all backends. One with mistakes, or on its way out, is not delivered
for; its events wait in the stream.
"""

import asyncio
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
from quintet.eventing.decide.consumers import in_flight, pulled
from quintet.eventing.dispatcher.courier import Courier
from quintet.eventing.dispatcher.deadletters import DeadLetters
from quintet.eventing.dispatcher.decide.policy import Patience
from quintet.eventing.dispatcher.sinks import Sinks
from quintet.eventing.settings import DispatcherSettings
from quintet.nats.errors import NatsError
from quintet.nats.jetstream import JetStream, Pull
from quintet.runtime.cache import Store

PULL_SECONDS: Final = 60.0
HEARTBEAT_SECONDS: Final = 15.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Round:
    """One Subscription that is delivered for."""

    courier: Courier
    pull: Pull
    batch: int


class Roster:
    """All Subscriptions of one backend."""

    def __init__(
        self,
        settings: DispatcherSettings,
        jetstream: JetStream,
        sinks: Sinks,
        dead_letters: DeadLetters,
        patience: Patience,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._jetstream = jetstream
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._patience = patience
        self._clock = clock
        self._rounds: dict[ObjectKey, Round] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def follow(self, store: Store[Subscription]) -> None:
        """Deliver for what is there, and for what comes."""
        store.subscribe(lambda old, new, initial: self._changed(old, new))
        for subscription in store:
            self._changed(None, subscription)

    def missing(self) -> list[ObjectKey]:
        """Subscriptions whose consumer is not held."""
        return [key for key, each in self._rounds.items() if not each.pull.holds]

    def __len__(self) -> int:
        return len(self._rounds)

    async def finish(self, seconds: float) -> None:
        """Pull no more, and let what is under way arrive."""
        for each in self._rounds.values():
            each.pull.stop()
        couriers = [each.courier for each in self._rounds.values()]
        await asyncio.gather(*(courier.finish(seconds) for courier in couriers), *self._leaving)

    def _changed(self, old: Subscription | None, new: Subscription | None) -> None:
        if new is not None and self._is_ours(new):
            key = new.key
            # One that was deleted and made again under its name has another consumer.
            if old is not None and old.metadata.uid != new.metadata.uid:
                self._end(key)
            self._begin_or_go_on(new)
        elif (gone := new or old) is not None:
            self._end(gone.key)

    def _is_ours(self, subscription: Subscription) -> bool:
        metadata, status = subscription.metadata, subscription.status
        if metadata.deleting or status.backend.name != self._settings.backend or not status.backend.types:
            return False
        ready = find_condition(status.conditions, READY)
        if ready is not None and ready.reason == SINK_LEAVES:
            return False
        # Checked again here, because what is sent to a sink leaves with the rights of this pod.
        return not spec_errors(msgspec.to_builtins(subscription.spec), metadata.namespace)

    def _begin_or_go_on(self, subscription: Subscription) -> None:
        settings, key = self._settings, subscription.key
        subjects = naming.subjects_of(subscription, settings.nats.subject_prefix, settings.event_type_prefix)
        batch = pulled(in_flight(subscription, settings.max_in_flight))
        known = self._rounds.get(key)
        if known is not None:
            known.courier.follow(subscription, subjects)
            if known.batch != batch:
                known.pull.stop()
                self._rounds[key] = Round(
                    known.courier, self._pull(subscription, known.courier, batch), batch
                )
            return
        courier = Courier(
            subscription,
            subjects,
            settings.event_type_prefix,
            self._sinks,
            self._dead_letters,
            self._patience,
            self._clock,
        )
        self._rounds[key] = Round(courier, self._pull(subscription, courier, batch), batch)
        log.debug("Delivering", extra={"subscription": str(key), "sink": subscription.spec.sink})

    def _pull(self, subscription: Subscription, courier: Courier, batch: int) -> Pull:
        key, consumer = subscription.key, naming.consumer_name(subscription.metadata)

        def trouble(error: NatsError) -> None:
            log.warning("Pull interrupted", extra={"subscription": str(key), "error": str(error)})

        return self._jetstream.pull(
            self._settings.nats.stream,
            consumer,
            batch,
            courier.take,
            expires=PULL_SECONDS,
            heartbeat=HEARTBEAT_SECONDS,
            on_trouble=trouble,
        )

    def _end(self, key: ObjectKey) -> None:
        known = self._rounds.pop(key, None)
        if known is None:
            return
        known.pull.stop()
        log.debug("No longer delivering", extra={"subscription": str(key)})
        task = asyncio.get_running_loop().create_task(self._farewell(key, known.courier))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _farewell(self, key: ObjectKey, courier: Courier) -> None:
        await courier.finish(self._patience.answer)
        if key not in self._rounds:
            courier.meters.close()
            self._dead_letters.forget(key)
