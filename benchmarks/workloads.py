"""The work, as data: which custom resources there are, and how they come and go.

A workload is made before a contender starts and cleared away after it, so that every run finds
the same number of objects of every type on the server, Services above all: the cost of making
one grows with their number.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from kit.kinds.jsonservers import CHILD_TYPES, PEOPLE
from quintet.apis.jsonserver import JSONSERVERS, JsonServer
from quintet.apis.jsonserver.types import FINALIZER
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.kube.client import Client
from quintet.kube.transport import Transport

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Workload:
    """So many custom resources of one kind."""

    count: int
    config: str = PEOPLE
    prefix: str = "app"

    def names(self) -> list[str]:
        """All of one length, so that recorded requests can be renamed."""
        return [f"{self.prefix}-{number:06d}" for number in range(self.count)]

    def body(self, name: str) -> JsonObject:
        """As a user would have written it, and the mutating webhook left it."""
        return {
            "apiVersion": JSONSERVERS.api_version,
            "kind": JSONSERVERS.kind,
            "metadata": {"name": name, "finalizers": [FINALIZER]},
            "spec": {"jsonConfig": self.config, "replicas": 1, "storage": "ReadOnly"},
        }


class Scene:
    """One API server, as whoever sets the scene sees it."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.client = Client(transport, field_manager="benchmark")

    async def namespace(self, name: str) -> None:
        """Make a namespace; the control plane of a benchmark never deletes one."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.create(NAMESPACES, body, Object)

    async def fill(self, namespace: str, workload: Workload, names: Iterable[str] = ()) -> list[JsonServer]:
        """Create the custom resources; returns them as the server has them."""

        async def one(name: str) -> JsonServer:
            body = workload.body(name)
            raw = await self.client.create(JSONSERVERS, body, dict[str, Any], namespace=namespace)
            return msgspec.convert(raw, JsonServer)

        return await in_parallel(one, names or workload.names())

    async def clear(self, namespace: str) -> None:
        """Remove everything that a run left, by hand: no controller of Kubernetes is running."""
        await asyncio.gather(*(self._delete_all(resource, namespace) for resource in CHILD_TYPES))
        names = await self.names(JSONSERVERS, namespace)

        async def release(name: str) -> None:
            body = {"metadata": {"finalizers": None}}
            await self.client.patch(JSONSERVERS, ObjectKey(namespace, name), body, Object)

        await in_parallel(release, names)
        await self._delete_all(JSONSERVERS, namespace)

    async def names(self, resource: Resource, namespace: str) -> list[str]:
        """What there is."""
        return [
            msgspec.json.decode(item, type=Object).metadata.name
            async for page in self.client.pages(resource, namespace=namespace)
            for item in page.items
        ]

    async def metrics(self) -> str:
        """What the API server counts about itself."""
        return (await self.transport.request("GET", "/metrics")).decode()

    async def _delete_all(self, resource: Resource, namespace: str) -> None:
        path = resource.path(namespace)
        while await self.names(resource, namespace):
            await self.transport.request("DELETE", path)


async def in_parallel(
    work: Callable[[str], Awaitable[Any]], names: Iterable[str], at_once: int = AT_ONCE
) -> list[Any]:
    """Do something for every name, so many at a time."""
    slots = asyncio.Semaphore(at_once)

    async def one(name: str) -> Any:
        async with slots:
            return await work(name)

    return await asyncio.gather(*map(one, names))
