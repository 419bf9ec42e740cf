"""Many JsonServers at once: the number of requests, and no requests afterwards."""

import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from kit.cli.quintet import free_port
from kit.cluster.service_accounts import context
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy, matching
from kit.kinds.jsonservers import a_jsonserver, install
from kit.process import Program
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.jsonserver.types import FINALIZER
from quintet.apis.meta import Object
from quintet.kube.client import Client


@pytest.fixture
def no_pods(cluster, namespace) -> Iterator[None]:
    """No controller acts on Deployments of the test, so that only our own writes are seen."""
    manager = cluster.process("kube-controller-manager")
    manager.send_signal(signal.SIGSTOP)
    yield
    manager.send_signal(signal.SIGCONT)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.exhaustive)])
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process accounting is read from /proc")
async def test_each_jsonserver_needs_four_writes_no_reads_and_no_later_requests(
    count, no_pods, client: Client, cluster, namespace, tmp_path, capsys
):
    await install(client)
    async with FaultProxy(cluster.kubeconfig) as proxy:
        quintet = Path(sys.executable).parent / "quintet"
        kubeconfig, health = str(proxy.write_kubeconfig(tmp_path)), free_port()
        program = Program(
            str(quintet), "run", "--kubeconfig", kubeconfig, "--controllers", "jsonserver", "--namespace", namespace,
            "--health-address", f"127.0.0.1:{health}", "--context", context("jsonserver"),
        )  # fmt: skip
        await program.start()
        try:
            await eventually(lambda: _assert_synced(program), within=60)
            before = cpu_seconds(program.pid)
            await _create_all(client, namespace, count)
            await eventually(lambda: _assert_reported(proxy, count), within=300)
            await proxy.quiet(1.0, within=180.0)
            cpu = (cpu_seconds(program.pid) - before) / count * 1000
            writes = Counter(str(exchange.request).split()[1] for exchange in proxy.trace.writes())
            assert writes == {
                "configmaps": count,
                "services": count,
                "deployments.apps": count,
                "jsonservers.example.com/status": count,
            }
            assert (
                proxy.trace.requests(lambda request: request.verb == "get" and bool(request.resource)) == []
            )
            assert proxy.trace.requests(matching("create", "events")) == [], "success is no news"
            mark = proxy.trace.mark()
            program.signal(signal.SIGTERM)
            assert await program.ended() == 0
            await program.start()
            await eventually(lambda: _assert_synced(program, times=2), within=60)
            await eventually(lambda: _assert_reconciled(health, count), within=60)
            await proxy.quiet(0.5, within=60.0)
            assert proxy.trace.writes(since=mark) == [], "a restart with everything in place wrote something"
        finally:
            program.kill()
            await program.ended()
    with capsys.disabled():
        sys.stdout.write(
            f"\n{count} JsonServers: 4 writes each, {cpu:.2f} ms of CPU of the operator per JsonServer\n"
        )


def _assert_synced(program: Program, times: int = 1) -> None:
    assert program.running, "\n".join(program.log)
    assert sum("Caches synced" in line for line in program.log) == times, "\n".join(program.log[-20:])


async def _assert_reconciled(health: int, count: int) -> None:
    """Assert that each object was reconciled since the process started."""
    url = f"http://127.0.0.1:{health}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
    done = re.search(
        r'^workqueue_work_duration_seconds_count{[^}]*controller="jsonserver"[^}]*} (\S+)$',
        text,
        re.MULTILINE,
    )
    assert done is not None, text
    assert float(done[1]) >= count, done


def _assert_reported(proxy: FaultProxy, count: int) -> None:
    """Assert that each object has a status; on a busy machine a quiet moment is not the end."""
    found = len(proxy.trace.writes(matching("patch", "jsonservers", subresource="status")))
    assert found >= count, found


async def _create_all(client: Client, namespace: str, count: int) -> None:
    slots = asyncio.Semaphore(16)

    async def one(number: int) -> None:
        async with slots:
            body = a_jsonserver(f"app-{number}")
            body["metadata"]["finalizers"] = [FINALIZER]
            await client.create(JSONSERVERS, body, Object, namespace=namespace)

    await asyncio.gather(*(one(number) for number in range(count)))
