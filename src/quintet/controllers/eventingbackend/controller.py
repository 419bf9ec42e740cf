"""Brings up what a backend needs, finds out whether it is ready, and writes that down.

Called by `runtime.controller` with a key. The phases: look → hold (finalizer) → plan → find out
whether the wanted backend is ready → bring the pods to the configuration that may serve → take away
what nobody needs any more → write the status. A configuration serves only once its backend was ready;
until then the one before it goes on.
"""

import contextlib
from dataclasses import dataclass

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.eventingbackend import (
    EVENTINGBACKENDS,
    Effective,
    EventingBackend,
    EventingBackendStatus,
    Standing,
    status_of,
)
from quintet.apis.eventingbackend.types import FINALIZER
from quintet.apis.meta import ObjectKey
from quintet.apis.steering import RECONCILE_AT
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.apis.subscription.validation import spec_errors
from quintet.controllers.eventingbackend.caches import (
    BY_CLAIM,
    BY_NAMESPACE,
    BackendCaches,
    claims,
    namespaces,
    watch,
)
from quintet.controllers.eventingbackend.decide import plan, status
from quintet.controllers.eventingbackend.decide.desired import DataPlane, Pods
from quintet.controllers.eventingbackend.decide.plan import Plan, plan_of
from quintet.controllers.eventingbackend.decide.probe_result import NOT_PROBED, ProbeResult, Reason
from quintet.controllers.eventingbackend.decide.status import News, WorkloadState
from quintet.controllers.eventingbackend.drivers import Driver, Tools, drivers
from quintet.controllers.eventingbackend.drivers.nats import NatsDriver
from quintet.controllers.eventingbackend.drivers.secrets import SecretReader
from quintet.controllers.eventingbackend.migration import (
    Migrations,
    StreamLocation,
    location_for,
    location_of,
)
from quintet.controllers.eventingbackend.options import Options
from quintet.controllers.eventingbackend.probes import Probes
from quintet.controllers.eventingbackend.writer import PARTS, ChildWriter
from quintet.controllers.suspension import unless_suspended
from quintet.eventing.children import DISPATCHER, PUBLISHER, SERVER, own_server_url, runs_server, server_url
from quintet.eventing.decide import consumers
from quintet.eventing.sessions import Sessions
from quintet.eventing.settings import DispatcherSettings, PublisherSettings
from quintet.nats.client import Client
from quintet.nats.errors import NatsError
from quintet.runtime import conditions, finalizers
from quintet.runtime.builder import Builder
from quintet.runtime.events import NORMAL, WARNING
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Result

# Nobody tells us when a foreign object goes away, so we look again.
_LOOK_AGAIN = 10.0
_decode_subscription = msgspec.json.Decoder(Subscription).decode


@dataclass(slots=True)
class Scope:
    """One look at one backend."""

    backend: EventingBackend
    plan: Plan
    hands: ChildWriter
    finding: ProbeResult = NOT_PROBED
    looked: bool = False
    """Whether the finding is that of a probe, which has a time of its own."""
    in_use: Effective | None = None
    publisher: Standing = status.WAITS
    dispatcher: Standing = status.WAITS
    again: float | None = None
    """Seconds after which a move is looked at again."""


