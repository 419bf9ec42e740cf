"""The command `quintet` as a user runs it, and kubectl beside it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kit.cluster import webhooks
from kit.cluster.api import Api
from kit.cluster.service_accounts import context
from kit.eventually import eventually
from kit.process import Program
from quintet.apis.meta import Resource
from quintet.components import COMPONENTS
from quintet.local.cluster import Cluster
from quintet.local.controlplane.ports import free_ports

COMMAND = Path(sys.executable).parent / "quintet"
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on, that was not given away before, and that no outgoing connection gets.

    A server that a test has stopped for a while still has its port, so workers choose from different ports.
    """
    port = next(each for each in free_ports(40) if each not in _given and _is_ours(each))
    _given.add(port)
    return port


def _is_ours(port: int) -> bool:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return port % workers == int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % workers


def kinds(*controllers: str) -> list[Resource]:
    """What some controllers have webhooks for."""
    return [kind.resource for name in controllers for kind in COMPONENTS[name].kinds]


async def run_with_webhooks(kubeconfig: Path, *controllers: str, options: tuple[str, ...] = ()) -> Program:
    """`quintet run --webhooks url` with some controllers, once it is ready and the API server asks it."""
    health = free_port()
    program = Program(
        str(COMMAND), "run", "--kubeconfig", str(kubeconfig), "--context", context(*controllers),
        "--controllers", ",".join(controllers),
        "--webhooks", "url",
        "--webhook-port", str(free_port()), "--health-address", f"127.0.0.1:{health}",
        "--discovery-address", "127.0.0.1:0", *options,
    )  # fmt: skip
    await program.start()

    async def ready() -> None:
        assert program.running, "\n".join(program.log)
        _, writer = await asyncio.open_connection("127.0.0.1", health)
        writer.close()
        assert any("Caches synced" in line for line in program.log), "\n".join(program.log)

    try:
        await eventually(ready, within=60)
        async with Api.connect(kubeconfig) as api:
            await webhooks.asked(api, health, kinds(*controllers))
    except BaseException:
        program.kill()
        raise
    return program


async def stop_with_webhooks(program: Program, kubeconfig: Path, *controllers: str) -> None:
    """Ask it to end, and wait until the API server asks it no more."""
    program.signal(signal.SIGTERM)
    assert await program.ended() == 0, "\n".join(program.log)
    async with Api.connect(kubeconfig) as api:
        await webhooks.forgotten(api, kinds(*controllers))


@asynccontextmanager
async def with_webhooks(
    kubeconfig: Path, *controllers: str, options: tuple[str, ...] = ()
) -> AsyncIterator[Program]:
    """`quintet run --webhooks url`; neither it nor its webhooks are there afterwards."""
    program = await run_with_webhooks(kubeconfig, *controllers, options=options)
    try:
        yield program
    finally:
        await stop_with_webhooks(program, kubeconfig, *controllers)


def apply(cluster: Cluster, namespace: str, body: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """`kubectl apply` of one object."""
    return cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(body))
