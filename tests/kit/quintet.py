"""The command `quintet` as a user runs it, and kubectl beside it."""

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from kit.accounts import context
from kit.eventually import eventually
from kit.process import Program
from quintet.local.cluster import Cluster

COMMAND = Path(sys.executable).parent / "quintet"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def run_with_webhooks(kubeconfig: Path, *controllers: str, options: tuple[str, ...] = ()) -> Program:
    """`quintet run --webhooks url` with some controllers, once it is ready."""
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

    await eventually(ready)
    return program


def apply(cluster: Cluster, namespace: str, body: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """`kubectl apply` of one object."""
    return cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(body))
