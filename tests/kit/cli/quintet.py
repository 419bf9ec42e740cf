"""`quintet run` with webhooks, `kubectl apply`, and free ports."""

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
    """Return a port that is free, was not returned before and is no ephemeral port.

    A stopped server still needs its port, so each pytest worker chooses from different ports.
    """
    port = next(each for each in free_ports(40) if each not in _given and _is_ours(each))
    _given.add(port)
    return port


def _is_ours(port: int) -> bool:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return port % workers == int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % workers


def kinds(*controllers: str) -> list[Resource]:
    """Return the kinds that these controllers have webhooks for."""
    return [kind.resource for name in controllers for kind in COMPONENTS[name].kinds]


async def run_with_webhooks(kubeconfig: Path, *controllers: str, options: tuple[str, ...] = ()) -> Program:
    """Start `quintet run --webhooks url` and wait until the API server calls its webhooks."""
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
            await webhooks.wait_until_called(api, health, kinds(*controllers))
    except BaseException:
        program.kill()
        raise
    return program


async def stop_with_webhooks(program: Program, kubeconfig: Path, *controllers: str) -> None:
    """Stop the process and wait until the API server no longer calls its webhooks."""
    program.signal(signal.SIGTERM)
    assert await program.ended() == 0, "\n".join(program.log)
    async with Api.connect(kubeconfig) as api:
        await webhooks.wait_until_unregistered(api, kinds(*controllers))


@asynccontextmanager
async def with_webhooks(
    kubeconfig: Path, *controllers: str, options: tuple[str, ...] = ()
) -> AsyncIterator[Program]:
    """Run `quintet run --webhooks url` while inside; its webhooks are removed afterwards."""
    program = await run_with_webhooks(kubeconfig, *controllers, options=options)
    try:
        yield program
    finally:
        await stop_with_webhooks(program, kubeconfig, *controllers)


def apply(cluster: Cluster, namespace: str, body: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Apply one object with `kubectl apply`."""
    return cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(body))
