"""The operator dies, or an answer is lost, at any write of a checkup's life.

Whatever is hit: one Job for each run, the right verdicts, and nothing left in the end. `kit.faults.scenarios` says which
writes are hit on which level. There is no node, so the parts of kubelet and checkup are played here (see
kit/kinds/checkups.py); the Job controller and the garbage collector are real.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.background import meanwhile
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.cluster.service_accounts import context
from kit.eventually import eventually
from kit.faults.proxy import Before, FaultProxy, anything, matching
from kit.faults.proxy.requests import Predicate
from kit.faults.scenarios import (
    ANSWER_LOST,
    ESSENTIAL,
    KILLED_AFTER,
    KILLED_BEFORE,
    PATIENCE,
    TROUBLE,
    explaining,
    hit_by,
    keep_running,
    side_by_side,
    until_hit,
)
from kit.kinds.checkups import CHILD_TYPES, PASSED, PlayedPod, an_account, create, pods, with_verdict
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
    """`quintet run`, killed on the way out."""
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


async def play(client: Client, namespace: str) -> None:
    """What node and checkup do: the first run hangs, all others pass."""
    played = set[str]()
    while True:
        for pod in await pods(client, namespace):
            if pod.metadata.uid not in played and not pod.metadata.deleting:
                with contextlib.suppress(KubeError):
                    await _play(client, pod)
                    played.add(pod.metadata.uid)
        await asyncio.sleep(0.1)


async def _play(client: Client, pod: Object) -> None:
    part = PlayedPod(client, pod.key)
    if pod.metadata.labels[RUN_LABEL] == "1":
        await part.runs()
        return
    # It has a second from its start on, so that is told together with its end.
    job = next(owner.name for owner in pod.metadata.owner_references if owner.controller)
    await client.patch(desired.CONFIG_MAPS, ObjectKey(pod.key.namespace, job), {"data": PASSED}, Object)
    await part.ends()


async def tell(client: Client, namespace: str) -> None:
    """The story: a checkup hangs and times out, passes when it is run again, and is deleted."""
    await an_account(client, namespace)
    key = await create(client, namespace, NAME, timeout=1)
    first = await with_verdict(client, key, "TimedOut", within=PATIENCE)
    assert first.status.evidence is not None, first.status
    await client.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "1"}}}, Object)
    second = await with_verdict(client, key, "Passed", run=2, within=PATIENCE)
    assert second.status.result_map == {"echo": "Hi!"}
    assert [(run.run, run.verdict) for run in second.status.history] == [(1, "TimedOut")]
    await client.delete(CHECKUPS, key)
    await nothing_left(client, namespace)


async def nothing_left(client: Client, namespace: str) -> None:
    async def gone() -> None:
        for resource in (CHECKUPS, *CHILD_TYPES):
            selector = "" if resource == CHECKUPS else desired.SELECTOR
            async for page in client.pages(resource, namespace=namespace, labels=selector):
                assert page.items == (), f"{resource.kind} is left: {bytes(page.items[0])[:300]!r}"
        assert await pods(client, namespace) == [], "pods are left"

    await eventually(gone, within=PATIENCE)


@contextlib.asynccontextmanager
async def a_stage(
    client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> AsyncIterator[tuple[str, FaultProxy, Program]]:
    """A namespace with an operator behind a proxy, and somebody who plays the pods."""
    async with (
        fresh_namespace(api) as namespace,
        FaultProxy(kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(scratch), namespace) as operator,
        meanwhile(keep_running(operator), play(client, namespace)),
    ):
        yield namespace, proxy, operator


@pytest.fixture(scope="module")
async def writes(checkups: Client, cluster, tmp_path_factory) -> int:
    """How many writes the story takes when nothing goes wrong."""
    scratch = tmp_path_factory.mktemp("reference")
    async with (
        Api.connect(cluster.kubeconfig) as api,
        a_stage(checkups, api, cluster.kubeconfig, scratch) as (namespace, proxy, _),
    ):
        await tell(checkups, namespace)
        await proxy.quiet(0.5)
        assert len(proxy.trace.writes(matching("create", "jobs"))) == 2, f"\n{proxy.trace}"
        return len(proxy.trace.writes())


async def tell_with(
    fault: str, at_write: int | None, client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> None:
    async with (
        a_stage(client, api, kubeconfig, scratch) as (namespace, proxy, operator),
        hit_by(fault, proxy, operator, at_write=at_write),
    ):
        await tell(client, namespace)
        made = [e for e in proxy.trace.writes(matching("create", "jobs")) if e.status == 201]
        assert len(made) == 2, "not one Job for each run"


@pytest.mark.timeout(1800)
async def test_checkup_has_one_job_per_run_and_correct_verdict_when_first_write_of_each_type_fails(
    checkups: Client, cluster, api, tmp_path
):
    async def told(fault: str) -> None:
        await tell_with(fault, None, checkups, api, cluster.kubeconfig, tmp_path)

    await side_by_side(ESSENTIAL, told)


# To be refused is to have written nothing, which the kill before each write shows already.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, ANSWER_LOST: 1, TROUBLE: 3}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_checkup_has_one_job_per_run_and_correct_verdict_when_any_write_fails(
    fault, writes, checkups: Client, cluster, api, tmp_path
):
    async def told(number: int) -> None:
        await tell_with(fault, number, checkups, api, cluster.kubeconfig, tmp_path)

    await side_by_side(range(1, writes + 1, EVERY[fault]), told)


async def delete_before(
    when: Predicate, at_write: int | None, client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> None:
    """Delete the checkup just before a write of its story; nothing may be left."""
    async with a_stage(client, api, kubeconfig, scratch) as (namespace, proxy, operator):
        key = ObjectKey(namespace, NAME)

        async def delete() -> None:
            with contextlib.suppress(NotFound):
                await client.delete(CHECKUPS, key)

        injected = proxy.inject(Before(delete), when=when, at_write=at_write)
        with explaining(f"deleted before write {at_write or 'of the given type'}", proxy, operator):
            await until_hit(injected, tell(client, namespace))
            await delete()
            await nothing_left(client, namespace)


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
    async def told(number: int) -> None:
        await delete_before(anything, number, checkups, api, cluster.kubeconfig, tmp_path)

    await side_by_side(range(1, writes + 1), told)
