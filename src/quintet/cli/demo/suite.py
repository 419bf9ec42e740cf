"""Quintet on the cluster of the demo: installed from its own manifests, and taken away as far as it was ours.

Called by `stages`. What it does is what `quintet install` and `quintet uninstall` do, said in fewer lines.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quintet import __version__
from quintet.apis.meta import Object, ObjectKey
from quintet.apis.suite import CONTROLLERS, QUINTETS
from quintet.cli import suite
from quintet.cli.installing import NAMESPACES, Installing, Lost
from quintet.clock import SystemClock
from quintet.controllers.suite.decide.installation import CRDS, DEPLOYMENTS
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.errors import NotFound
from quintet.kube.transport import Transport
from quintet.manifests.installation import QUINTET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from quintet.apis.meta import JsonObject, Resource
    from quintet.apis.suite import Quintet

SYSTEM = QUINTET.namespace
TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Found:
    """What of Quintet was there before the demo."""

    quintet: Quintet | None = None
    by_hand: bool = False
    """One process with all controllers, from config/default."""
    definitions: bool = False
    namespace: bool = False

    @property
    def ours(self) -> bool:
        """Whether the demo installs it, and takes it away again."""
        return self.quintet is None and not self.by_hand

    @property
    def untouched(self) -> bool:
        """Whether nothing of Quintet was there at all."""
        return self.ours and not self.definitions and not self.namespace

    def controllers(self) -> tuple[str, ...]:
        """Those that run; of an installation that is ours to make, all."""
        if self.quintet is None:
            return CONTROLLERS
        return tuple(each.name for each in self.quintet.status.components)


class Suite:
    """Quintet on one cluster."""

    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self._client = client
        self._say = say
        # Of some seventy objects each would have a line.
        self._silent = Installing(client, SystemClock(), _nothing, TIMEOUT)
        self._telling = Installing(client, SystemClock(), say, TIMEOUT)

    async def found(self) -> Found:
        """What is there now."""
        kinds = [ObjectKey("", kind.resource.qualified) for kind in suite.kinds(QUINTET)]
        kinds.append(ObjectKey("", QUINTETS.qualified))
        return Found(
            quintet=await self._silent.installed(),
            by_hand=await self._there(DEPLOYMENTS, ObjectKey(SYSTEM, "quintet")),
            definitions=any([await self._there(CRDS, key) for key in kinds]),
            namespace=await self._there(NAMESPACES, ObjectKey("", SYSTEM)),
        )

    async def install(self, controllers: Sequence[str]) -> Quintet:
        """Install the operator and wait for its controllers; one pod of each is enough for a demo."""
        there = await self._silent.installed()
        running = controllers if there is None else [str(name) for name in there.spec.controllers]
        spec = wanted(running, controllers)
        count = len(suite.objects(QUINTET, spec))
        self._say(f"installing Quintet {__version__} from its own manifests: {count} objects")
        await suite.bring(self._silent, QUINTET, spec)
        self._say("waiting for the controllers that the operator installs, each as an account of its own")
        return await self._telling.until_available(__version__)

    async def define(self) -> None:
        """Only what a process outside the cluster needs: the definitions, and roles that users may bind."""
        await self._silent.apply(suite.groundwork(QUINTET))

    async def clear(self, namespace: str) -> None:
        """Delete the objects of our kinds there, while their controllers are there to put things away."""
        found = await self._silent.losses(suite.kinds(QUINTET))
        await self._silent.delete_data(
            [Lost(each.kind, tuple(key for key in each.keys if key.namespace == namespace)) for each in found]
        )

    async def remove(self, before: Found) -> None:
        """Take away what we brought; what others made in the meantime is not ours to delete."""
        losses = await self._silent.losses(suite.kinds(QUINTET))
        everything = before.untouched and not losses
        await suite.uninstall(self._silent, QUINTET, everything, yes=True, dry_run=False)

    async def _there(self, resource: Resource, key: ObjectKey) -> bool:
        try:
            await self._client.get(resource, key, Object)
        except NotFound:
            return False
        return True


@asynccontextmanager
async def connected(kubeconfig: str | None, say: Callable[[str], None]) -> AsyncIterator[Suite]:
    """Quintet on the cluster of a kubeconfig; None is the usual one."""
    async with Transport(config.load(kubeconfig, None)) as transport:
        yield Suite(Client(transport), say)


def wanted(running: Sequence[str], needed: Sequence[str]) -> JsonObject:
    """The spec of the Quintet: what runs goes on, what is needed is added, and all need not be listed.

    One pod of each is enough for a demo, and all that two cores are quick with.
    """
    names = [*running, *(name for name in needed if name not in running)]
    every = not running or set(names) == set(CONTROLLERS)
    return {"replicas": 1} if every else {"replicas": 1, "controllers": names}


def _nothing(_: str) -> None:
    return
