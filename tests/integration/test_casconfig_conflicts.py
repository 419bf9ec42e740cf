"""Another manager sets the same field: the value is restored twice, then left, and the status names the manager."""

import asyncio

from kit.background import run_in_background
from kit.cluster.api import Api
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy, matching
from kit.kinds.casconfigs import (
    DEPLOYMENTS,
    a_deployment,
    a_policy,
    create,
    edit,
    get,
    wait_for_reason,
    wait_until_applied,
)
from kit.kinds.casconfigs import casconfig_operator as operator
from quintet.apis.casconfig import TargetState
from quintet.apis.meta import Object, ObjectKey, find_condition
from quintet.kube.client import Client


async def keep_overwriting(client: Client, where: ObjectKey, value: str = "theirs") -> None:
    """Overwrite the field forever, as another controller would."""
    rival = client.with_manager("rival")
    while True:
        found = await rival.get(DEPLOYMENTS, where, Object)
        if found.metadata.labels.get("tier") != value:
            await rival.patch(DEPLOYMENTS, where, {"metadata": {"labels": {"tier": value}}}, Object)
        await asyncio.sleep(0.02)


async def test_conflict_with_other_manager_ends_after_three_rounds_and_names_it(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    for name in ("web", "calm"):
        await casconfigs.create(DEPLOYMENTS, a_deployment(name), Object, namespace=namespace)
    where = ObjectKey(namespace, "web")
    async with run_in_background(keep_overwriting(casconfigs, where)):
        key = await create(casconfigs, namespace, "war", a_policy(labels={"tier": "ours"}))
        config = await wait_for_reason(casconfigs, key, "Contested")
        by_name = {target.name: target for target in config.status.targets}
        assert (by_name["web"].state, by_name["web"].rounds) == (TargetState.CONTESTED, 3)
        assert "rival has reverted this 3 times: labels/tier" in by_name["web"].message
        assert by_name["calm"].state is TargetState.APPLIED
        assert (config.status.contested, config.status.applied, config.status.matched) == (1, 1, 2)
        assert find_condition(config.status.conditions, "Conflicted").reason == "Contested"
        await proxy.quiet(1.0)
        ours = proxy.trace.writes(matching("patch", "deployments", name="web"))
        assert len([each for each in ours if each.status == 200]) == 3, f"\n{proxy.trace}"
    seen = await casconfigs.get(DEPLOYMENTS, where, Object)
    assert seen.metadata.labels["tier"] == "theirs"


async def test_edit_of_casconfig_restarts_conflict_rounds(casconfig_operator, casconfigs: Client, namespace):
    await casconfigs.create(DEPLOYMENTS, a_deployment("web"), Object, namespace=namespace)
    where = ObjectKey(namespace, "web")
    async with run_in_background(keep_overwriting(casconfigs, where)):
        key = await create(casconfigs, namespace, "war", a_policy(labels={"tier": "ours"}))
        await wait_for_reason(casconfigs, key, "Contested")
    await edit(casconfigs, key, a_policy(labels={"tier": "still-ours"}))
    await wait_until_applied(casconfigs, key, 1)


async def test_operator_restart_does_not_restart_conflict(
    casconfigs: Client, api: Api, proxy: FaultProxy, namespace, tmp_path
):
    from kit.kinds.casconfigs import create_service_account

    await create_service_account(api, namespace)
    await casconfigs.create(DEPLOYMENTS, a_deployment("web"), Object, namespace=namespace)
    kubeconfig = proxy.write_kubeconfig(tmp_path)
    async with run_in_background(keep_overwriting(casconfigs, ObjectKey(namespace, "web"))):
        async with operator(kubeconfig, namespace=namespace):
            key = await create(casconfigs, namespace, "war", a_policy(labels={"tier": "ours"}))
            await wait_for_reason(casconfigs, key, "Contested")
        await proxy.quiet(0.5)
        before, mark = len(proxy.trace.writes()), proxy.trace.mark()
        async with operator(kubeconfig, namespace=namespace):
            await proxy.wait_for(matching("watch", "deployments"), since=mark)
            await proxy.quiet(1.0)
        assert len(proxy.trace.writes()) == before, f"\n{proxy.trace}"


async def test_single_foreign_edit_is_reverted_without_contested_state(
    casconfig_operator, casconfigs: Client, namespace
):
    await casconfigs.create(DEPLOYMENTS, a_deployment("web"), Object, namespace=namespace)
    where = ObjectKey(namespace, "web")
    key = await create(casconfigs, namespace, "once", a_policy(labels={"tier": "ours"}))
    await wait_until_applied(casconfigs, key, 1)
    await casconfigs.patch(DEPLOYMENTS, where, {"metadata": {"labels": {"tier": "theirs"}}}, Object)

    async def assert_repeated() -> None:
        seen = await casconfigs.get(DEPLOYMENTS, where, Object)
        assert seen.metadata.labels["tier"] == "ours"
        (target,) = (await get(casconfigs, key)).status.targets
        assert (target.state, target.rounds) == (TargetState.APPLIED, 1)

    await eventually(assert_repeated)
