"""Installs Quintet for the demo and removes what the demo installed."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quintet import __version__
from quintet.apis.meta import Object, ObjectKey
from quintet.apis.suite import CONTROLLERS, QUINTETS
from quintet.clock import SystemClock
from quintet.controllers.suite.decide.installation import CRDS, DEPLOYMENTS, NAMESPACES
from quintet.install import operations
from quintet.install.installer import Installer
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
class ExistingInstallation:
    """What of Quintet existed before the demo."""

    quintet: Quintet | None = None
    is_manual: bool = False
    """Whether config/default was applied: one process with all controllers."""
    has_crds: bool = False
    namespace: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether the demo installs and removes Quintet."""
        return self.quintet is None and not self.is_manual

    @property
    def is_empty(self) -> bool:
        """Whether nothing of Quintet existed."""
        return self.is_ours and not self.has_crds and not self.namespace

    def controllers(self) -> tuple[str, ...]:
        """Return the controllers that run; all of them if the demo installs Quintet."""
        if self.quintet is None:
            return CONTROLLERS
        return tuple(each.name for each in self.quintet.status.components)


class DemoInstallation:
    """The installation of Quintet on one cluster."""

    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self._client = client
        self._say = say
        # Reports nothing: an installation has about seventy objects.
        self._quiet = Installer(client, SystemClock(), _ignore, TIMEOUT)
        self._verbose = Installer(client, SystemClock(), say, TIMEOUT)

    async def inspect(self) -> ExistingInstallation:
        """Return what exists now."""
        kinds = [ObjectKey("", kind.resource.qualified) for kind in operations.kinds(QUINTET)]
        kinds.append(ObjectKey("", QUINTETS.qualified))
        return ExistingInstallation(
            quintet=await self._quiet.find_quintet(),
            is_manual=await self._exists(DEPLOYMENTS, ObjectKey(SYSTEM, "quintet")),
            has_crds=any([await self._exists(CRDS, key) for key in kinds]),
            namespace=await self._exists(NAMESPACES, ObjectKey("", SYSTEM)),
        )

    async def install(self, controllers: Sequence[str]) -> Quintet:
        """Install the operator and wait for its controllers, with one pod each."""
        there = await self._quiet.find_quintet()
        running = list(controllers)
        if there is not None:
            running = list(CONTROLLERS) if there.spec.controllers is None else list(there.spec.controllers)
        spec = quintet_spec(running, controllers)
        count = len(operations.objects(QUINTET, spec))
        self._say(f"installing Quintet {__version__}: {count} objects")
        await operations.apply(self._quiet, QUINTET, spec)
        self._say("waiting for the controllers that the operator installs, each with its own ServiceAccount")
        return await self._verbose.wait_until_available(QUINTET, __version__)

    async def apply_crds(self) -> None:
        """Apply the CRDs and user roles, which controllers outside the cluster need."""
        await self._quiet.apply(operations.prerequisites(QUINTET))

    async def delete_objects(self, namespace: str) -> None:
        """Delete the Quintet objects of a namespace while their controllers still run."""
        found = await self._quiet.list_user_objects(operations.kinds(QUINTET))
        await self._quiet.delete_objects([each for each in found if each.key.namespace == namespace])

    async def remove(self, before: ExistingInstallation) -> str:
        """Remove what the demo installed, but not objects that users created in the meantime."""
        losses = await self._quiet.list_user_objects(operations.kinds(QUINTET))
        everything = before.is_empty and not losses
        return await operations.uninstall(self._quiet, QUINTET, everything)

    async def _exists(self, resource: Resource, key: ObjectKey) -> bool:
        try:
            await self._client.get(resource, key, Object)
        except NotFound:
            return False
        return True


@asynccontextmanager
async def connect(kubeconfig: str | None, say: Callable[[str], None]) -> AsyncIterator[DemoInstallation]:
    """Connect to the cluster of a kubeconfig; None is the default."""
    async with Transport(config.load(kubeconfig, None)) as transport:
        yield DemoInstallation(Client(transport), say)


def quintet_spec(running: Sequence[str], needed: Sequence[str]) -> JsonObject:
    """Return the spec of the Quintet: the running controllers and the needed ones; all need not be listed.

    One pod of each controller is enough for a demo.
    """
    names = [*running, *(name for name in needed if name not in running)]
    every = not running or set(names) == set(CONTROLLERS)
    return {"replicas": 1} if every else {"replicas": 1, "controllers": names}


def _ignore(_: str) -> None:
    return
