"""Reconciles Subscriptions: one durable consumer each, and a status that reports whether events arrive.

The phases: validate the spec → choose the backend → bring the consumer to the spec → check dispatcher and
sink → compute the status. Events never pass through here: dispatchers pull them.
"""

import logging
from collections.abc import Iterable
from datetime import datetime

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.eventingbackend import EVENTINGBACKENDS, EventingBackend
from quintet.apis.meta import Condition, Object, ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription, SubscriptionStatus
from quintet.apis.subscription.types import FINALIZER
from quintet.apis.subscription.validation import spec_errors
from quintet.clock import Clock
from quintet.controllers.subscription.backlog import read_backlog
from quintet.controllers.subscription.dead_letters import DeadLetters
from quintet.controllers.subscription.decide import status as statuses
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
from quintet.eventing.decide import naming
from quintet.eventing.decide.choice import NoBackend, choose_backend
from quintet.eventing.decide.consumers import has_active_pull, needs_consumer
from quintet.eventing.sessions import Sessions
from quintet.kube.client import Client
from quintet.kube.errors import KubeError
from quintet.nats.errors import NatsError
from quintet.runtime.builder import Builder
from quintet.runtime.cache import Store
from quintet.runtime.events import NORMAL, WARNING, Event, Recorder
from quintet.runtime.manager import Manager
from quintet.runtime.queue import WorkQueue
from quintet.runtime.reconcile import Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler

POLL_SECONDS = 60.0
"""How often the controller checks a consumer though nothing changed: no watch reports its deletion."""
FIRST_POLL_SECONDS = 3.0
"""How soon it checks again while it waits for something that no watch reports; later less and less often."""
DEAD_LETTER_SECONDS = 1.0
"""How soon it continues a request to replay or drop dead letters."""
MOST_DELETION_SECONDS = 300.0
"""How long a deleted Subscription waits for an unreachable server before it goes without its consumer."""
MOST_DELETION_SECONDS_WITHOUT_BACKEND = 30.0
"""The same if the backend is deleted too: it may connect once more, or the namespace goes with the server."""
_BY_NAMESPACE = "namespace"
_BY_SINK = "sink"

log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(Subscription).decode


