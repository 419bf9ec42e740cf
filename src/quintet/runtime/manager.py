"""The life of an operator process: caches, leader election, controllers, health, shutdown.

The order: start → caches synced → acquire the Lease → lead → (Lease lost: acquire again) → stop.
A standby keeps its caches up to date, so that a change of leadership costs no list.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from typing import Any, NamedTuple

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.kube.client import Client
from quintet.observe import metrics
from quintet.observe.health import HealthServer
from quintet.runtime.cache import Store
from quintet.runtime.controller import Controller
from quintet.runtime.events import Recorder
from quintet.runtime.leader import Leader, Terms
from quintet.runtime.watch import Selection, Watch, WatchTimeouts

log = logging.getLogger(__name__)


class Manager:
    """The caches, controllers and leader election of one process."""

    # Seconds for reconciles in progress after SIGTERM; the rest of ten is for Events and the Lease.
    _GRACE = 6.0

    def __init__(
        self,
        client: Client,
        clock: Clock,
        identity: str,
        *,
        lease: ObjectKey | None = None,
        terms: Terms | None = None,
        namespace: str = "",
        namespaces: Collection[str] = (),
        timeouts: WatchTimeouts | None = None,
        health: HealthServer | None = None,
    ) -> None:
        self.clock = clock
        self.identity = identity
        self._leader: Leader | None = None
        if lease is not None:
            terms = terms or Terms()
            self._lease_client = client.separate(timeout=terms.timeout)
            self._leader = Leader(self._lease_client, lease, identity, clock, terms)
        self.client = client.with_fence(self._leader.holds) if self._leader else client
        self.namespaces = tuple(sorted({*namespaces, namespace} - {""}))
        """The namespaces in which the controllers work; empty for all."""
        self._timeouts = timeouts
        self._watches: list[_Watched] = []
        self._controllers: list[Controller] = []
        self._recorders: list[Recorder] = []
        self._background: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._stopping = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._health = health
        if health:
            # Not for liveness: a restart does not fix the API server, but loses caches and webhooks.
            health.readiness["identity"] = client.identity_problem
            health.readiness["watches"] = self._dead_watches
            health.readiness["caches"] = self._unsynced_caches
            health.readiness["controllers"] = self._no_controller
            health.warnings["controllers"] = self._degraded_controllers
            health.readiness["running"] = lambda: "shutting down" if self._stopping.is_set() else None

    def add_watch(self, selection: Selection[Any], store: Store[Any], controller: str = "") -> None:
        """Keep a cache up to date from the start, with one watch for each namespace of the process.

        If the server refuses a watch of a controller, only this controller waits.
        """
        scoped = selection.resource.namespaced and not selection.everywhere
        namespaces = (self.namespaces if scoped else ()) or ("",)
        for namespace in namespaces:
            chosen = replace(selection, namespace=namespace)
            watch = Watch(self.client, chosen, store, self.clock, self._timeouts)
            self._watches.append(_Watched(watch, store, controller))

    def add_controller(self, controller: Controller, recorder: Recorder) -> None:
        """Run a controller while this process leads."""
        self._controllers.append(controller)
        self._recorders.append(recorder)
        name = controller.name
        metrics.controller_degraded.labels(name).set_function(lambda: name in self._find_refusals())

    def add_background(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task from start to end, whether this process leads or not."""
        self._background.append(run)

    def stop(self) -> None:
        """Start the shutdown; `run` returns when it is done."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until `stop`, SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)
        if self._health:
            await self._health.start()
        runs = [*(each.watch.run for each in self._watches), *(each.run for each in self._recorders)]
        background = [asyncio.create_task(run()) for run in (*runs, *self._background)]
        lead, stopped = asyncio.create_task(self._lead()), asyncio.create_task(self._stopping.wait())
        try:
            # A background task ends only by an error, which ends the process too.
            done, _ = await asyncio.wait([lead, stopped, *background], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()
            await self._shut_down()
        finally:
            await _cancel([lead, stopped, *background])
            if self._leader:
                await self._leader.release()
                await self._lease_client.close()
            if self._health:
                await self._health.stop()

    async def wait_for_sync(self) -> None:
        """Wait until every cache has its first list, or the server has refused it."""
        for each in self._watches:
            await each.watch.settled.wait()

    async def _lead(self) -> None:
        await self.wait_for_sync()
        log.info("Caches synced", extra={"objects": sum(map(len, {each.store for each in self._watches}))})
        while not self._stopping.is_set():
            if self._leader is not None:
                await self._leader.acquire()
            tasks = [work := asyncio.create_task(self._work())]
            if self._leader is not None:
                tasks.append(asyncio.create_task(self._leader.keep()))
            self._working = work
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    return work.result()
            finally:
                self._working = None
                await _cancel(tasks)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)

    async def _shut_down(self) -> None:
        """Let reconciles in progress end, write their Events, and start no more."""
        log.info("Shutting down")
        for controller in self._controllers:
            controller.queue.close()
        if self._working is not None:
            await asyncio.wait([self._working], timeout=self._GRACE)
            if flushes := [asyncio.create_task(recorder.flush()) for recorder in self._recorders]:
                await asyncio.wait(flushes, timeout=1.0)
                await _cancel(flushes)

    def _dead_watches(self) -> str | None:
        dead = [each.watch.name for each in self._watches if not each.watch.alive and not each.is_tolerated]
        return f"no contact with the API server for long: {', '.join(dead)}" if dead else None

    def _unsynced_caches(self) -> str | None:
        missing = [
            each.watch.name
            for each in self._watches
            if not each.store.synced.is_set() and not each.is_tolerated
        ]
        return f"not listed yet: {', '.join(missing)}" if missing else None

    def _find_refusals(self) -> dict[str, str]:
        """Return the controllers of which a watch is refused, and why."""
        return {each.controller: each.watch.refusal or "" for each in self._watches if each.is_tolerated}

    def _degraded_controllers(self) -> str | None:
        refusals = self._find_refusals()
        return "; ".join(f"{name} waits: {why}" for name, why in refusals.items()) or None

    def _no_controller(self) -> str | None:
        """Return a problem if no controller can work: the others justify a process that is ready."""
        names = {controller.name for controller in self._controllers}
        return self._degraded_controllers() if names and names <= set(self._find_refusals()) else None


class _Watched(NamedTuple):
    """A watch, its cache, and the controller that needs it."""

    watch: Watch[Any]
    store: Store[Any]
    controller: str

    @property
    def is_tolerated(self) -> bool:
        """Whether the server refuses the watch, and only one controller needs it."""
        return self.watch.refusal is not None and bool(self.controller)


async def _cancel(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
