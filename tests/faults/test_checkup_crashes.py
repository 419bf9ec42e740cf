"""The operator is killed or a response is lost at any write in the life of a Checkup.

Whichever write is hit, each run has one Job, verdicts are correct, and nothing is left in the end.
`kit.faults.scenarios` defines which writes are hit. Pods are simulated (kit/kinds/checkups.py); the Job controller and
the garbage collector are real.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.background import run_in_background
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.cluster.service_accounts import context
from kit.eventually import eventually
from kit.faults.proxy import Before, FaultProxy, anything, matching
from kit.faults.proxy.requests import Predicate
from kit.faults.scenarios import (
    ESSENTIAL,
    KILLED_AFTER,
    KILLED_BEFORE,
    PATIENCE,
    RESPONSE_LOST,
    UNAVAILABLE,
    add_diagnostics,
    inject_at_write,
    keep_running,
    run_concurrently,
    run_until_hit,
)
from kit.kinds.checkups import (
    CHILD_TYPES,
    PASSED,
    SimulatedPod,
    create,
    create_service_account,
    list_pods,
    wait_for_verdict,
)
from kit.process import Program
from quintet.apis.checkup import CHECKUPS
from quintet.apis.checkup.contract import RUN_LABEL
from quintet.apis.meta import Object, ObjectKey
from quintet.controllers.checkup.decide import desired
from quintet.kube.client import Client
from quintet.kube.errors import KubeError, NotFound

NAME = "crashed"
COMMAND = Path(sys.executable).parent / "quintet"


@contextlib.asynccontextmanager
async def an_operator(kubeconfig: Path, namespace: str) -> AsyncIterator[Program]:
    """Run `quintet run` while inside and kill it afterwards."""
    program = Program(
        str(COMMAND), "run", "--controllers", "checkup", "--kubeconfig", str(kubeconfig),
        "--namespace", namespace, "--health-address", "127.0.0.1:0", "--no-leader-elect",
        "--context", context("checkup"),
    )  # fmt: skip
    await program.start()
    try:
        yield program
    finally:
        program.signal(signal.SIGCONT)
        program.kill()
        await program.ended()


async def simulate_pods(client: Client, namespace: str) -> None:
    """Do the work of node and checkup: the first run hangs, all others pass."""
    played = set[str]()
    while True:
        for pod in await list_pods(client, namespace):
            if pod.metadata.uid not in played and not pod.metadata.deleting:
                with contextlib.suppress(KubeError):
                    await _simulate_pod(client, pod)
                    played.add(pod.metadata.uid)
        await asyncio.sleep(0.1)


async def _simulate_pod(client: Client, pod: Object) -> None:
    part = SimulatedPod(client, pod.key)
    if pod.metadata.labels[RUN_LABEL] == "1":
        await part.start()
        return
    # It has one second from its start, so start and end are reported together.
    job = next(owner.name for owner in pod.metadata.owner_references if owner.controller)
    await client.patch(desired.CONFIG_MAPS, ObjectKey(pod.key.namespace, job), {"data": PASSED}, Object)
    await part.terminate()


async def run_scenario(client: Client, namespace: str) -> None:
    """A Checkup hangs and times out, passes when it is rerun, and is deleted."""
    await create_service_account(client, namespace)
    key = await create(client, namespace, NAME, timeout=1)
    first = await wait_for_verdict(client, key, "TimedOut", within=PATIENCE)
    assert first.status.evidence is not None, first.status
    await client.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "1"}}}, Object)
    second = await wait_for_verdict(client, key, "Passed", run=2, within=PATIENCE)
    assert second.status.result_map == {"echo": "Hi!"}
    assert [(run.run, run.verdict) for run in second.status.history] == [(1, "TimedOut")]
    await client.delete(CHECKUPS, key)
    await assert_nothing_left(client, namespace)


async def assert_nothing_left(client: Client, namespace: str) -> None:
    async def assert_gone() -> None:
        for resource in (CHECKUPS, *CHILD_TYPES):
            selector = "" if resource == CHECKUPS else desired.SELECTOR
            async for page in client.pages(resource, namespace=namespace, labels=selector):
                assert page.items == (), f"{resource.kind} is left: {bytes(page.items[0])[:300]!r}"
        assert await list_pods(client, namespace) == [], "pods are left"

    await eventually(assert_gone, within=PATIENCE)


@contextlib.asynccontextmanager
async def an_environment(
    client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> AsyncIterator[tuple[str, FaultProxy, Program]]:
    """Create a namespace with an operator behind a proxy and simulated pods."""
    async with (
        fresh_namespace(api) as namespace,
        FaultProxy(kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(scratch), namespace) as operator,
        run_in_background(keep_running(operator), simulate_pods(client, namespace)),
    ):
        yield namespace, proxy, operator


@pytest.fixture(scope="module")
async def writes(checkups: Client, cluster, tmp_path_factory) -> int:
    """Return the number of writes of the scenario without faults."""
    scratch = tmp_path_factory.mktemp("reference")
    async with (
        Api.connect(cluster.kubeconfig) as api,
        an_environment(checkups, api, cluster.kubeconfig, scratch) as (namespace, proxy, _),
    ):
        await run_scenario(checkups, namespace)
        await proxy.quiet(0.5)
        assert len(proxy.trace.writes(matching("create", "jobs"))) == 2, f"\n{proxy.trace}"
        return len(proxy.trace.writes())


async def run_with_fault(
    fault: str, at_write: int | None, client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> None:
    async with (
        an_environment(client, api, kubeconfig, scratch) as (namespace, proxy, operator),
        inject_at_write(fault, proxy, operator, at_write=at_write),
    ):
        await run_scenario(client, namespace)
        made = [e for e in proxy.trace.writes(matching("create", "jobs")) if e.status == 201]
        assert len(made) == 2, "not exactly one Job per run"


@pytest.mark.timeout(1800)
async def test_checkup_has_one_job_per_run_and_correct_verdict_when_first_write_of_each_type_fails(
    checkups: Client, cluster, api, tmp_path
):
    async def run_case(fault: str) -> None:
        await run_with_fault(fault, None, checkups, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(ESSENTIAL, run_case)


# A rejected write changes nothing, as with the kill before each write.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, RESPONSE_LOST: 1, UNAVAILABLE: 3}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_checkup_has_one_job_per_run_and_correct_verdict_when_any_write_fails(
    fault, writes, checkups: Client, cluster, api, tmp_path
):
    async def run_case(number: int) -> None:
        await run_with_fault(fault, number, checkups, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(range(1, writes + 1, EVERY[fault]), run_case)


async def delete_before(
    when: Predicate, at_write: int | None, client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> None:
    """Delete the Checkup just before a write of the scenario; nothing may be left."""
    async with an_environment(client, api, kubeconfig, scratch) as (namespace, proxy, operator):
        key = ObjectKey(namespace, NAME)

        async def delete() -> None:
            with contextlib.suppress(NotFound):
                await client.delete(CHECKUPS, key)

        injected = proxy.inject(Before(delete), when=when, at_write=at_write)
        with add_diagnostics(f"deleted before write {at_write or 'of the given type'}", proxy, operator):
            await run_until_hit(injected, run_scenario(client, namespace))
            await delete()
            await assert_nothing_left(client, namespace)


@pytest.mark.timeout(1800)
async def test_checkup_deleted_while_its_objects_are_created_leaves_no_objects(
    checkups: Client, cluster, api, tmp_path
):
    when = matching("create", "jobs")
    await delete_before(when, None, checkups, api, cluster.kubeconfig, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_checkup_deleted_at_any_write_leaves_no_objects(
    writes, checkups: Client, cluster, api, tmp_path
):
    async def run_case(number: int) -> None:
        await delete_before(anything, number, checkups, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(range(1, writes + 1), run_case)
