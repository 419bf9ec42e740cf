"""Keeps one durable consumer for each Subscription, and says whether its events are delivered.

Called by `runtime.controller` with a key. The phases: look → hold (finalizer) → check the spec →
choose the backend → make the consumer as wanted → see who pulls and where the sink is → write the
status. The events themselves never come here: dispatchers pull them (`eventing.dispatcher`).
"""

import logging
from collections.abc import Iterable
from datetime import datetime

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.eventingbackend import EVENTINGBACKENDS, EventingBackend
from quintet.apis.meta import Object, ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription, SubscriptionStatus
from quintet.apis.subscription.types import FINALIZER
from quintet.apis.subscription.validation import spec_errors
from quintet.controllers.subscription.decide import status as said
from quintet.controllers.subscription.decide.sinks import (
    SERVICES,
    Service,
    ServiceView,
    sink_key,
    sink_problem,
)
from quintet.controllers.subscription.decide.status import DeliveryProblem, Observation, Reason
from quintet.controllers.subscription.metrics import SubscriptionMetrics
from quintet.controllers.subscription.writer import BackendStream, ConsumerWriter, removes_consumers
from quintet.controllers.suspension import unless_suspended
from quintet.eventing.decide import naming
from quintet.eventing.decide.choice import NoBackend, chosen
from quintet.eventing.decide.consumers import needs, somebody_pulls
from quintet.eventing.sessions import Sessions
from quintet.kube.errors import KubeError
from quintet.nats.errors import NatsError
from quintet.runtime import conditions, finalizers
from quintet.runtime.builder import Builder
from quintet.runtime.cache import Store
from quintet.runtime.events import NORMAL, WARNING
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Result

LOOK_AGAIN = 60.0
"""Seconds after which a consumer is looked at though nothing changed: nobody tells us of its end."""
LOOK_SOON = 3.0
"""The same while something is missing that comes without telling us; later ever less often."""
LONGEST_FAREWELL = 300.0
"""Seconds that a Subscription waits for a server that is away, before it goes without its consumer."""
SHORT_FAREWELL = 30.0
"""The same if the backend goes too: it may connect once more, or the whole namespace goes with the server."""
_BY_NAMESPACE = "namespace"
_BY_SINK = "sink"

log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(Subscription).decode


