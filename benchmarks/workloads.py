"""The custom resources of a run, and how they are created and deleted.

A workload is created before a contender starts and deleted after it, so that every run finds the same
number of objects; the cost of creating a Service, above all, grows with their number.
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
    """A number of JsonServers."""

    count: int
    config: str = PEOPLE
    prefix: str = "app"

    def names(self) -> list[str]:
        """Return the names, all of the same length, so that recorded requests can be renamed."""
        return [f"{self.prefix}-{number:06d}" for number in range(self.count)]

    def body(self, name: str) -> JsonObject:
        """Return a JsonServer as the mutating webhook leaves it."""
        return {
            "apiVersion": JSONSERVERS.api_version,
            "kind": JSONSERVERS.kind,
            "metadata": {"name": name, "finalizers": [FINALIZER]},
            "spec": {"jsonConfig": self.config, "replicas": 1, "storage": "ReadOnly"},
        }


class Scene:
    """Creates and deletes objects on the API server of a benchmark."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.client = Client(transport, field_manager="benchmark")

    async def namespace(self, name: str) -> None:
        """Create a namespace; the control plane of a benchmark never deletes one."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.create(NAMESPACES, body, Object)

    async def fill(self, namespace: str, workload: Workload, names: Iterable[str] = ()) -> list[JsonServer]:
        """Create the custom resources; return them as stored."""

        async def one(name: str) -> JsonServer:
            body = workload.body(name)
            raw = await self.client.create(JSONSERVERS, body, dict[str, Any], namespace=namespace)
            return msgspec.convert(raw, JsonServer)

        return await run_in_parallel(one, names or workload.names())

    async def clear(self, namespace: str) -> None:
        """Delete everything that a run left; no controller of Kubernetes does it here."""
        await asyncio.gather(*(self._delete_all(resource, namespace) for resource in CHILD_TYPES))
        names = await self.names(JSONSERVERS, namespace)

        async def release(name: str) -> None:
            body = {"metadata": {"finalizers": None}}
            await self.client.patch(JSONSERVERS, ObjectKey(namespace, name), body, Object)

        await run_in_parallel(release, names)
        await self._delete_all(JSONSERVERS, namespace)

    async def names(self, resource: Resource, namespace: str) -> list[str]:
        """Return the names of all objects."""
        return [
            msgspec.json.decode(item, type=Object).metadata.name
            async for page in self.client.pages(resource, namespace=namespace)
            for item in page.items
        ]

    async def metrics(self) -> str:
        """Return the metrics of the API server."""
        return (await self.transport.request("GET", "/metrics")).decode()

    async def _delete_all(self, resource: Resource, namespace: str) -> None:
        path = resource.path(namespace)
        while await self.names(resource, namespace):
            await self.transport.request("DELETE", path)


async def run_in_parallel(
    work: Callable[[str], Awaitable[Any]], names: Iterable[str], at_once: int = AT_ONCE
) -> list[Any]:
    """Run `work` for every name, `at_once` at a time."""
    slots = asyncio.Semaphore(at_once)

    async def one(name: str) -> Any:
        async with slots:
            return await work(name)

    return await asyncio.gather(*map(one, names))
