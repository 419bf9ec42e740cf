"""Reconciles EventingBackends: the server, publisher and dispatcher of a backend, and its status.

The phases: plan → probe the backend that the spec names → bring the pods to the configuration in use →
delete what no configuration needs → compute the status. A configuration is in use once its backend was
ready; until then the previous one stays.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.eventingbackend import (
    EVENTINGBACKENDS,
    Effective,
    EventingBackend,
    EventingBackendStatus,
    PartCondition,
    SubjectPrefixes,
    status_of,
)
from quintet.apis.eventingbackend.types import FINALIZER
from quintet.apis.meta import Condition, ObjectKey
from quintet.apis.steering import RECONCILE_AT
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.apis.subscription.validation import spec_errors
from quintet.clock import Clock
from quintet.controllers.eventingbackend.caches import (
    BY_NAMESPACE,
    BY_SERVER,
    BackendCaches,
    namespaces,
    watch,
)
from quintet.controllers.eventingbackend.decide import plan, status
from quintet.controllers.eventingbackend.decide.desired import Pods
from quintet.controllers.eventingbackend.decide.plan import Plan, plan_of
from quintet.controllers.eventingbackend.decide.probe_result import (
    NOT_PROBED,
    ProbeResult,
    Reason,
    server_of_other,
)
from quintet.controllers.eventingbackend.decide.status import WorkloadState
from quintet.controllers.eventingbackend.drivers import Driver, Tools, drivers
from quintet.controllers.eventingbackend.drivers.nats import NatsDriver
from quintet.controllers.eventingbackend.drivers.secrets import SecretReader
from quintet.controllers.eventingbackend.former_subjects import FormerSubjects
from quintet.controllers.eventingbackend.migration import (
    Migrations,
    StreamLocation,
    location_for,
    location_of,
)
from quintet.controllers.eventingbackend.options import Options
from quintet.controllers.eventingbackend.probes import Probes
from quintet.controllers.eventingbackend.writer import PARTS, ChildWriter
from quintet.eventing.children import DISPATCHER, PUBLISHER, SERVER, own_server_url, runs_server, server_url
from quintet.eventing.decide import consumers
from quintet.eventing.sessions import Sessions
from quintet.eventing.settings import DispatcherSettings, PublisherSettings
from quintet.kube.client import Client
from quintet.nats.errors import NatsError
from quintet.runtime.apply import Children
from quintet.runtime.builder import Builder
from quintet.runtime.cache import Store
from quintet.runtime.events import NORMAL, WARNING, Event
from quintet.runtime.manager import Manager
from quintet.runtime.queue import WorkQueue
from quintet.runtime.reconcile import Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler

# No watch reports that a foreign object is gone, so the controller polls.
_POLL_SECONDS = 10.0
_decode_subscription = msgspec.json.Decoder(Subscription).decode


@dataclass(slots=True)
class Attempt:
    """One reconcile of one backend."""

    backend: EventingBackend
    context: Context[EventingBackend]
    plan: Plan
    writer: ChildWriter
    probe_result: ProbeResult = NOT_PROBED
    probed: bool = False
    """Whether the result is that of a probe, which has an interval of its own."""
    in_use: Effective | None = None
    former: tuple[SubjectPrefixes, ...] = ()
    """Prefixes of earlier configurations that the stream and its consumers keep."""
    publisher: PartCondition = status.WAITS
    dispatcher: PartCondition = status.WAITS
    requeue_after: float | None = None
    """Seconds until the controller checks the progress of a move again."""


class EventingBackendController(ObjectReconciler[EventingBackend]):
    """Reconciles EventingBackends."""

    finalizer = FINALIZER

    def __init__(
        self,
        client: Client,
        children: Children,
        queue: WorkQueue,
        clock: Clock,
        backends: Store[EventingBackend],
        sources: BackendCaches,
        sessions: Sessions,
        options: Options,
    ) -> None:
        self._client = client
        self._children = children
        self._queue = queue
        self._backends = backends
        self._sources = sources
        self._sessions = sessions
        self._options = options
        self._probes = Probes(clock, options.timing)
        secrets = SecretReader(client, options.account)
        tools = Tools(clock, sessions, secrets, options.limits)
        self._drivers: dict[str, Driver] = drivers(tools)
        self._nats = NatsDriver(tools)
        self._migrations = Migrations(self._nats.connect_to, clock, options.timing)
        self._former_subjects = FormerSubjects(self._nats.connect_to, clock, options.timing)
        sessions.listeners.append(self._connection_changed)

    async def reconcile(self, backend: EventingBackend, context: Context[EventingBackend]) -> Outcome:
        writer = self._writer(backend)
        scope = Attempt(backend, context, plan_of(backend), writer)
        await self._choose_config(scope)
        await self._apply_config(scope)
        # Subscriptions must not become not ready because of an error that the next retry fixes.
        new_status = None if writer.only_raced(context.failures) else self._status(scope)
        requeue_after = scope.requeue_after
        if requeue_after is None:
            requeue_after = self._probes.due_in(backend.key) if scope.probed else _POLL_SECONDS
        return Outcome(new_status, requeue_after, writer.failures)

    async def finalize(self, backend: EventingBackend, context: Context[EventingBackend]) -> Outcome | None:
        if used_by := await self._find_users(backend):
            await self._stay_connected(backend)
            names = sorted(each.metadata.name for each in used_by)
            # The cache may miss a Subscription that was created and deleted at once.
            return Outcome(status.in_use_by(backend, names), _POLL_SECONDS)
        writer = self._writer(backend)
        gone = [await writer.remove(part) for part in PARTS]
        if not all(gone):
            return Outcome(requeue_after=_POLL_SECONDS)
        await self._stay_connected(backend, own=False)
        for driver in self._drivers.values():
            await driver.release(backend)
        self._probes.forget(backend.key)
        return None

    async def forget(self, key: ObjectKey) -> None:
        self._probes.forget(key)
        self._migrations.end(key, None)
        self._former_subjects.forget(key)
        await self._sessions.keep_only(key, ())

    def events(
        self, backend: EventingBackend, before: EventingBackendStatus, after: EventingBackendStatus
    ) -> Iterable[Event]:
        for news in status.news(before.conditions, after.conditions):
            yield Event(NORMAL if news.good else WARNING, news.reason, news.note)

    def failed_status(self, known: EventingBackendStatus, ready: Condition) -> EventingBackendStatus:
        return msgspec.structs.replace(known, eventing_ready=False)

    def _writer(self, backend: EventingBackend) -> ChildWriter:
        return ChildWriter(backend, self._children, self._sources, self._options.system_namespace)

    async def _choose_config(self, scope: Attempt) -> None:
        """Find out whether the backend of the spec is ready, and which configuration is to be used."""
        if scope.plan.candidate is None:
            return
        result = await self._probe(scope, scope.plan.candidate)
        scope.in_use, scope.probe_result = plan.config_in_use(scope.backend, scope.plan, result)
        scope.former = plan.former_subjects(scope.backend, scope.in_use)

    async def _probe(self, scope: Attempt, candidate: Effective) -> ProbeResult:
        backend = scope.backend
        if (owner := self._find_server_owner(backend, candidate)) is not None:
            return server_of_other(owner.key)
        running = WorkloadState()
        if runs_server(candidate):
            made = await scope.writer.server(candidate, self._options.nats_image)
            if isinstance(made, ProbeResult):
                return made
            running = made
        old = self._location(scope.writer)
        # A change of the server's pods, or a request to reconcile, makes the controller probe at once.
        inputs = (
            candidate.backend.name,
            candidate.values,
            running.generation,
            running.status.available_replicas,
            old,
            backend.status.former_subjects,
            backend.metadata.annotations.get(RECONCILE_AT),
        )
        driver = self._drivers[candidate.backend.name]
        scope.probed = True
        result = await self._probes.probe(backend.key, inputs, lambda: driver.probe(backend, candidate, old))
        if result.usable or not runs_server(candidate) or running.complete:
            return result
        return ProbeResult(Reason.SERVER_STARTING, f"{running.progress}; {result.message}")

    def _find_server_owner(self, backend: EventingBackend, config: Effective) -> EventingBackend | None:
        """Return the backend for which the operator runs the server that `url` names."""
        services = plan.named_services(backend, config)
        owners = (owner for service in services for owner in self._backends.by_index(BY_SERVER, service))
        return next(owners, None)

    async def _apply_config(self, scope: Attempt) -> None:
        """Bring the pods to the configuration in use."""
        backend, config, writer = scope.backend, scope.in_use, scope.writer
        if config is None:
            return
        plane = self._drivers[config.backend.name].data_plane(backend, config)
        pods = Pods(
            image=self._options.image, secret=plane.secret, secret_version=self._secret_version(scope)
        )
        old, new = (
            self._location(writer),
            location_for(plane.dispatcher, plane.secret, own=runs_server(config)),
        )
        moves = old is not None and (new is None or not old.same(new))
        if moves and new is not None and (missing := await self._find_unready(scope, config, new)):
            scope.publisher = scope.dispatcher = status.waits_for_subscriptions(missing)
            scope.requeue_after = self._options.timing.while_moving
            return
        self._check_abandoned(writer, old, new)
        scope.publisher = await writer.publisher(plane, pods)
        if moves and old is not None and (left := await self._count_undelivered(scope, old, new)) != 0:
            scope.dispatcher = status.delivers_the_rest(old.stream, left)
            scope.requeue_after = self._options.timing.while_moving
            return
        unmade = writer.unmade
        scope.dispatcher = (
            await writer.dispatcher(plane, pods) if plane.dispatcher is not None else status.NOTHING_TO_START
        )
        if scope.plan.wanted is not None and scope.publisher.status == "True":
            await self._delete_unused(scope, config)
        # Only now: a reconcile that fails half-way must not restart the wait.
        if writer.unmade == unmade and scope.publisher.status == "True":
            for note in self._migrations.end(backend.key, new):
                scope.context.record(Event(WARNING, "EventsLeftBehind", note))
            if scope.former and new is not None and await self._former_subjects.are_unused(backend, new):
                # The next probe removes them from the stream.
                scope.former, scope.requeue_after = (), self._options.timing.while_moving

    def _location(self, writer: ChildWriter, part: str = DISPATCHER) -> StreamLocation | None:
        """Return the stream location that the running pods of a part use."""
        known = self._sources.deployments.get(writer.name(part))
        if known is None or not writer.owns(known):
            return None
        own = own_server_url(writer.key) if writer.has(SERVER) else ""
        kind = PublisherSettings if part == PUBLISHER else DispatcherSettings
        return location_of(known.state.settings, known.state.secret, own_url=own, kind=kind)

    def _check_abandoned(
        self, writer: ChildWriter, old: StreamLocation | None, new: StreamLocation | None
    ) -> None:
        """Report a stream that publishers leave and from which no dispatcher will deliver."""
        there = self._location(writer, PUBLISHER)
        if there is not None and not any(each and there.same_stream(each) for each in (old, new)):
            self._migrations.abandon(writer.key, there)

    async def _find_unready(self, scope: Attempt, config: Effective, new: StreamLocation) -> list[str]:
        """Return the Subscriptions without a consumer in the new stream; they would miss events."""
        backend = scope.backend
        here, known = self._in_namespace(backend)
        users = plan.subscriptions_using(backend, here, known)
        missing = await self._find_missing(scope, config, new, users)
        there = self._location(scope.writer, PUBLISHER)
        if missing or (there is not None and there.same(new)):
            return missing
        # The cache may be behind, and publishers are about to move.
        listed = plan.subscriptions_using(backend, here, await self._list_live(backend.metadata.namespace))
        return await self._find_missing(scope, config, new, listed)

    async def _find_missing(
        self, scope: Attempt, config: Effective, new: StreamLocation, users: list[Subscription]
    ) -> list[str]:
        backend, namespace = scope.backend, scope.backend.metadata.namespace
        wanted = {
            each.metadata.name: consumers.desired_consumer(each, backend, config, scope.former)
            for each in users
            if not each.metadata.deleting and not spec_errors(msgspec.to_builtins(each.spec), namespace)
        }
        return await self._migrations.missing(backend.key, new, wanted) if wanted else []

    async def _count_undelivered(
        self, scope: Attempt, old: StreamLocation, new: StreamLocation | None
    ) -> int | None:
        """Count the events that wait in the old stream; None if unknown, or if more may come."""
        if scope.publisher.status != "True":
            return None
        # In the same stream nothing is left behind: the new dispatchers deliver it.
        return (
            0 if new is not None and old.same_stream(new) else await self._migrations.left(scope.backend, old)
        )

    async def _delete_unused(self, scope: Attempt, config: Effective) -> None:
        """Delete what only an earlier configuration needed, once the current one is in use."""
        if not plan.same(config, scope.plan.wanted) or scope.dispatcher.status != "True":
            return
        if not runs_server(config) and scope.writer.has(SERVER):
            await scope.writer.remove(SERVER)
        if config.backend.key("dispatcherReplicas") is None and scope.writer.has(DISPATCHER):
            await scope.writer.remove(DISPATCHER)
        urls = [server_url(scope.backend.key, config)] if config.backend.key("url") is not None else []
        await self._sessions.keep_only(scope.backend.key, urls)

    def _secret_version(self, scope: Attempt) -> str:
        """Return the version of the Secret for the pods: the one that the probe accepted, else theirs."""
        if scope.probe_result.usable and plan.same(scope.in_use, scope.plan.candidate):
            return scope.probe_result.secret_version
        known = self._sources.rollout(scope.writer.name(PUBLISHER))
        return known.secret_version if known is not None else ""

    async def _stay_connected(self, backend: EventingBackend, *, own: bool = True) -> None:
        """Reconnect to the server of a backend that is being deleted.

        Its Subscriptions remove their consumers over this connection, and probes no longer run. Without
        `own`, connect only to a server that is not part of the backend: its own is deleted already.
        """
        config = plan_of(backend).serving
        if config is None or config.backend.key("url") is None or (runs_server(config) and not own):
            return
        url, secret = server_url(backend.key, config), config.text("credentialsSecretRef")
        with contextlib.suppress(NatsError):  # an unreachable server must not block the deletion
            await self._nats.connect(backend.key, url, secret, own=runs_server(config))

    async def _find_users(self, backend: EventingBackend) -> list[Subscription]:
        """Return the Subscriptions that block the deletion; if the cache has none, ask the server."""
        here, known = self._in_namespace(backend)
        if used_by := plan.subscriptions_using(backend, here, known):
            return used_by
        return plan.subscriptions_using(backend, here, await self._list_live(backend.metadata.namespace))

    def _in_namespace(self, backend: EventingBackend) -> tuple[list[EventingBackend], list[Subscription]]:
        """Return the backends and Subscriptions of its namespace from the caches."""
        namespace = backend.metadata.namespace
        here = self._backends.by_index(BY_NAMESPACE, namespace)
        return here, self._sources.subscriptions.by_index(BY_NAMESPACE, namespace)

    async def _list_live(self, namespace: str) -> list[Subscription]:
        """List the Subscriptions of a namespace on the server."""
        found: list[Subscription] = []
        async for page in self._client.pages(SUBSCRIPTIONS, namespace=namespace):
            for raw in page.items:
                with contextlib.suppress(*DECODE_ERRORS):  # an object that does not decode uses nothing
                    found.append(_decode_subscription(raw))
        return found

    def _status(self, scope: Attempt) -> EventingBackendStatus:
        in_use, backend = scope.in_use, scope.backend
        return status_of(
            backend_type=in_use.backend.name if in_use is not None else backend.spec.type,
            generation=backend.metadata.generation,
            faults=scope.plan.faults,
            in_use=in_use.entries() if in_use is not None else (),
            former_subjects=scope.former,
            backend=scope.probe_result.condition,
            publisher=scope.publisher,
            subscriptions=scope.dispatcher,
        )

    def _connection_changed(self, key: ObjectKey) -> None:
        if self._sessions.has_lost(key):
            self._probes.forget(key)
            self._queue.add(key)


def build(
    manager: Manager, *, options: Options, sessions: Sessions | None = None, workers: int = 8
) -> EventingBackendController:
    """Add the EventingBackend controller to a manager."""
    indexes = {BY_NAMESPACE: namespaces, BY_SERVER: plan.own_servers}
    builder = Builder(manager, "eventingbackend", EVENTINGBACKENDS, EventingBackend, indexes=indexes)
    sources = watch(builder)
    controller = EventingBackendController(
        builder.client,
        builder.children,
        builder.queue,
        builder.clock,
        builder.primary,
        sources,
        sessions or Sessions(manager.clock),
        options,
    )
    builder.build(controller, workers=workers)
    return controller
