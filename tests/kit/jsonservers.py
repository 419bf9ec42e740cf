"""JsonServers on a real API server: their definition, their operator, and how to look at them."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from kit.eventually import eventually
from quintet.apis.jsonserver import JSONSERVERS, JsonServer
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.controllers.jsonserver import controller, desired
from quintet.controllers.jsonserver.readback import ReadBack
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.transport import Transport
from quintet.runtime.clock import SystemClock
from quintet.runtime.manager import Manager

ROOT = Path(__file__).parent.parent.parent
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)
CHILD_TYPES = (desired.CONFIG_MAPS, desired.SERVICES, desired.DEPLOYMENTS)
IMAGE = "quintet.local/json-server:0.17.4"
PEOPLE = '{\n  "people": [\n    {"id": 1, "name": "Person A"},\n    {"id": 2, "name": "Person B"}\n  ]\n}\n'


async def install(client: Client) -> None:
    """Make the API server serve JsonServers, from the committed definition."""
    body = yaml.safe_load((ROOT / "config/crd/jsonservers.example.com.yaml").read_text())
    await client.apply(CRDS, ObjectKey("", "jsonservers.example.com"), body, Object)

    async def served() -> None:
        async for _ in client.pages(JSONSERVERS):
            pass

    await eventually(served)


def a_jsonserver(name: str, config: str = PEOPLE, **spec: Any) -> JsonObject:
    return {
        "apiVersion": JSONSERVERS.api_version,
        "kind": JSONSERVERS.kind,
        "metadata": {"name": name},
        "spec": {"jsonConfig": config, **spec},
    }


async def not_here(url: str) -> tuple[bytes | None, str]:
    """Reading back, where there are no pods."""
    return None, "there is no node"


@contextlib.asynccontextmanager
async def jsonserver_operator(
    kubeconfig: Path, *, read_back: ReadBack = not_here, **options: Any
) -> AsyncIterator[Manager]:
    """An operator in this process, stopped on the way out."""
    async with Transport(config.load(str(kubeconfig))) as transport:
        manager = Manager(Client(transport), SystemClock(), f"test-{secrets.token_hex(3)}", **options)
        controller.build(manager, image=IMAGE, read_back=read_back)
        task = asyncio.create_task(manager.run())
        try:
            await manager.synced()
            yield manager
        finally:
            manager.stop()
            await task


async def in_state(client: Client, key: ObjectKey, state: str, within: float = 30.0) -> JsonServer:
    """The JsonServer, once its status speaks of its current generation and says this."""

    async def probe() -> JsonServer:
        server = await client.get(JSONSERVERS, key, JsonServer)
        assert server.status.observed_generation == server.metadata.generation, server.status
        assert server.status.state == state, server.status
        return server

    return await eventually(probe, within=within)


async def children(client: Client, key: ObjectKey) -> dict[str, JsonObject]:
    return {resource.kind: await client.get(resource, key, dict[str, Any]) for resource in CHILD_TYPES}
