"""`quintet undo` on a real API server."""

from typing import Any

from kit.cli.invoke import quintet, works
from kit.cluster.api import Api
from kit.eventually import eventually
from kit.kinds.casconfigs import (
    CASCONFIGS,
    DEPLOYMENTS,
    a_deployment,
    a_policy,
    comparable_fields,
    create,
    get,
    wait_until_applied,
)
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client
from quintet.local.cluster import Cluster


async def a_target(client: Client, namespace: str) -> dict[str, Any]:
    await client.create(DEPLOYMENTS, a_deployment("books"), Object, namespace=namespace)
    return await seen(client, namespace)


async def seen(client: Client, namespace: str) -> dict[str, Any]:
    return comparable_fields(await client.get(DEPLOYMENTS, ObjectKey(namespace, "books"), dict[str, Any]))


async def test_undo_waits_until_targets_are_restored_and_stay_restored(
    casconfig_operator, casconfigs: Client, cluster: Cluster, namespace: str
):
    before = await a_target(casconfigs, namespace)
    key = await create(casconfigs, namespace, "gold", a_policy(labels={"tier": "gold"}, envs={"A": "1"}))
    await wait_until_applied(casconfigs, key, 1)
    injected = await seen(casconfigs, namespace)
    assert injected != before
    where = ("-n", namespace, "--kubeconfig", cluster.kubeconfig)

    said = await quintet("undo", "gold", "-w", *where)

    assert (said.code, said.out) == (0, "casconfig/gold is undone: spec.mode is Preview\n"), said.shown
    assert await seen(casconfigs, namespace) == before

    async def planned() -> None:
        config = await get(casconfigs, key)
        assert (config.spec.mode, len(config.status.plan)) == ("Preview", 1), config.status

    # What would be set is tried out afterwards, and again if somebody changes the target meanwhile.
    await eventually(planned, within=120)

    # The next step that it prints works as it stands.
    (step,) = [line for line in said.err.splitlines() if line.startswith("to apply it again: ")]
    patch = step.partition("-p ")[2].strip("'")
    cluster.kubectl("patch", "-n", namespace, "casc", "gold", "--type=merge", "-p", patch)
    await wait_until_applied(casconfigs, key, 1)
    assert (await seen(casconfigs, namespace))["labels"]["tier"] == "gold"


async def test_undo_dry_run_lists_targets(
    casconfig_operator, casconfigs: Client, cluster: Cluster, namespace: str
):
    await a_target(casconfigs, namespace)
    key = await create(casconfigs, namespace, "gold", a_policy(labels={"tier": "gold"}))
    await wait_until_applied(casconfigs, key, 1)
    said = await works(
        "undo", "casconfig/gold", "--dry-run", "-n", namespace, "--kubeconfig", cluster.kubeconfig
    )
    assert said.splitlines() == [
        "casconfig/gold would be undone on 1 object (dry run)",
        f"  apps/v1/Deployment {namespace}/books",
    ]
    assert (await get(casconfigs, key)).spec.mode == "Apply"
    assert (await seen(casconfigs, namespace))["labels"]["tier"] == "gold"


async def test_undo_of_suspended_casconfig_requires_resume(
    casconfigs: Client, api: Api, cluster: Cluster, namespace: str
):
    key = await create(casconfigs, namespace, "gold", a_policy(labels={"tier": "gold"}))
    change = {"metadata": {"finalizers": None, "annotations": {"quintet.dev/suspended": "true"}}}
    await casconfigs.patch(CASCONFIGS, key, change, Object)
    said = await quintet("undo", "gold", "-n", namespace, "--kubeconfig", cluster.kubeconfig)
    assert said.code == 1, said.shown
    assert "run `quintet resume casconfig gold` first" in said.err
    assert (await get(casconfigs, key)).spec.mode == "Apply"
