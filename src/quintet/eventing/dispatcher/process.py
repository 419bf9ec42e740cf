"""The life of a dispatcher process: connect, list, deliver, stop.

Called by the command line. It elects no leader: every replica pulls from every consumer, and the
server shares the events out. SIGTERM ends the pulls, lets deliveries under way arrive and gives back
what takes too long; SIGKILL costs nothing either, because what was not acknowledged comes again.
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

from quintet.apis.eventingbackend.addresses import Limits
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.clock import Clock
from quintet.eventing.dispatcher import metrics
from quintet.eventing.dispatcher.deadletters import DeadLetters
from quintet.eventing.dispatcher.decide.policy import Patience
from quintet.eventing.dispatcher.roster import Roster
from quintet.eventing.dispatcher.sinks import Sinks
from quintet.eventing.settings import DispatcherSettings
from quintet.kube import config
from quintet.kube.client import Client as KubeClient
from quintet.kube.transport import Transport
from quintet.nats import credentials
from quintet.nats.client import Client as NatsClient
from quintet.nats.errors import Closed, NatsError
from quintet.nats.jetstream import JetStream
from quintet.nats.options import Options as NatsOptions
from quintet.observe.health import HealthServer
from quintet.runtime.builder import decoder
from quintet.runtime.cache import Store
from quintet.runtime.events import Recorder
from quintet.runtime.watch import Selection, Watch

GRACE_SECONDS: Final = 20.0
"""For deliveries under way after SIGTERM; a pod has thirty."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which cluster, and where to listen."""

    kubeconfig: str | None
    address: tuple[str, int]
    metrics_address: tuple[str, int]
    places: Mapping[str, tuple[str, int]]
    """Hosts of sinks that are reached elsewhere."""


async def serve(settings: DispatcherSettings, options: Options, clock: Clock) -> bool:
    """Deliver until SIGTERM; False if the server of NATS was given up instead."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    numbers = HealthServer(*options.metrics_address, clock)
    async with Transport(config.load(options.kubeconfig)) as transport:
        dispatcher = Dispatcher(
            settings=settings,
            kube=KubeClient(transport),
            clock=clock,
            identity=socket.gethostname(),
            health=HealthServer(*options.address, clock),
            limits=Limits.of(api_server=[host] if host else []),
            patience=Patience(),
            places=options.places,
        )
        await numbers.start()
        try:
            await dispatcher.run()
        except Closed as error:
            log.error("The server of NATS was given up", extra={"error": str(error)})
            return False
        finally:
            await numbers.stop()
    return True


@dataclass(slots=True, kw_only=True)
class Dispatcher:
    """Everything that one dispatcher process runs."""

    settings: DispatcherSettings
    kube: KubeClient
    clock: Clock
    identity: str
    health: HealthServer
    limits: Limits
    patience: Patience = field(default_factory=Patience)
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    _store: Store[Subscription] = field(default_factory=Store)
    _nats: NatsClient | None = None
    _roster: Roster | None = None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """Begin to shut down; `run` returns when that is done."""
        self._stopping.set()

    async def run(self) -> None:
        """Deliver until `stop`, SIGTERM or SIGINT; an error if the server of NATS was given up."""
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
        # Whether the API server is there does not matter for those Subscriptions that are known already:
        # a dispatcher that were restarted for it could deliver for none of them.
        self.health.readiness["delivery"] = self.finding
        await self.health.start()
        background = [asyncio.create_task(watch.run()), asyncio.create_task(recorder.run())]
        work = asyncio.create_task(self._deliver(recorder))
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            # A background task never ends by itself: if one does, its error is ours.
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

    def finding(self) -> str | None:
        """Why not every event can be delivered now; None if all consumers are held."""
        found = self._finding()
        metrics.health.set(0 if found else 1)
        return found

    def _finding(self) -> str | None:
        if self._stopping.is_set():
            return "shutting down"
        if not self._store.synced.is_set():
            return "Subscriptions are not listed yet"
        if self._nats is None or not self._nats.connected or self._roster is None:
            why = self._nats.failure if self._nats is not None else "never connected yet"
            return f"no connection to NATS: {why}"
        missing = self._roster.missing()
        if not missing:
            return None
        names = ", ".join(key.name for key in missing[:10])
        return f"{len(missing)} of {len(self._roster)} consumers are not held: {names}"

    async def _deliver(self, recorder: Recorder) -> None:
        self._nats = nats = await self._connected()
        jetstream = JetStream(nats)
        await self._store.synced.wait()
        dead_letters = DeadLetters(jetstream, self.settings.dead_letter_subject, recorder, self.clock)
        sinks = Sinks(self.clock, self.limits, self.patience.answer, self.places)
        self._roster = Roster(self.settings, jetstream, sinks, dead_letters, self.patience, self.clock)
        self._roster.follow(self._store)
        log.info("Subscriptions listed", extra={"subscriptions": len(self._roster)})
        try:
            await nats.wait_closed()
        finally:
            sinks.close()
        raise Closed(str(nats.failure or "the connection was closed"))

    async def _connected(self) -> NatsClient:
        """A client that was connected once; from then on it connects again by itself."""
        told = self.settings.nats
        login = credentials.from_files(told.credentials) if told.credentials else None
        options = NatsOptions(
            told.url,
            login,
            f"dispatcher {self.settings.namespace}/{self.settings.backend} {self.identity}",
            told.max_reconnects,
            told.reconnect_seconds,
        )
        pause = 0.25
        while True:
            try:
                return await NatsClient(options, self.clock).__aenter__()
            except NatsError as error:
                log.warning("No connection to NATS", extra={"error": str(error)})
            await self.clock.sleep(pause)
            pause = min(2 * pause, told.reconnect_seconds)

    async def _finish(self, recorder: Recorder) -> None:
        log.info("Shutting down")
        if self._roster is not None:
            await self._roster.finish(GRACE_SECONDS)
        if self._nats is not None and self._nats.connected:
            with contextlib.suppress(NatsError):
                await self._nats.flush()
        said = asyncio.create_task(recorder.flush())
        await asyncio.wait([said], timeout=1.0)
        said.cancel()
