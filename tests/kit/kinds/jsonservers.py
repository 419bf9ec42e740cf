"""JsonServers on a real API server: CRD, controller and wait functions."""

import contextlib
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kit.cluster.service_accounts import context as context_of
from kit.eventually import eventually
from kit.kinds.controllers import install_crds, run_controllers
from quintet.apis.jsonserver import JSONSERVER, JSONSERVERS, JsonServer
from quintet.apis.meta import JsonObject, ObjectKey
from quintet.controllers.jsonserver import controller
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.jsonserver.served_data import ReadData
from quintet.kube.client import Client
from quintet.runtime.manager import Manager

ROOT = Path(__file__).parents[3]
CHILD_TYPES = (desired.CONFIG_MAPS, desired.SERVICES, desired.DEPLOYMENTS)
CONTEXT = context_of("jsonserver")
IMAGE = "quintet.local/json-server:0.17.4"
PEOPLE = '{\n  "people": [\n    {"id": 1, "name": "Person A"},\n    {"id": 2, "name": "Person B"}\n  ]\n}\n'


async def install(client: Client) -> None:
    """Install the committed CRD."""
    await install_crds(client, JSONSERVER)


def a_jsonserver(name: str, config: str = PEOPLE, **spec: Any) -> JsonObject:
    return {
        "apiVersion": JSONSERVERS.api_version,
        "kind": JSONSERVERS.kind,
        "metadata": {"name": name},
        "spec": {"jsonConfig": config, **spec},
    }


async def read_nothing(url: str) -> tuple[bytes | None, str]:
    """Return no data, as there are no pods that serve it."""
    return None, "there is no node"


@contextlib.asynccontextmanager
async def jsonserver_operator(
    kubeconfig: Path, *, read_back: ReadData = read_nothing, context: str | None = CONTEXT, **options: Any
) -> AsyncIterator[Manager]:
    """Run the controller in this process while inside."""
    build = functools.partial(controller.build, image=IMAGE, read_back=read_back)
    async with run_controllers(kubeconfig, build, context=context, **options) as manager:
        yield manager


async def wait_for_state(client: Client, key: ObjectKey, state: str, within: float = 60.0) -> JsonServer:
    """Wait until the status of the current generation has this state, and return the JsonServer."""

    async def probe() -> JsonServer:
        server = await client.get(JSONSERVERS, key, JsonServer)
        assert server.status.observed_generation == server.metadata.generation, server.status
        assert server.status.state == state, server.status
        return server

    return await eventually(probe, within=within)


async def children(client: Client, key: ObjectKey) -> dict[str, JsonObject]:
    return {resource.kind: await client.get(resource, key, dict[str, Any]) for resource in CHILD_TYPES}