class SubscriptionController(ObjectReconciler[Subscription]):
    """Reconciles Subscriptions."""

    finalizer = FINALIZER

    def __init__(
        self,
        client: Client,
        queue: WorkQueue,
        recorder: Recorder,
        clock: Clock,
        subscriptions: Store[Subscription],
        backends: Store[EventingBackend],
        services: Store[Service],
        sessions: Sessions,
    ) -> None:
        self._client = client
        self._queue = queue
        self._recorder = recorder
        self._clock = clock
        self._subscriptions = subscriptions
        self._backends = backends
        self._services = services
        self._writer = ConsumerWriter(sessions, clock)
        self._metrics = SubscriptionMetrics()
        # Deleted Subscriptions whose consumer is still in a backend, until they are gone from the cache.
        self._left_behind: dict[ObjectKey, ObjectKey] = {}

    async def reconcile(self, subscription: Subscription, context: Context[Subscription]) -> Outcome:
        found, requeue_after = await self._observe(subscription)
        if found.dead_letters is not None and not found.dead_letters.request.is_done:
            requeue_after = DEAD_LETTER_SECONDS
        status = statuses.status_of(subscription, found)
        self._metrics.show(subscription, status, self._clock.now())
        # Before the sweep, which may fail for a server that this Subscription does not use.
        await context.write_status(status)
        await self._sweep(subscription.metadata.namespace)
        return Outcome(requeue_after=requeue_after)

    async def finalize(self, subscription: Subscription, context: Context[Subscription]) -> Outcome | None:
        backend = self._find_backend(subscription)
        # Without a backend, no server can hold a consumer of it.
        waits_for = await self._remove_consumer(subscription, backend) if backend is not None else ""
        if backend is not None and waits_for:
            longest = (
                MOST_DELETION_SECONDS_WITHOUT_BACKEND if backend.metadata.deleting else MOST_DELETION_SECONDS
            )
            if self._deletion_age(subscription) < longest:
                status = statuses.deleting_status(subscription, waits_for)
                self._metrics.show(subscription, status, self._clock.now())
                return Outcome(status, self._next_poll(subscription))
            consumer = naming.consumer_name(subscription.metadata)
            note = f"The consumer {consumer} could not be removed and remains on the server: {waits_for}"
            context.record(Event(WARNING, "ConsumerLeftBehind", note))
            self._left_behind[subscription.key] = backend.key
        return None

    async def forget(self, key: ObjectKey) -> None:
        self._metrics.forget(key)
        if (backend := self._left_behind.pop(key, None)) is not None:
            # Its server may have come back while the Subscription was still in the cache.
            self._writer.reset_sweep(backend)
        await self._sweep(key.namespace)

    def events(
        self, subscription: Subscription, before: SubscriptionStatus, after: SubscriptionStatus
    ) -> Iterable[Event]:
        """Return an Event when the Subscription becomes ready or not ready."""
        if bool(before.ready) == after.ready:
            return ()
        ready = after.conditions[0]
        expected = after.ready or ready.reason == Reason.PAUSED
        return (Event(NORMAL if expected else WARNING, ready.reason, ready.message),)

    def failed_status(self, status: SubscriptionStatus, ready: Condition) -> SubscriptionStatus:
        return msgspec.structs.replace(status, ready=False)

    def connection_changed(self, backend: ObjectKey) -> None:
        """Requeue the Subscriptions of a backend whose connection was made or lost."""
        self._writer.reset_sweep(backend)
        here = self._subscriptions.by_index(_BY_NAMESPACE, backend.namespace)
        # Where no Subscription is left, the key of the backend makes the controller sweep the namespace.
        for key in (backend, *(each.key for each in here)):
            self._queue.add(key)

    async def _observe(self, subscription: Subscription) -> tuple[Observation, float | None]:
        """Bring the consumer to the spec; return what was found, and when to check again."""
        if errors := spec_errors(msgspec.to_builtins(subscription.spec), subscription.metadata.namespace):
            return statuses.invalid_spec(errors), None
        backend = choose_backend(subscription, self._backends_of(subscription))
        if isinstance(backend, NoBackend):
            return Observation(problem=DeliveryProblem(Reason(backend.reason), backend.message)), None
        location, sink = self._writer.locate(backend), sink_problem(subscription, self._services)
        # Dispatchers read this reason, so it takes precedence over all others.
        leaves = sink if sink is not None and sink.reason is Reason.SINK_LEAVES else None
        if not isinstance(location, BackendStream):
            # A change of its connection or its status requeues the key.
            problem = leaves or statuses.backend_problem(backend) or location
            return Observation(backend, "", problem), POLL_SECONDS
        try:
            info = await self._writer.ensure(subscription, location)
            await self._remove_from_previous(subscription, backend)
            dead_letters = await DeadLetters(subscription, location).update()
            backlog = await read_backlog(subscription, location, info)
        except NatsError as error:
            failed = statuses.consumer_problem(backend, str(error))
            return Observation(backend, "", leaves or failed), self._next_poll(subscription)
        found = Observation(backend, info.name, None, dead_letters, backlog)
        paused = statuses.pause_problem(subscription)
        if waits := leaves or statuses.backend_problem(backend) or sink or paused:
            return found._replace(problem=waits), POLL_SECONDS
        if not has_active_pull(info):
            problem = statuses.no_dispatcher_problem(backend)
            return found._replace(problem=problem), self._next_poll(subscription)
        return found, POLL_SECONDS

    async def _remove_from_previous(self, subscription: Subscription, backend: EventingBackend) -> None:
        """Remove the consumer from the previous backend, once the new one has a consumer."""
        before = subscription.status.backend.name
        if not before or before == backend.metadata.name:
            return
        old = self._backends.get(ObjectKey(subscription.metadata.namespace, before))
        location = self._writer.locate(old) if old is not None else None
        if not isinstance(location, BackendStream):
            return
        try:
            waiting = await self._writer.remove_from_former(
                location, naming.consumer_name(subscription.metadata)
            )
        except NatsError as error:
            # The previous server may be unreachable; a later sweep removes the consumer.
            log.info(
                "Consumer not removed", extra={"backend": str(location.backend.key), "error": str(error)}
            )
            return
        self._report_undelivered(subscription, waiting, before, backend.metadata.name)

    async def _sweep(self, namespace: str) -> None:
        """Remove consumers without a Subscription from the backends of a namespace."""
        for backend in self._backends.by_index(_BY_NAMESPACE, namespace):
            location = self._writer.locate(backend)
            if not isinstance(location, BackendStream) or not self._writer.is_sweep_due(location):
                continue
            try:
                await self._remove_orphans(location)
            except NatsError as error:
                log.info("Consumers not swept", extra={"backend": str(backend.key), "error": str(error)})
            except KubeError:
                # The retry of this key must sweep again: there may be no other key.
                self._writer.reset_sweep(backend.key)
                raise

    async def _remove_orphans(self, location: BackendStream) -> None:
        namespace = location.backend.metadata.namespace
        here = self._subscriptions.by_index(_BY_NAMESPACE, namespace)
        left = await self._writer.orphans(location, self._needed_consumers(location.backend, here))
        if not left:
            return
        # Deleting a consumer deletes its events and the cache may be behind, so the server decides: a
        # Subscription that is gone after its consumer was listed never returns with the same uid.
        alive = await self._list_subscriptions(namespace)
        moved = {naming.consumer_name(each.metadata): each for each in alive}
        for name in set(left) - self._needed_consumers(location.backend, alive):
            waiting = await self._writer.remove_from_former(location, name)
            if isinstance(owner := moved.get(name), Subscription):
                self._report_undelivered(
                    owner, waiting, location.backend.metadata.name, owner.status.backend.name
                )

    def _needed_consumers(self, backend: EventingBackend, found: Iterable[Object]) -> set[str]:
        """Return the names of the consumers that Subscriptions may need in a backend."""
        here = self._backends.by_index(_BY_NAMESPACE, backend.metadata.namespace)
        return {
            naming.consumer_name(each.metadata)
            for each in found
            if not isinstance(each, Subscription) or needs_consumer(each, backend, here)
        }

    async def _list_subscriptions(self, namespace: str) -> list[Object]:
        """List all Subscriptions of a namespace; of those that do not decode, only the metadata."""
        found: list[Object] = []
        async for page in self._client.pages(SUBSCRIPTIONS, namespace=namespace):
            for raw in page.items:
                try:
                    found.append(_decode(raw))
                except (*DECODE_ERRORS, ValueError):
                    # It may own a consumer nevertheless.
                    found.append(msgspec.json.decode(raw, type=Object))
            found += [msgspec.json.decode(raw, type=Object) for raw in page.too_deep]
        return found

    def _find_backend(self, subscription: Subscription) -> EventingBackend | None:
        """Return the backend that may hold the consumer."""
        if name := subscription.status.backend.name:
            return self._backends.get(ObjectKey(subscription.metadata.namespace, name))
        # The consumer is created before the status names its backend.
        choice = choose_backend(subscription, self._backends_of(subscription))
        return choice if isinstance(choice, EventingBackend) else None

    async def _remove_consumer(self, subscription: Subscription, backend: EventingBackend) -> str:
        """Remove the consumer; return why that is not possible yet, or an empty text."""
        location = self._writer.locate(backend)
        if not isinstance(location, BackendStream):
            return (
                ""
                if location.reason is Reason.BY_EVENT_MESH or removes_consumers(backend)
                else location.message
            )
        try:
            await self._writer.remove(subscription, location)
        except NatsError as error:
            return statuses.consumer_problem(backend, str(error)).message
        return ""

    def _report_undelivered(self, subscription: Subscription, waiting: int, before: str, now: str) -> None:
        if waiting:
            note = f"{waiting} events that wait in EventingBackend '{before}' are not delivered: "
            note += f"this Subscription now uses '{now}'"
            key, uid = subscription.key, subscription.metadata.uid
            self._recorder.record(SUBSCRIPTIONS, key, uid, WARNING, "EventsLeftBehind", note)

    def _next_poll(self, subscription: Subscription) -> float:
        age = statuses.age(subscription, self._clock.now())
        return min(max(age, FIRST_POLL_SECONDS), POLL_SECONDS)

    def _deletion_age(self, subscription: Subscription) -> float:
        """Return the seconds since somebody deleted the Subscription."""
        deleted = datetime.fromisoformat(subscription.metadata.deletion_timestamp or "")
        return (self._clock.now() - deleted).total_seconds()

    def _backends_of(self, subscription: Subscription) -> list[EventingBackend]:
        return self._backends.by_index(_BY_NAMESPACE, subscription.metadata.namespace)


def build(manager: Manager, *, sessions: Sessions, workers: int = 8) -> SubscriptionController:
    """Add the Subscription controller to a manager."""
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
    services = builder.watches_reduced(
        SERVICES,
        ServiceView,
        Service.of,
        to=lambda service: [each.key for each in builder.primary.by_index(_BY_SINK, str(service.key))],
    )

    controller = SubscriptionController(
        builder.client,
        builder.queue,
        builder.events,
        builder.clock,
        builder.primary,
        backends,
        services,
        sessions,
    )
    sessions.listeners.append(controller.connection_changed)
    builder.build(controller, workers=workers)
    return controller
