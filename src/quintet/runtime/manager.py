"""The life of an operator process: caches, leadership, controllers, health, shutdown.

`cli` makes one and calls `run`; `builder` adds to it. In reading order:
start → caches synced → campaign → lead → (lost: campaign again) → stop.
A standby keeps its caches warm, so that taking over costs no list.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.kube.client import Client
from quintet.observe.health import HealthServer
from quintet.runtime.cache import Store
from quintet.runtime.controller import Controller
from quintet.runtime.events import Recorder
from quintet.runtime.leader import Leader, Terms
from quintet.runtime.watch import Patience, Selection, Watch

log = logging.getLogger(__name__)


class Manager:
    """Everything that one process runs."""

    _GRACE = 6.0  # seconds for work in progress after SIGTERM; the rest of ten is for events and the lease

    def __init__(
        self,
        client: Client,
        clock: Clock,
        identity: str,
        *,
        lease: ObjectKey | None = None,
        terms: Terms | None = None,
        namespace: str = "",
        patience: Patience | None = None,
        health: HealthServer | None = None,
    ) -> None:
        self.clock = clock
        self.identity = identity
        self._leader: Leader | None = None
        if lease is not None:
            terms = terms or Terms()
            self._lease_client = client.apart(timeout=terms.timeout)
            self._leader = Leader(self._lease_client, lease, identity, clock, terms)
        self.client = client.fenced(self._leader.holds) if self._leader else client
        self.namespace = namespace
        self._patience = patience
        self._watches: list[tuple[Watch[Any], Store[Any]]] = []
        self._controllers: list[Controller] = []
        self._recorders: list[Recorder] = []
        self._background: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._stopping = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._health = health
        if health:
            # Not for liveness: a restart brings no API server back, but loses caches and webhooks.
            health.readiness["watches"] = self._dead_watches
            health.readiness["caches"] = self._unsynced_caches
            health.readiness["running"] = lambda: "shutting down" if self._stopping.is_set() else None

    def add_watch(self, selection: Selection[Any], store: Store[Any]) -> None:
        """Keep a store up to date from the start on."""
        self._watches.append((Watch(self.client, selection, store, self.clock, self._patience), store))

    def add_controller(self, controller: Controller, recorder: Recorder) -> None:
        """Run a controller while leading."""
        self._controllers.append(controller)
        self._recorders.append(recorder)

    def add_background(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Keep something running from start to end, whoever leads."""
        self._background.append(run)

    def stop(self) -> None:
        """Begin to shut down; `run` returns when that is done."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until `stop`, SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)
        if self._health:
            await self._health.start()
        runs = [*(watch.run for watch, _ in self._watches), *(each.run for each in self._recorders)]
        background = [asyncio.create_task(run()) for run in (*runs, *self._background)]
        lead, stopped = asyncio.create_task(self._lead()), asyncio.create_task(self._stopping.wait())
        try:
            # A background task never ends by itself: if one does, its error is ours.
            done, _ = await asyncio.wait([lead, stopped, *background], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()
            await self._finish()
        finally:
            await _cancel([lead, stopped, *background])
            if self._leader:
                await self._leader.release()
                await self._lease_client.close()
            if self._health:
                await self._health.stop()

    async def synced(self) -> None:
        """Wait until every cache has been filled."""
        for _, store in self._watches:
            await store.synced.wait()

    async def _lead(self) -> None:
        await self.synced()
        log.info("Caches synced", extra={"objects": sum(len(store) for _, store in self._watches)})
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

    async def _finish(self) -> None:
        """Let work in progress end, and what it had to say be written; take on no more."""
        log.info("Shutting down")
        for controller in self._controllers:
            controller.queue.close()
        if self._working is not None:
            await asyncio.wait([self._working], timeout=self._GRACE)
            if said := [asyncio.create_task(recorder.flush()) for recorder in self._recorders]:
                await asyncio.wait(said, timeout=1.0)
                await _cancel(said)

    def _dead_watches(self) -> str | None:
        dead = [watch.name for watch, _ in self._watches if not watch.alive]
        return f"no contact for long: {', '.join(dead)}" if dead else None

    def _unsynced_caches(self) -> str | None:
        missing = [watch.name for watch, store in self._watches if not store.synced.is_set()]
        return f"not listed yet: {', '.join(missing)}" if missing else None


async def _cancel(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
