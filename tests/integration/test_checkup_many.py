"""Many Checkups within a minute: requests and CPU of the controller, and no polling.

Pods are simulated (see kit/kinds/checkups.py); the controller is the command `quintet run`.
"""

import asyncio
import contextlib
import os
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from kit.cli.quintet import COMMAND
from kit.cluster.service_accounts import context
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy, anything, matching
from kit.kinds.checkups import PASSED, SimulatedPod, create, create_service_account, list_pods
from kit.process import Program
from quintet.apis.checkup import CHECKUPS, Checkup
from quintet.apis.meta import Object, ObjectKey
from quintet.controllers.checkup.decide import desired
from quintet.controllers.checkup.decide.timing import TimeLimits
from quintet.kube.client import Client

SLOTS = 8


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def run_all(work, items) -> None:
    slots = asyncio.Semaphore(SLOTS)

    async def one(item) -> None:
        async with slots:
            await work(item)

    await asyncio.gather(*map(one, items))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("count", "quiet"), [(20, 1.0), pytest.param(200, 5.0, marks=pytest.mark.exhaustive)]
)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process accounting is read from /proc")
async def test_many_checkups_need_bounded_requests_and_no_polling(
    count, quiet, checkups: Client, cluster, namespace, tmp_path, capsys
):
    await create_service_account(checkups, namespace)
    async with FaultProxy(cluster.kubeconfig) as proxy:
        program = Program(
            str(COMMAND), "run", "--controllers", "checkup", "--namespace", namespace,
            "--kubeconfig", str(proxy.write_kubeconfig(tmp_path)), "--health-address", "127.0.0.1:0",
            "--context", context("checkup"),
        )  # fmt: skip
        await program.start()
        try:
            await eventually(lambda: _assert_synced(program), within=60)
            before, empty = cpu_seconds(program.pid), resident_mib(program.pid)
            started = asyncio.get_running_loop().time()
            await run_all(lambda n: create(checkups, namespace, f"many-{n}", timeout=600), range(count))
            await _simulate_pods(checkups, namespace, count)
            await eventually(lambda: _assert_all_passed(checkups, namespace, count), within=300.0)
            elapsed = asyncio.get_running_loop().time() - started
            cpu, memory = cpu_seconds(program.pid) - before, resident_mib(program.pid)
            # Events are rate limited, so the last ones follow everything else.
            await proxy.quiet(2.0, anything, within=120.0)
            mark = proxy.trace.mark()
            await proxy.quiet(quiet, within=30.0)
            # On a slow machine a watch may time out now and be reopened.
            polls = [each for each in proxy.trace.requests(since=mark) if each.request.verb != "watch"]
            assert polls == [], "it polls"
        finally:
            program.kill()
            await program.ended()
        seen = Counter(" ".join(str(exchange.request).split()[:2]) for exchange in proxy.trace)
        for kind in ("configmaps", "roles.rbac.authorization.k8s.io", "jobs.batch"):
            assert seen[f"create {kind}"] == count, seen
        assert seen["patch checkups.kiagnose.io/status"] <= 6 * count, seen
        reads = {name: times for name, times in seen.items() if name.split()[0] in ("get", "list")}
        reads.pop("get /version", None)
        reads.pop("list events", None)
        assert [times for times in _event_queries(proxy).values() if not _is_backing_off(times)] == []
        assert set(reads) == {"get configmaps"}, reads
        assert reads["get configmaps"] == count, "the results of each, once"
    with capsys.disabled():
        listed = ", ".join(f"{times} {name}" for name, times in sorted(seen.items()) if "watch" not in name)
        sys.stdout.write(
            f"\n{count} checkups in {elapsed:.0f} s: {cpu / count * 1000:.1f} ms of CPU of the controller each, "
            f"{memory:.0f} MiB resident ({empty:.0f} MiB before); {listed}\n"
        )


def _event_queries(proxy: FaultProxy) -> dict[str, list[float]]:
    """Return when the controller listed the Events of each Job without a pod."""
    times: dict[str, list[float]] = {}
    for each in proxy.trace.requests(matching("list", "events")):
        times.setdefault(each.request.query["fieldSelector"], []).append(each.started)
    return times


def _is_backing_off(times: list[float]) -> bool:
    """Return whether the Events of a Job were listed after 3 s and then after twice as long each time."""
    late = 3.0  # requests are slow on a busy machine
    least = TimeLimits().no_pod * (2 ** (len(times) - 1) - 1)
    return times[-1] - times[0] + late >= least


def _assert_synced(program: Program) -> None:
    assert program.running, "\n".join(program.log)
    assert any("Caches synced" in line for line in program.log), "\n".join(program.log[-20:])


async def _simulate_pods(client: Client, namespace: str, count: int) -> None:
    """Do the work of node and checkup for every pod that the Job controller creates."""
    played = set[str]()

    async def one(pod: Object) -> None:
        part = SimulatedPod(client, pod.key)
        await part.start()
        job = next(owner.name for owner in pod.metadata.owner_references if owner.controller)
        await client.patch(desired.CONFIG_MAPS, ObjectKey(namespace, job), {"data": PASSED}, Object)
        await part.terminate()
        played.add(pod.metadata.uid)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(400.0):
            while len(played) < count:
                waiting = [
                    pod for pod in await list_pods(client, namespace) if pod.metadata.uid not in played
                ]
                await run_all(one, waiting)
    assert len(played) == count, f"{len(played)} of {count} pods were made"


async def _assert_all_passed(client: Client, namespace: str, count: int) -> None:
    verdicts = Counter[str]()
    async for page in client.pages(CHECKUPS, namespace=namespace):
        verdicts.update(str(msgspec.json.decode(raw, type=Checkup).status.verdict) for raw in page.items)
    assert verdicts == {"Passed": count}, verdicts
