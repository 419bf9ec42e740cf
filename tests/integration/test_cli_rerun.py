"""`quintet rerun` and `quintet trend` on a real API server."""

import asyncio
import json

import pytest

from kit.cli.invoke import quintet, works
from kit.kinds.checkups import (
    CHECKUPS,
    PATIENT,
    SimulatedPod,
    an_operator,
    create,
    create_service_account,
    get,
    run_to_success,
    wait_for_verdict,
)
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client
from quintet.local.cluster import Cluster


@pytest.fixture
async def passed(checkups: Client, cluster: Cluster, namespace: str):
    """A Checkup that has passed, and its controller."""
    await create_service_account(checkups, namespace)
    async with an_operator(cluster.kubeconfig, limits=PATIENT, namespace=namespace):
        key = await create(checkups, namespace, "hello")
        await run_to_success(checkups, key)
        await wait_for_verdict(checkups, key, "Passed")
        yield key


async def test_rerun_waits_for_verdict_of_new_run(passed: ObjectKey, checkups: Client, cluster: Cluster):
    where = ("-n", passed.namespace, "--kubeconfig", cluster.kubeconfig)
    waiting = asyncio.create_task(quintet("rerun", "hello", "-w", "--timeout", 120, *where))
    await run_to_success(checkups, passed, run=2)
    said = await waiting
    assert said.code == 0, said.shown
    assert said.out.startswith("checkup/hello Passed: run 2: CheckupSucceeded: ")
    assert [each.run for each in (await get(checkups, passed)).status.history] == [1]


async def test_trend_shows_finished_runs(passed: ObjectKey, cluster: Cluster):
    where = ("-n", passed.namespace, "--kubeconfig", cluster.kubeconfig)
    header, first = (await works("trend", "checkup", "hello", *where)).splitlines()[:2]
    assert header.split() == ["RUN", "AGE", "VERDICT", "SECONDS"]
    assert first.split()[0::2] == ["1", "Passed"]
    document = json.loads(await works("trend", "hello", "-o", "json", *where))
    assert [run["run"] for run in document["runs"]] == [1]
    assert list(document["series"]) == ["seconds"]


async def test_rerun_that_does_not_pass_exits_with_1(passed: ObjectKey, checkups: Client, cluster: Cluster):
    where = ("-n", passed.namespace, "--kubeconfig", cluster.kubeconfig)
    waiting = asyncio.create_task(quintet("rerun", "checkup/hello", "-w", "--timeout", 120, *where))
    pod = await SimulatedPod.wait_for(checkups, passed, 2)
    await pod.start()
    await pod.terminate(3)
    said = await waiting
    assert said.code == 1, said.shown
    assert said.out.startswith("checkup/hello Failed: run 2: ContainerFailed: "), said.shown


async def test_rerun_dry_run_starts_nothing(passed: ObjectKey, checkups: Client, cluster: Cluster):
    before = (await checkups.get(CHECKUPS, passed, Object)).metadata
    await works(
        "rerun", "hello", "--dry-run", "-w", "-n", passed.namespace, "--kubeconfig", cluster.kubeconfig
    )
    assert (await checkups.get(CHECKUPS, passed, Object)).metadata == before


@pytest.mark.parametrize(
    ("annotation", "want", "step"),
    [
        ("quintet.dev/suspended", "is suspended", "quintet resume checkup hello"),
        ("kiagnose.io/cancel", "is cancelled", "kubectl annotate ckup hello kiagnose.io/cancel-"),
    ],
)
async def test_rerun_reports_obstacles_at_once(
    annotation, want, step, checkups: Client, cluster: Cluster, namespace: str
):
    key = await create(checkups, namespace, "hello")
    await checkups.patch(CHECKUPS, key, {"metadata": {"annotations": {annotation: "true"}}}, Object)
    said = await quintet("rerun", "hello", "-w", "-n", namespace, "--kubeconfig", cluster.kubeconfig)
    assert said.code == 1, said.shown
    assert want in said.err
    assert step in said.err
    await checkups.patch(CHECKUPS, key, {"metadata": {"finalizers": None}}, Object)


async def test_rerun_wait_times_out_without_controller(checkups: Client, cluster: Cluster, namespace: str):
    key = await create(checkups, namespace, "hello")
    said = await quintet(
        "rerun", "hello", "-w", "--timeout", "0.5", "-n", namespace, "--kubeconfig", cluster.kubeconfig
    )
    assert said.code == 1, said.shown
    assert f"Checkup {key} did not reach the expected state within 0.5 s" in said.err
    await checkups.patch(CHECKUPS, key, {"metadata": {"finalizers": None}}, Object)
