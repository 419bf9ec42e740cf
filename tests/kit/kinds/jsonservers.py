"""JsonServers on a real API server: their definition, their operator, and how to look at them."""

import contextlib
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kit.cluster.service_accounts import context as context_of
from kit.eventually import eventually
from kit.kinds.controllers import define, operating
from quintet.apis.jsonserver import JSONSERVER, JSONSERVERS, JsonServer
from quintet.apis.meta import JsonObject, ObjectKey
from quintet.controllers.jsonserver import controller
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.jsonserver.readback import ReadBack
from quintet.kube.client import Client
from quintet.runtime.manager import Manager

ROOT = Path(__file__).parents[3]
CHILD_TYPES = (desired.CONFIG_MAPS, desired.SERVICES, desired.DEPLOYMENTS)
CONTEXT = context_of("jsonserver")
IMAGE = "quintet.local/json-server:0.17.4"
PEOPLE = '{\n  "people": [\n    {"id": 1, "name": "Person A"},\n    {"id": 2, "name": "Person B"}\n  ]\n}\n'


async def install(client: Client) -> None:
    """Make the API server serve JsonServers, from the committed definition."""
    await define(client, JSONSERVER)


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
    kubeconfig: Path, *, read_back: ReadBack = not_here, context: str | None = CONTEXT, **options: Any
) -> AsyncIterator[Manager]:
    """An operator in this process, stopped on the way out."""
    build = functools.partial(controller.build, image=IMAGE, read_back=read_back)
    async with operating(kubeconfig, build, context=context, **options) as manager:
        yield manager


async def in_state(client: Client, key: ObjectKey, state: str, within: float = 60.0) -> JsonServer:
    """The JsonServer, once its status speaks of its current generation and says this."""

    async def probe() -> JsonServer:
        server = await client.get(JSONSERVERS, key, JsonServer)
        assert server.status.observed_generation == server.metadata.generation, server.status
        assert server.status.state == state, server.status
        return server

    return await eventually(probe, within=within)


async def children(client: Client, key: ObjectKey) -> dict[str, JsonObject]:
    return {resource.kind: await client.get(resource, key, dict[str, Any]) for resource in CHILD_TYPES}