class SubscriptionController:
    """Reconciles Subscriptions."""

    def __init__(
        self,
        builder: Builder[Subscription],
        backends: Store[EventingBackend],
        services: Store[Service],
        sessions: Sessions,
    ) -> None:
        self._builder = builder
        self._backends = backends
        self._services = services
        self._writer = ConsumerWriter(sessions, builder.clock)
        self._shown = SubscriptionMetrics()
        # Who went without the consumer, and where that is; until the cache has seen the end.
        self._left_behind: dict[ObjectKey, ObjectKey] = {}

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at one Subscription and do what is missing."""
        subscription = self._builder.primary.get(key)
        if subscription is None:
            self._shown.forget(key)
            if (backend := self._left_behind.pop(key, None)) is not None:
                # Its server may have come back while this one was still in the cache.
                self._writer.reset_sweep(backend)
            await self._sweep(key.namespace)
            return Result.done()
        if subscription.metadata.deleting:
            return await self._delete(subscription)
        if FINALIZER not in subscription.metadata.finalizers:
            # The webhook adds it on creation; this one came past it. Its change brings the key back.
            await finalizers.add(self._builder.client, SUBSCRIPTIONS, subscription, FINALIZER)
            return Result.done()
        found, again = await self._look(subscription)
        await self._write(subscription, said.status_of(subscription, found))
        await self._sweep(key.namespace)
        return again

    def connection_changed(self, backend: ObjectKey) -> None:
        """What was left behind while a server was away is looked for as soon as it is back."""
        self._writer.reset_sweep(backend)
        here = self._builder.primary.by_index(_BY_NAMESPACE, backend.namespace)
        # Where no Subscription is left, the key of the backend has the namespace swept.
        for key in (backend, *(each.key for each in here)):
            self._builder.queue.add(key)

    async def _look(self, subscription: Subscription) -> tuple[Observation, Result]:
        """Bring the consumer to what the spec says, and see how things stand."""
        if errors := spec_errors(msgspec.to_builtins(subscription.spec), subscription.metadata.namespace):
            return said.invalid_spec(errors), Result.done()
        backend = chosen(subscription, self._backends_of(subscription))
        if isinstance(backend, NoBackend):
            return Observation(
                trouble=DeliveryProblem(Reason(backend.reason), backend.message)
            ), Result.done()
        place, sink = self._writer.locate(backend), sink_problem(subscription, self._services)
        # Dispatchers read this reason, so nothing else may be said instead.
        leaves = sink if sink is not None and sink.reason is Reason.SINK_LEAVES else None
        if not isinstance(place, BackendStream):
            # Its connection, or its status, brings the key back.
            trouble = leaves or said.backend_problem(backend) or place
            return Observation(backend, "", trouble), Result.after(LOOK_AGAIN)
        try:
            info = await self._writer.ensure(subscription, place)
            await self._leave_others(subscription, backend)
        except NatsError as error:
            failed = said.consumer_problem(backend, str(error))
            return Observation(backend, "", leaves or failed), self._soon(subscription)
        if waits := leaves or said.backend_problem(backend) or sink:
            return Observation(backend, info.name, waits), Result.after(LOOK_AGAIN)
        if not somebody_pulls(info):
            return Observation(backend, info.name, said.no_dispatcher_problem(backend)), self._soon(
                subscription
            )
        return Observation(backend, info.name), Result.after(LOOK_AGAIN)

    async def _leave_others(self, subscription: Subscription, backend: EventingBackend) -> None:
        """Remove the consumer from the backend that was in use before, once the new one has one."""
        before = subscription.status.backend.name
        if not before or before == backend.metadata.name:
            return
        old = self._backends.get(ObjectKey(subscription.metadata.namespace, before))
        place = self._writer.locate(old) if old is not None else None
        if not isinstance(place, BackendStream):
            return
        try:
            waiting = await self._writer.remove_from_former(
                place, naming.consumer_name(subscription.metadata)
            )
        except NatsError as error:
            # It may be the very reason to leave; what stays there is swept up later.
            log.info("Consumer not removed", extra={"backend": str(place.backend.key), "error": str(error)})
            return
        self._leave_events(subscription, waiting, before, backend.metadata.name)

    async def _sweep(self, namespace: str) -> None:
        """Remove what was left behind in the backends of a namespace, while their servers were away."""
        for backend in self._backends.by_index(_BY_NAMESPACE, namespace):
            place = self._writer.locate(backend)
            if not isinstance(place, BackendStream) or not self._writer.is_sweep_due(place):
                continue
            try:
                await self._sweep_up(place)
            except NatsError as error:
                log.info("Not swept", extra={"backend": str(backend.key), "error": str(error)})
            except KubeError:
                # The key comes back soon, and nobody else may come: it is still to be done then.
                self._writer.reset_sweep(backend.key)
                raise

    async def _sweep_up(self, place: BackendStream) -> None:
        namespace = place.backend.metadata.namespace
        here = self._builder.primary.by_index(_BY_NAMESPACE, namespace)
        left = await self._writer.orphans(place, self._needed(place.backend, here))
        if not left:
            return
        # A cache may be behind, and a consumer goes with the events that wait for it: the server is asked.
        # Whoever is not there after the consumer was seen does not come back under this uid.
        alive = await self._alive(namespace)
        moved = {naming.consumer_name(each.metadata): each for each in alive}
        for name in set(left) - self._needed(place.backend, alive):
            waiting = await self._writer.remove_from_former(place, name)
            if isinstance(owner := moved.get(name), Subscription):
                self._leave_events(owner, waiting, place.backend.metadata.name, owner.status.backend.name)

    def _needed(self, backend: EventingBackend, found: Iterable[Object]) -> set[str]:
        """The consumers of those that may need one in a backend."""
        here = self._backends.by_index(_BY_NAMESPACE, backend.metadata.namespace)
        return {
            naming.consumer_name(each.metadata)
            for each in found
            if not isinstance(each, Subscription) or needs(each, backend, here)
        }

    async def _alive(self, namespace: str) -> list[Object]:
        """All Subscriptions there are; of those that do not decode, what can be read."""
        found: list[Object] = []
        async for page in self._builder.client.pages(SUBSCRIPTIONS, namespace=namespace):
            for raw in page.items:
                try:
                    found.append(_decode(raw))
                except (*DECODE_ERRORS, ValueError):
                    # It may own a consumer all the same.
                    found.append(msgspec.json.decode(raw, type=Object))
            found += [msgspec.json.decode(raw, type=Object) for raw in page.too_deep]
        return found

    async def _delete(self, subscription: Subscription) -> Result:
        if FINALIZER not in subscription.metadata.finalizers:
            return Result.done()
        backend = self._home(subscription)
        # Without a backend nobody knows where a consumer could be.
        waits_for = await self._removed(subscription, backend) if backend is not None else ""
        if backend is not None and waits_for:
            longest = SHORT_FAREWELL if backend.metadata.deleting else LONGEST_FAREWELL
            if self._age(subscription) < longest:
                await self._write(subscription, said.deleting_status(subscription, waits_for))
                return self._soon(subscription)
            self._leave_behind(subscription, waits_for)
            self._left_behind[subscription.key] = backend.key
        await finalizers.remove(self._builder.client, SUBSCRIPTIONS, subscription, FINALIZER)
        return Result.done()

    def _home(self, subscription: Subscription) -> EventingBackend | None:
        """The backend that may have its consumer."""
        if name := subscription.status.backend.name:
            return self._backends.get(ObjectKey(subscription.metadata.namespace, name))
        # A consumer is made before the status says where.
        choice = chosen(subscription, self._backends_of(subscription))
        return choice if isinstance(choice, EventingBackend) else None

    async def _removed(self, subscription: Subscription, backend: EventingBackend) -> str:
        """Remove the consumer; what that waits for, or nothing."""
        place = self._writer.locate(backend)
        if not isinstance(place, BackendStream):
            return "" if place.reason is Reason.BY_EVENT_MESH or removes_consumers(backend) else place.message
        try:
            await self._writer.remove(subscription, place)
        except NatsError as error:
            return said.consumer_problem(backend, str(error)).message
        return ""

    def _leave_events(self, subscription: Subscription, waiting: int, before: str, now: str) -> None:
        if waiting:
            note = f"{waiting} events that still waited in EventingBackend '{before}' are not delivered: "
            note += f"this Subscription now uses '{now}'"
            self._announce(subscription, WARNING, "EventsLeftBehind", note)

    def _leave_behind(self, subscription: Subscription, waits_for: str) -> None:
        consumer = naming.consumer_name(subscription.metadata)
        note = f"The consumer {consumer} could not be removed and is left behind: {waits_for}"
        self._announce(subscription, WARNING, "ConsumerLeftBehind", note)

    def _soon(self, subscription: Subscription) -> Result:
        age = said.age(subscription, self._builder.clock.now())
        return Result.after(min(max(age, LOOK_SOON), LOOK_AGAIN))

    def _age(self, subscription: Subscription) -> float:
        """Seconds since somebody wanted it gone."""
        asked = datetime.fromisoformat(subscription.metadata.deletion_timestamp or "")
        return (self._builder.clock.now() - asked).total_seconds()

    def _backends_of(self, subscription: Subscription) -> list[EventingBackend]:
        return self._backends.by_index(_BY_NAMESPACE, subscription.metadata.namespace)

    async def _write(self, subscription: Subscription, wanted: SubscriptionStatus) -> None:
        old = subscription.status
        merged = conditions.merged(
            old.conditions, wanted.conditions, subscription.metadata.generation, self._builder.clock.now()
        )
        new = msgspec.structs.replace(wanted, conditions=merged)
        self._shown.show(subscription, new)
        if await self._builder.status.write(subscription, old, new) and bool(old.ready) != new.ready:
            condition = new.conditions[0]
            kind = NORMAL if new.ready else WARNING
            self._announce(subscription, kind, condition.reason, condition.message)

    def _announce(self, subscription: Subscription, kind: str, reason: str, note: str) -> None:
        self._builder.events.record(
            SUBSCRIPTIONS, subscription.key, subscription.metadata.uid, kind, reason, note
        )


def build(manager: Manager, *, sessions: Sessions, workers: int = 8) -> SubscriptionController:
    """Wire the controller into a process."""
    builder = Builder(
        manager,
        "subscription",
        SUBSCRIPTIONS,
        Subscription,
        indexes={
            _BY_NAMESPACE: lambda subscription: (subscription.metadata.namespace,),
            _BY_SINK: lambda subscription: (str(sink_key(subscription)),),
        },
    )

    def of_namespace(namespace: str) -> Iterable[ObjectKey]:
        return [each.key for each in builder.primary.by_index(_BY_NAMESPACE, namespace)]

    backends = builder.watches(
        EVENTINGBACKENDS,
        EventingBackend,
        to=lambda backend: of_namespace(backend.metadata.namespace),
        indexes={_BY_NAMESPACE: lambda backend: (backend.metadata.namespace,)},
    )
    services = builder.keeps(
        SERVICES,
        ServiceView,
        Service.of,
        to=lambda service: [each.key for each in builder.primary.by_index(_BY_SINK, str(service.key))],
    )

    controller = SubscriptionController(builder, backends, services, sessions)
    sessions.listeners.append(controller.connection_changed)
    builder.build(unless_suspended(builder, controller.reconcile), workers=workers)
    return controller
