"""Processes that start while the API server is unreachable."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from kit.eventually import eventually, eventually_true
from quintet.clock import SystemClock
from quintet.kube.client import Client
from quintet.kube.config import ClusterConfig
from quintet.kube.errors import Forbidden, Status, Unreachable, UntrustedServer
from quintet.kube.transport import Transport
from quintet.observe.health import HealthServer
from quintet.processes.startup import prepare

START = "from quintet.cli.main import main; main()"


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def ask(port: int, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def answer_version(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{"gitVersion": "v1.99"}')
    writer.close()


@contextlib.asynccontextmanager
async def a_replica(tmp_path: Path, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """`quintet run` with a kubeconfig that leads nowhere, and the port of its health."""
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{a_free_port()}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    file = tmp_path / "kubeconfig"
    file.write_text(
        json.dumps(
            {"clusters": [cluster], "contexts": [context], "users": [{"name": "u"}], "current-context": "c"}
        )
    )
    port = a_free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START, *arguments, "--kubeconfig", str(file),
        "--system-namespace", "system", "--health-address", f"127.0.0.1:{port}",
        stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        yield process, port
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.mark.parametrize(
    "command", [("run", "--controllers", "checkup"), ("operator",)], ids=["run", "operator"]
)
async def test_replica_without_api_server_stays_alive_and_unready(tmp_path, command):
    async with a_replica(tmp_path, *command, "--leader-elect") as (process, port):

        async def waiting() -> None:
            status, text = await ask(port, "/readyz")
            assert status == 503
            assert "[-] api-server: GET /version" in text

        await eventually(waiting)
        assert (await ask(port, "/healthz"))[0] == 200
        assert process.returncode is None
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0


async def test_process_without_patience_fails_at_once_without_api_server(tmp_path):
    async with a_replica(tmp_path, "run", "--no-leader-elect") as (process, _):
        async with asyncio.timeout(60):
            _, told = await process.communicate()
        assert process.returncode == 1
        assert b"refused" in told


async def test_replica_continues_when_the_api_server_responds():
    health, port = HealthServer("127.0.0.1", 0, SystemClock()), a_free_port()
    async with Transport(ClusterConfig(f"http://127.0.0.1:{port}")) as transport:
        client = Client(transport)
        waiting = asyncio.create_task(prepare(client.version, health, SystemClock(), patient=True))
        await eventually_true(lambda: "refused" in (health.readiness["api-server"]() or ""))
        server = await asyncio.start_server(answer_version, "127.0.0.1", port)
        async with asyncio.timeout(60):
            assert (await waiting).git_version == "v1.99"
        assert health.readiness == {}
        assert (await ask(await health.start(), "/readyz"))[0] == 200, "it serves on"
        await health.stop()
        server.close()


@pytest.mark.parametrize(
    ("error", "patient"),
    [
        pytest.param(Unreachable("away"), False, id="a server that is away, for a developer"),
        pytest.param(UntrustedServer("expired"), True, id="a server that is not trusted"),
        pytest.param(Forbidden("GET", Status(code=403)), True, id="a missing permission"),
    ],
)
async def test_permanent_error_ends_the_process(error, patient):
    async def work() -> None:
        raise error

    health = HealthServer("127.0.0.1", 0, SystemClock())
    with pytest.raises(type(error)):
        await prepare(work, health, SystemClock(), patient=patient)
    await health.stop()


async def test_sigusr1_changes_the_log_level_while_running(tmp_path):
    async with a_replica(tmp_path, "operator", "--leader-elect", "--log-format", "text") as (process, _port):

        async def wait_for_line(part: str) -> None:
            assert process.stderr is not None
            async with asyncio.timeout(60):
                while part not in (await process.stderr.readline()).decode():
                    pass

        await wait_for_line("Waiting for the API server")
        process.send_signal(signal.SIGUSR1)
        await wait_for_line("Log level changed: debug")
        process.send_signal(signal.SIGUSR1)
        await wait_for_line("Log level changed: info")
