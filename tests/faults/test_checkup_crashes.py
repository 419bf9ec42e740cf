"""The operator dies, or an answer is lost, at every single write of a checkup's life.

A reference run numbers the writes; then each write in turn is hit. Whatever is hit: one Job for each
run, the right verdicts, and nothing left in the end. There is no node, so the parts of kubelet and
checkup are played here (see kit/checkups.py); the Job controller and the garbage collector are real.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.accounts import context
from kit.api import Api
from kit.checkups import CHILD_TYPES, PASSED, PlayedPod, an_account, create, pods, with_verdict
from kit.cluster import fresh_namespace
from kit.crashes import ANSWER_LOST, FAULTS, KILLED_AFTER, KILLED_BEFORE, TROUBLE, at_writes, keep_running
from kit.eventually import eventually
from kit.meanwhile import meanwhile
from kit.process import Program
from kit.proxy import Before, FaultProxy, matching
from quintet.apis.checkup import CHECKUPS
from quintet.apis.checkup.contract import RUN_LABEL
from quintet.apis.meta import Object, ObjectKey
from quintet.controllers.checkup import desired
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
    first = await with_verdict(client, key, "TimedOut", within=120.0)
    assert first.status.evidence is not None, first.status
    await client.patch(CHECKUPS, key, {"metadata": {"annotations": {"kiagnose.io/rerun": "1"}}}, Object)
    second = await with_verdict(client, key, "Passed", run=2, within=120.0)
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

    # Longer than the end of a pod is waited for before the rest is deleted.
    await eventually(gone, within=150.0)


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


# To be refused is to have written nothing, which the kill before each write shows already.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, ANSWER_LOST: 1, TROUBLE: 3}


@pytest.mark.slow
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_one_job_for_each_run_and_the_right_verdict_whatever_happens_to_a_write(
    fault, writes, checkups: Client, cluster, api, tmp_path
):
    async def plan(number: int) -> None:
        stage = a_stage(checkups, api, cluster.kubeconfig, tmp_path)
        async with stage as (namespace, proxy, operator):
            injected = proxy.inject(FAULTS[fault](operator), at_write=number)
            await tell(checkups, namespace)
            # A run may have a write less than the reference; one that it did have must have been hit.
            assert injected.hits or len(proxy.trace.writes()) < number, f"\n{proxy.trace}"
            made = [e for e in proxy.trace.writes(matching("create", "jobs")) if e.status == 201]
            assert len(made) == 2, f"write {number} {fault}: not one Job for each run\n{proxy.trace}"

    await at_writes(range(1, writes + 1, EVERY[fault]), plan)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_nothing_is_left_at_whatever_stage_it_is_deleted(
    writes, checkups: Client, cluster, api, tmp_path
):
    async def plan(number: int) -> None:
        stage = a_stage(checkups, api, cluster.kubeconfig, tmp_path)
        async with stage as (namespace, proxy, _):
            key = ObjectKey(namespace, NAME)

            async def delete() -> None:
                with contextlib.suppress(NotFound):
                    await checkups.delete(CHECKUPS, key)

            injected = proxy.inject(Before(delete), at_write=number)
            story = asyncio.create_task(tell(checkups, namespace))
            hit = asyncio.create_task(injected.hit(within=120.0))
            await asyncio.wait([story, hit], return_when=asyncio.FIRST_COMPLETED)
            story.cancel()
            hit.cancel()
            await asyncio.gather(story, hit, return_exceptions=True)
            await delete()
            await nothing_left(checkups, namespace)

    await at_writes(range(1, writes + 1), plan)
