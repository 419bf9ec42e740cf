"""The real controller as a process of the world: it can lag behind, crash and start again."""

import asyncio
import contextlib
import json
import random
from dataclasses import dataclass
from typing import Any

import msgspec

from kit.clock import VirtualClock
from kit.kinds.statefulcluster_world.server import NAMESPACE, ServerOfWorld, SimulatedTransport, selects
from quintet.apis.meta import ObjectKey
from quintet.controllers.statefulcluster.controller import build
from quintet.kube.client import Client
from quintet.runtime.cache import Store
from quintet.runtime.controller import Controller


@dataclass
class Feed:
    """One watch: the cache that it fills, and how much of the log the cache has seen."""

    selection: Any
    store: Store[Any]
    seen: int = 0
    held: bool = False
    """Whether nothing is delivered for now."""


class Process:
    """One process of the operator, with its own caches. It is the manager that the builder gets."""

    identity = "world"
    namespace = ""

    def __init__(self, server: ServerOfWorld, clock: VirtualClock) -> None:
        self.server = server
        self.clock = clock
        self.transport = SimulatedTransport(server)
        self.client = Client(self.transport)  # type: ignore[arg-type]  # the part of a transport that is used
        self.feeds: list[Feed] = []
        self._controllers: list[Controller] = []
        self._task: asyncio.Task[None] | None = None

    def add_watch(self, selection: Any, store: Store[Any], *_: Any) -> None:
        self.feeds.append(Feed(selection, store))

    def add_controller(self, controller: Controller, recorder: Any) -> None:
        self._controllers.append(controller)

    def start(self) -> None:
        """List everything and start to reconcile."""
        build(self, workers=1)  # type: ignore[arg-type]  # the part of a manager that the builder uses
        for feed in self.feeds:
            self._list(feed)
        self._task = asyncio.create_task(self._controllers[0].run())

    async def stop(self) -> None:
        """End without a trace, as a crash does."""
        self.transport.dead = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def check(self) -> None:
        """Raise the exception that ended the controller, if one did."""
        if self._task is not None and self._task.done():
            self._task.result()

    def deliver(self, rng: random.Random | None = None) -> None:
        """Deliver changes to the caches: all, or a random part of them to each."""
        for feed in self.feeds:
            missing = len(self.server.log) - feed.seen
            count = missing if rng is None else rng.randint(0, missing)
            if rng is not None and feed.held:
                count = 0
            for change in self.server.log[feed.seen : feed.seen + count]:
                self._apply(feed, change)
            feed.seen += count

    def is_behind(self, kind: str) -> bool:
        """Return whether a cache of a kind has not seen every change yet."""
        feeds = [feed for feed in self.feeds if feed.selection.resource.plural == kind]
        return any(change.kind == kind for feed in feeds for change in self.server.log[feed.seen :])

    def _apply(self, feed: Feed, change: Any) -> None:
        selection, store = feed.selection, feed.store
        if change.kind != selection.resource.plural:
            return
        if change.after is not None and selects(selection.labels, change.after):
            store.put(selection.decode(msgspec.Raw(json.dumps(change.after).encode())))
        elif change.before is not None and selects(selection.labels, change.before):
            store.remove(ObjectKey(NAMESPACE, change.before["metadata"]["name"]))
        store.advance(change.version)

    def _list(self, feed: Feed) -> None:
        kind, keep = feed.selection.resource.plural, set[ObjectKey]()
        if hasattr(feed.store, "add_source"):
            feed.store.add_source("")
        for obj in self.server.all(kind):
            if selects(feed.selection.labels, obj):
                feed.store.put(feed.selection.decode(msgspec.Raw(json.dumps(obj).encode())))
                keep.add(ObjectKey(NAMESPACE, obj["metadata"]["name"]))
        finish = getattr(feed.store, "finish_list", None) or feed.store.replaced
        finish(keep, self.server.version)
        feed.seen = len(self.server.log)
