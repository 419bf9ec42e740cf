"""Five hundred JsonServers at once: what they cost in requests, and that nothing follows."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.accounts import context
from kit.eventually import eventually
from kit.jsonservers import a_jsonserver, install
from kit.process import Program
from kit.proxy import FaultProxy, matching
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.jsonserver.types import FINALIZER
from quintet.apis.meta import Object
from quintet.kube.client import Client

COUNT = 500


@pytest.fixture
def no_pods(cluster, namespace) -> Iterator[None]:
    """Nobody acts on Deployments of the test, so that only our own writes are seen."""
    manager = cluster.process("kube-controller-manager")
    manager.stop_signal(signal.SIGSTOP)
    yield
    manager.stop_signal(signal.SIGCONT)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process accounting is read from /proc")
async def test_each_takes_four_writes_and_no_read_and_then_there_is_silence(
    no_pods, client: Client, cluster, namespace, tmp_path, capsys
):
    await install(client)
    async with FaultProxy(cluster.kubeconfig) as proxy:
        quintet = Path(sys.executable).parent / "quintet"
        kubeconfig = str(proxy.write_kubeconfig(tmp_path))
        program = Program(
            str(quintet), "run", "--kubeconfig", kubeconfig, "--controllers", "jsonserver", "--namespace", namespace,
            "--health-address", "127.0.0.1:0", "--context", context("jsonserver"),
        )  # fmt: skip
        await program.start()
        try:
            await eventually(lambda: _synced(program), within=60)
            before = cpu_seconds(program.pid)
            await _create_all(client, namespace)
            await eventually(lambda: _reported(proxy), within=300)
            await proxy.quiet(2.0, within=180.0)
            cpu = (cpu_seconds(program.pid) - before) / COUNT * 1000
            writes = Counter(str(exchange.request).split()[1] for exchange in proxy.trace.writes())
            assert writes == {
                "configmaps": COUNT,
                "services": COUNT,
                "deployments.apps": COUNT,
                "jsonservers.example.com/status": COUNT,
            }
            assert (
                proxy.trace.requests(lambda request: request.verb == "get" and bool(request.resource)) == []
            )
            assert proxy.trace.requests(matching("create", "events")) == [], "success is no news"
            mark = proxy.trace.mark()
            program.signal(signal.SIGTERM)
            assert await program.ended() == 0
            await program.start()
            await eventually(lambda: _synced(program, times=2), within=60)
            await proxy.quiet(3.0, within=60.0)
            assert proxy.trace.writes(since=mark) == [], "a restart with everything in place wrote something"
        finally:
            program.kill()
            await program.ended()
    with capsys.disabled():
        sys.stdout.write(
            f"\n{COUNT} JsonServers: 4 writes each, {cpu:.2f} ms of CPU of the operator per JsonServer\n"
        )


def _synced(program: Program, times: int = 1) -> None:
    assert program.running, "\n".join(program.log)
    assert sum("Caches synced" in line for line in program.log) == times, "\n".join(program.log[-20:])


def _reported(proxy: FaultProxy) -> None:
    """On a busy machine silence may be a pause; all are done when each has a status."""
    found = len(proxy.trace.writes(matching("patch", "jsonservers", subresource="status")))
    assert found >= COUNT, found


async def _create_all(client: Client, namespace: str) -> None:
    slots = asyncio.Semaphore(16)

    async def one(number: int) -> None:
        async with slots:
            body = a_jsonserver(f"app-{number}")
            body["metadata"]["finalizers"] = [FINALIZER]
            await client.create(JSONSERVERS, body, Object, namespace=namespace)

    await asyncio.gather(*(one(number) for number in range(COUNT)))
