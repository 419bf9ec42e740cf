"""Reads the Leases of the controllers, whose holders work."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.controllers.suite.decide.leaders import Leadership, LeaseView, observe_lease
from quintet.kube.client import Client
from quintet.kube.errors import KubeError, NotFound
from quintet.runtime.leader import LEASES

_PAUSE_SECONDS = 2.0
_STEADY_SECONDS = 10.0


class LeaderMonitor:
    """Reads Leases every ten seconds, and more often while one is not renewed.

    RBAC cannot limit a watch to some names, so each Lease is read.
    """

    def __init__(self, client: Client, clock: Clock, changed: Callable[[], None]) -> None:
        self._client = client
        self._clock = clock
        self._changed = changed
        self._known: dict[ObjectKey, Leadership | None] = {}
        self._read_at: dict[ObjectKey, float] = {}

    async def follow(self, keys: Iterable[ObjectKey]) -> Mapping[str, str]:
        """Read these Leases from now on, and return why no pod leads, by the name of the Lease."""
        self._known = {key: self._known.get(key) for key in keys}
        await asyncio.gather(*(self._read(key) for key, known in self._known.items() if known is None))
        return self._problems()

    async def run(self) -> None:
        """Read the Leases and report changes, until cancelled."""
        while True:
            await self._clock.sleep(_PAUSE_SECONDS)
            before = self._problems()
            due = [key for key, known in self._known.items() if self._is_due(key, known)]
            await asyncio.gather(*map(self._read, due))
            if self._problems() != before:
                self._changed()

    def _is_due(self, key: ObjectKey, known: Leadership | None) -> bool:
        if known is None or known.missed_since is not None:
            return True
        return self._clock.monotonic() - self._read_at[key] >= _STEADY_SECONDS

    async def _read(self, key: ObjectKey) -> None:
        try:
            lease = await self._client.get(LEASES, key, LeaseView)
        except NotFound:
            lease = None
        except KubeError:
            return  # nothing is known about the leader
        if key in self._known:
            now = self._clock.monotonic()
            self._read_at[key] = now
            self._known[key] = observe_lease(self._known[key], key.name, lease, now, self._clock.now())

    def _problems(self) -> dict[str, str]:
        return {key.name: known.problem for key, known in self._known.items() if known and known.problem}
