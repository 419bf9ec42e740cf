"""The dispatcher process: connect, list Subscriptions, deliver events, shut down.

There is no leader election: every replica pulls from every consumer, and the server distributes the events.
SIGTERM stops the pull requests, waits for deliveries in flight and returns the rest to the server. After
SIGKILL the server redelivers what was not acknowledged.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quintet.apis.eventingbackend.addresses import NetworkLimits
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.clock import Clock
from quintet.eventing.dispatcher import metrics
from quintet.eventing.dispatcher.dead_letters import DeadLetters
from quintet.eventing.dispatcher.retries import Retries
from quintet.eventing.dispatcher.sink_client import SinkClient
from quintet.eventing.dispatcher.subscriptions import ActiveSubscriptions
from quintet.eventing.settings import POD_GRACE_SECONDS, DispatcherSettings
from quintet.kube import config
from quintet.kube.client import Client as KubeClient
from quintet.kube.transport import Transport
from quintet.nats import credentials
from quintet.nats.client import NatsClient
from quintet.nats.errors import Closed, NatsError
from quintet.nats.jetstream import JetStream
from quintet.nats.options import NatsOptions
from quintet.observe.health import HealthServer
from quintet.runtime.builder import decoder
from quintet.runtime.cache import Store
from quintet.runtime.events import Recorder
from quintet.runtime.watch import Selection, Watch

GRACE_SECONDS: Final = POD_GRACE_SECONDS - 10.0
"""For deliveries in flight after SIGTERM; longer than a sink may take to respond."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherOptions:
    """Cluster and listen addresses."""

    kubeconfig: str | None
    address: tuple[str, int]
    metrics_address: tuple[str, int]
    sink_overrides: Mapping[str, tuple[str, int]]
    """Hosts of sinks that are reached at another address."""


async def serve(settings: DispatcherSettings, options: DispatcherOptions, clock: Clock) -> bool:
    """Deliver until SIGTERM; return False if the client gave up reconnecting to NATS."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    metrics_server = HealthServer(*options.metrics_address, clock)
    async with Transport(config.load(options.kubeconfig)) as transport:
        dispatcher = Dispatcher(
            settings=settings,
            kube=KubeClient(transport),
            clock=clock,
            identity=socket.gethostname(),
            health=HealthServer(*options.address, clock),
            limits=NetworkLimits.of(api_server=[host] if host else []),
            sink_overrides=options.sink_overrides,
        )
        await metrics_server.start()
        try:
            await dispatcher.run()
        except Closed as error:
            log.error("Gave up reconnecting to NATS", extra={"error": str(error)})
            return False
        finally:
            await metrics_server.stop()
    return True


@dataclass(slots=True, kw_only=True)
class Dispatcher:
    """A dispatcher process."""

    settings: DispatcherSettings
    kube: KubeClient
    clock: Clock
    identity: str
    health: HealthServer
    limits: NetworkLimits
    sink_overrides: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    _store: Store[Subscription] = field(default_factory=Store)
    _nats: NatsClient | None = None
    _subscriptions: ActiveSubscriptions | None = None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """Start to shut down; `run` returns when that is complete."""
        self._stopping.set()

    async def run(self) -> None:
        """Deliver until `stop`, SIGTERM or SIGINT; raises `Closed` after giving up reconnecting to NATS."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)
        watch = Watch(
            self.kube,
            Selection(SUBSCRIPTIONS, decoder(Subscription), self.settings.namespace),
            self._store,
            self.clock,
        )
        recorder = Recorder(self.kube, "dispatcher", self.identity, self.clock)
        # Known Subscriptions are served without the API server, so readiness does not depend on it: after a
        # restart the dispatcher could not list them.
        self.health.readiness["delivery"] = self.check_ready
        await self.health.start()
        background = [asyncio.create_task(watch.run()), asyncio.create_task(recorder.run())]
        work = asyncio.create_task(self._deliver(recorder))
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            # Background tasks run forever: if one ends, it has failed.
            done, _ = await asyncio.wait([work, stopped, *background], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()
            await self._finish(recorder)
        finally:
            tasks = [work, stopped, *background]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._nats is not None:
                await self._nats.close()
            await self.health.stop()

    def check_ready(self) -> str | None:
        """Return why not all events can be delivered; None if every pull request is confirmed."""
        problem = self._problem()
        metrics.health.set(0 if problem else 1)
        return problem

    def _problem(self) -> str | None:
        if self._stopping.is_set():
            return "shutting down"
        if not self._store.synced.is_set():
            return "Subscriptions are not listed yet"
        if self._nats is None or not self._nats.connected or self._subscriptions is None:
            why = self._nats.failure if self._nats is not None else "not connected yet"
            return f"no connection to NATS: {why}"
        inactive = self._subscriptions.inactive()
        if not inactive:
            return None
        names = ", ".join(f"{key.name} ({error})" if error else key.name for key, error in inactive[:10])
        return (
            f"{len(inactive)} of {len(self._subscriptions)} consumers have no confirmed pull request: {names}"
        )

    async def _deliver(self, recorder: Recorder) -> None:
        self._nats = nats = await self._connect()
        jetstream = JetStream(nats)
        await self._store.synced.wait()
        dead_letters = DeadLetters(jetstream, self.settings.dead_letter_subject, recorder, self.clock)
        sink_client = SinkClient(self.clock, self.limits, self.sink_overrides)
        self._subscriptions = ActiveSubscriptions(
            self.settings,
            jetstream,
            sink_client,
            Retries(jetstream, self.settings.nats.stream, self.clock),
            dead_letters,
            self.settings.retry_policy,
            self.clock,
        )
        self._subscriptions.watch_store(self._store)
        log.info("Subscriptions listed", extra={"subscriptions": len(self._subscriptions)})
        try:
            await nats.wait_closed()
        finally:
            sink_client.close()
        raise Closed(str(nats.failure or "the connection was closed"))

    async def _connect(self) -> NatsClient:
        """Return a connected client; it reconnects automatically."""
        nats = self.settings.nats
        login = credentials.from_files(nats.credentials) if nats.credentials else None
        options = NatsOptions(
            nats.url,
            login,
            f"dispatcher {self.settings.namespace}/{self.settings.backend} {self.identity}",
            nats.max_reconnects,
            nats.reconnect_seconds,
        )
        backoff = 0.25
        while True:
            try:
                return await NatsClient(options, self.clock).__aenter__()
            except NatsError as error:
                log.warning("Cannot connect to NATS", extra={"error": str(error)})
            await self.clock.sleep(backoff)
            backoff = min(2 * backoff, nats.reconnect_seconds)

    async def _finish(self, recorder: Recorder) -> None:
        log.info("Shutting down")
        if self._subscriptions is not None:
            await self._subscriptions.finish(GRACE_SECONDS)
        if self._nats is not None and self._nats.connected:
            with contextlib.suppress(NatsError):
                await self._nats.flush()
        flush = asyncio.create_task(recorder.flush())
        await asyncio.wait([flush], timeout=1.0)
        flush.cancel()