class EventingBackendController:
    """Reconciles EventingBackends."""

    def __init__(
        self, builder: Builder[EventingBackend], sources: BackendCaches, sessions: Sessions, options: Options
    ) -> None:
        self._builder = builder
        self._sources = sources
        self._sessions = sessions
        self._options = options
        self._probes = Probes(builder.clock, options.timing)
        secrets = SecretReader(builder.client, options.account)
        tools = Tools(builder.clock, sessions, secrets, options.limits, builder.primary.get)
        self._drivers: dict[str, Driver] = drivers(tools)
        self._nats = NatsDriver(tools)
        self._migrations = Migrations(self._connect, builder.clock, options.timing)
        sessions.listeners.append(self._connection_changed)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at one EventingBackend and do what is missing."""
        backend = self._builder.primary.get(key)
        if backend is None:
            self._probes.forget(key)
            self._migrations.end(key, None)
            await self._sessions.keep_only(key, ())
            return Result.done()
        hands = ChildWriter(backend, self._builder.children, self._sources, self._options.system_namespace)
        if backend.metadata.deleting:
            return await self._delete(backend, hands)
        if FINALIZER not in backend.metadata.finalizers:
            # Its change brings the key back.
            await finalizers.add(self._builder.client, EVENTINGBACKENDS, backend, FINALIZER)
            return Result.done()
        scope = Scope(backend, plan_of(backend), hands)
        await self._find(scope)
        await self._serve(scope)
        # Subscriptions must not turn not ready over what the next try mends.
        if not hands.only_raced(self._builder.queue.failures[key]):
            await self._write_status(scope)
        if hands.failures:
            raise ExceptionGroup(f"EventingBackend {key}", hands.failures)
        if scope.again is not None:
            return Result.after(scope.again)
        return Result.after(self._probes.due_in(key) if scope.looked else _LOOK_AGAIN)

    async def _find(self, scope: Scope) -> None:
        """Whether the backend that is asked for is ready, and so which configuration may serve."""
        asked, wanted, serving = scope.plan.candidate, scope.plan.wanted, scope.plan.serving
        if asked is None:
            return
        scope.finding = await self._finding(scope, asked)
        proven = scope.finding.ready or (wanted is not None and plan.proven_already(serving, wanted))
        scope.in_use = wanted if wanted is not None and proven else serving

    async def _finding(self, scope: Scope, asked: Effective) -> ProbeResult:
        backend = scope.backend
        claim = plan.claim_of(backend)
        if claim is not None:
            rivals = self._builder.primary.by_index(BY_CLAIM, claim.place)
            if (elder := plan.find_older_owner(backend, rivals)) is not None:
                return _claimed(claim.stream, elder)
        running = WorkloadState()
        if runs_server(asked):
            made = await scope.hands.server(asked, self._options.nats_image)
            if isinstance(made, ProbeResult):
                return made
            running = made
        old = self._place(scope.hands)
        # A server that comes up, one pod of it that goes, or somebody who asks is worth another look at once.
        question = (
            asked.backend.name,
            asked.values,
            running.generation,
            running.status.available_replicas,
            old,
            backend.metadata.annotations.get(RECONCILE_AT),
        )
        driver = self._drivers[asked.backend.name]
        scope.looked = True
        finding = await self._probes.look(backend.key, question, lambda: driver.probe(backend, asked, old))
        if finding.ready or not runs_server(asked) or running.complete:
            return finding
        return ProbeResult(reason=Reason.SERVER_STARTING, message=f"{running.progress}; {finding.message}")

    async def _serve(self, scope: Scope) -> None:
        """Bring the pods to the configuration in use."""
        config, hands = scope.in_use, scope.hands
        if config is None:
            return
        plane = self._drivers[config.backend.name].data_plane(scope.backend, config)
        pods = Pods(
            image=self._options.image, secret=plane.secret, secret_version=self._secret_version(scope)
        )
        old, new = self._place(hands), _new_place(plane, runs_server(config))
        moves = old is not None and (new is None or not old.same(new))
        if moves and new is not None and (missing := await self._unheard(scope, config, new)):
            scope.publisher = scope.dispatcher = status.waits_for_subscriptions(missing)
            scope.again = self._options.timing.while_moving
            return
        self._look_back(hands, old, new)
        scope.publisher = await hands.publisher(plane, pods)
        if moves and old is not None and (left := await self._left(scope, old, new)) != 0:
            scope.dispatcher = status.delivers_the_rest(old.stream, left)
            scope.again = self._options.timing.while_moving
            return
        unmade = hands.unmade
        scope.dispatcher = (
            await hands.dispatcher(plane, pods) if plane.dispatcher is not None else status.NOTHING_TO_START
        )
        if scope.plan.wanted is not None and scope.publisher.status == "True":
            await self._clear_away(scope, config)
        # Not before: a look that fails half-way must not begin to wait anew.
        if hands.unmade == unmade and scope.publisher.status == "True":
            for note in self._migrations.end(scope.backend.key, new):
                self._announce(scope.backend, News(False, "EventsLeftBehind", note))

    def _place(self, hands: ChildWriter, part: str = DISPATCHER) -> StreamLocation | None:
        """Where the pods of a part that are there work."""
        known = self._sources.deployments.get(hands.name(part))
        if known is None or not hands.owns(known):
            return None
        own = own_server_url(hands.key) if hands.has(SERVER) else ""
        kind = PublisherSettings if part == PUBLISHER else DispatcherSettings
        return location_of(known.state.settings, known.state.secret, own_url=own, kind=kind)

    def _look_back(self, hands: ChildWriter, old: StreamLocation | None, new: StreamLocation | None) -> None:
        """Whether publishers leave a stream from which nobody will deliver."""
        there = self._place(hands, PUBLISHER)
        if there is not None and not any(each and there.same_stream(each) for each in (old, new)):
            self._migrations.abandon(hands.key, there)

    async def _unheard(self, scope: Scope, config: Effective, new: StreamLocation) -> int:
        """How many Subscriptions do not listen there yet: what is published before they do would be lost."""
        backend = scope.backend
        here, known = self._around(backend)
        missing = await self._missing(backend, config, new, plan.subscriptions_using(backend, here, known))
        there = self._place(scope.hands, PUBLISHER)
        if missing or (there is not None and there.same(new)):
            return missing
        # The cache may be behind, and publishers are about to leave.
        listed = plan.subscriptions_using(backend, here, await self._listed(backend.metadata.namespace))
        return await self._missing(backend, config, new, listed)

    async def _missing(
        self, backend: EventingBackend, config: Effective, new: StreamLocation, users: list[Subscription]
    ) -> int:
        namespace = backend.metadata.namespace
        wanted = [
            consumers.wanted(each, backend, config)
            for each in users
            if not each.metadata.deleting and not spec_errors(msgspec.to_builtins(each.spec), namespace)
        ]
        return await self._migrations.missing(backend.key, new, wanted) if wanted else 0

    async def _left(self, scope: Scope, old: StreamLocation, new: StreamLocation | None) -> int | None:
        """How many events are still to be delivered from the old place; None: not known, or more may come."""
        if scope.publisher.status != "True":
            return None
        # In the same stream nothing is left behind: the dispatchers that come deliver it.
        return (
            0 if new is not None and old.same_stream(new) else await self._migrations.left(scope.backend, old)
        )

    async def _clear_away(self, scope: Scope, config: Effective) -> None:
        """Take away what only an earlier configuration needed, once the present one serves."""
        if not plan.same(config, scope.plan.wanted) or scope.dispatcher.status != "True":
            return
        if not runs_server(config) and scope.hands.has(SERVER):
            await scope.hands.remove(SERVER)
        if config.backend.key("dispatcherReplicas") is None and scope.hands.has(DISPATCHER):
            await scope.hands.remove(DISPATCHER)
        urls = [server_url(scope.backend.key, config)] if config.backend.key("url") is not None else []
        await self._sessions.keep_only(scope.backend.key, urls)

    def _secret_version(self, scope: Scope) -> str:
        """Which state of the Secret is for the pods: the one that was found good, else the one they have."""
        if scope.finding.ready and plan.same(scope.in_use, scope.plan.candidate):
            return scope.finding.secret_version
        known = self._sources.rollout(scope.hands.name(PUBLISHER))
        return known.secret_version if known is not None else ""

    async def _delete(self, backend: EventingBackend, hands: ChildWriter) -> Result:
        if FINALIZER not in backend.metadata.finalizers:
            return Result.done()
        if used_by := await self._users(backend):
            await self._stay_connected(backend)
            names = sorted(each.metadata.name for each in used_by)
            await self._write(backend, status.in_use_by(backend, names))
            # The cache may never hear of one that came and went in one moment.
            return Result.after(_LOOK_AGAIN)
        gone = [await hands.remove(part) for part in PARTS]
        if not all(gone):
            return Result.after(_LOOK_AGAIN)
        await self._stay_connected(backend, own=False)
        for driver in self._drivers.values():
            await driver.release(backend)
        self._probes.forget(backend.key)
        await finalizers.remove(self._builder.client, EVENTINGBACKENDS, backend, FINALIZER)
        return Result.done()

    async def _stay_connected(self, backend: EventingBackend, *, own: bool = True) -> None:
        """Until the end of a backend its Subscriptions borrow its connection, and marks are taken off by it.

        Nobody probes a backend that goes, so a connection that was lost is made again here. Without
        `own` only if its server is not one that we ran: that one went with the other parts.
        """
        config = plan_of(backend).serving
        if config is None or config.backend.key("url") is None or (runs_server(config) and not own):
            return
        url, secret = server_url(backend.key, config), config.text("credentialsSecretRef")
        with contextlib.suppress(NatsError):  # a server that stays away must not hold the deletion up
            await self._nats.connect(backend.key, url, secret, own=runs_server(config))

    async def _users(self, backend: EventingBackend) -> list[Subscription]:
        """Who keeps a backend from going; the server itself is asked last, for the cache may be behind."""
        here, known = self._around(backend)
        if used_by := plan.subscriptions_using(backend, here, known):
            return used_by
        return plan.subscriptions_using(backend, here, await self._listed(backend.metadata.namespace))

    def _around(self, backend: EventingBackend) -> tuple[list[EventingBackend], list[Subscription]]:
        """The backends and Subscriptions of its namespace, as far as the caches know."""
        namespace = backend.metadata.namespace
        here = self._builder.primary.by_index(BY_NAMESPACE, namespace)
        return here, self._sources.subscriptions.by_index(BY_NAMESPACE, namespace)

    async def _listed(self, namespace: str) -> list[Subscription]:
        """The Subscriptions of a namespace, as the server has them."""
        found: list[Subscription] = []
        async for page in self._builder.client.pages(SUBSCRIPTIONS, namespace=namespace):
            for raw in page.items:
                with contextlib.suppress(*DECODE_ERRORS):  # what nobody can read uses nothing
                    found.append(_decode_subscription(raw))
        return found

    async def _write_status(self, scope: Scope) -> None:
        in_use, backend = scope.in_use, scope.backend
        wanted = status_of(
            backend_type=in_use.backend.name if in_use is not None else backend.spec.type,
            generation=backend.metadata.generation,
            faults=scope.plan.faults,
            in_use=in_use.entries() if in_use is not None else (),
            backend=scope.finding.standing,
            publisher=scope.publisher,
            subscriptions=scope.dispatcher,
        )
        await self._write(backend, wanted)

    async def _write(self, backend: EventingBackend, wanted: EventingBackendStatus) -> None:
        before, now = backend.status.conditions, self._builder.clock.now()
        merged = conditions.merged(before, wanted.conditions, backend.metadata.generation, now)
        said = msgspec.structs.replace(wanted, conditions=merged)
        if await self._builder.status.write(backend, backend.status, said):
            for each in status.news(before, merged):
                self._announce(backend, each)

    def _announce(self, backend: EventingBackend, news: News) -> None:
        kind, uid = NORMAL if news.good else WARNING, backend.metadata.uid
        self._builder.events.record(EVENTINGBACKENDS, backend.key, uid, kind, news.reason, news.note)

    async def _connect(self, key: ObjectKey, place: StreamLocation) -> tuple[Client, str] | ProbeResult:
        return await self._nats.connect(key, place.url, place.secret, own=place.own)

    def _connection_changed(self, key: ObjectKey) -> None:
        if self._sessions.lost(key):
            self._probes.forget(key)
            self._builder.queue.add(key)


def _new_place(plane: DataPlane, own: bool) -> StreamLocation | None:
    if plane.dispatcher is None:
        return None
    return location_for(plane.dispatcher, plane.secret, own=own)


def _claimed(stream: str, elder: EventingBackend) -> ProbeResult:
    text = f"EventingBackend {elder.key} has had stream {stream} for longer and wants it otherwise"
    return ProbeResult(
        reason=Reason.CLAIMED, message=f"{text}: choose another streamName, or the same settings"
    )


def build(
    manager: Manager, *, options: Options, sessions: Sessions | None = None, workers: int = 8
) -> EventingBackendController:
    """Wire the controller into a process."""
    indexes = {BY_CLAIM: claims, BY_NAMESPACE: namespaces}
    builder = Builder(manager, "eventingbackend", EVENTINGBACKENDS, EventingBackend, indexes=indexes)
    sources = watch(builder)
    controller = EventingBackendController(builder, sources, sessions or Sessions(manager.clock), options)
    builder.build(unless_suspended(builder, controller.reconcile), workers=workers)
    return controller
