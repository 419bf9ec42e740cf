"""Runs in the test's process what a node would run: the operator and controllers whose Deployments exist."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from kit.background import run_in_background
from kit.cluster.api import Api, RefusedError
from kit.cluster.simulated_node import SimulatedNode
from kit.kinds.controllers import run_controllers
from kit.kinds.suite import a_flavour, simulate_controllers, suite_operator_at
from quintet import __version__
from quintet.components import COMPONENTS, Settings
from quintet.manifests.installation import QUINTET
from quintet.runtime.manager import Manager

PAUSE = 0.2
Processes = dict[str, contextlib.AsyncExitStack]
"""Running processes by the name of their Deployment."""


@contextlib.asynccontextmanager
async def installed_processes(kubeconfig: Path, api: Api) -> AsyncIterator[Processes]:
    """Start and stop the processes of an installation with its Deployments; yields those that run."""
    namespace, running = QUINTET.namespace, Processes()
    async with (
        SimulatedNode(api, namespace=namespace).running(),
        run_in_background(simulate_controllers(api), _follow(kubeconfig, api, namespace, running)),
    ):
        yield running


async def _follow(kubeconfig: Path, api: Api, namespace: str, running: Processes) -> None:
    try:
        while True:
            with contextlib.suppress(RefusedError, aiohttp.ClientError, TimeoutError):
                listed = await api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")
                found = {each["metadata"]["name"]: each for each in listed["items"]}
                for name in running.keys() - found.keys():
                    await running[name].aclose()
                    del running[name]
                for name in found.keys() - running.keys():
                    stack = contextlib.AsyncExitStack()
                    (container,) = found[name]["spec"]["template"]["spec"]["containers"]
                    await stack.enter_async_context(
                        _process(kubeconfig, namespace, container["image"], container["args"])
                    )
                    running[name] = stack
            await asyncio.sleep(PAUSE)
    finally:
        for stack in running.values():
            await stack.aclose()


def _process(
    kubeconfig: Path, namespace: str, image: str, args: list[str]
) -> contextlib.AbstractAsyncContextManager[Manager]:
    """Return the operator, or the controllers that the arguments name."""
    if args[0] == "operator":
        return suite_operator_at(kubeconfig, a_flavour(namespace, image), __version__)
    options = dict(each.removeprefix("--").split("=", 1) for each in args[1:])
    build = functools.partial(_start, options["controllers"].split(","))
    watched = tuple(each for each in options.get("namespace", "").split(",") if each)
    return run_controllers(kubeconfig, build, context=None, namespaces=watched)


def _start(names: list[str], manager: Manager) -> None:
    for name in names:
        COMPONENTS[name].start(manager, Settings("quintet.local/json-server:0.17.4"))
