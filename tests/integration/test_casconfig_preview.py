"""A preview reports what a CASConfig would change, by a dry run on the API server, and changes nothing."""

from kit.faults.proxy import Answer, Before, FaultProxy, Request
from kit.kinds.casconfigs import (
    DEPLOYMENTS,
    a_deployment,
    a_policy,
    comparable_fields,
    create,
    create_object,
    edit,
    get_object,
    wait_for_reason,
    wait_until_applied,
)
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client


async def test_preview_shows_change_of_every_target_and_writes_nothing(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    before = await create_object(casconfigs, namespace, a_deployment("web"))
    key = await create(casconfigs, namespace, "tried", a_policy(envs={"X": "1"}), mode="Preview")
    config = await wait_for_reason(casconfigs, key, "Preview")
    (change,) = config.status.plan
    assert change.target == f"apps/v1/Deployment {namespace}/web"
    assert '"name": "X"' in change.diff, change.diff
    assert "casconfig.openebs.io" not in change.diff
    assert (config.status.applied, config.status.matched) == (0, 1)
    after = await get_object(casconfigs, namespace, "web")
    assert comparable_fields(after) == comparable_fields(before)
    await edit(casconfigs, key, mode="Apply")
    await wait_until_applied(casconfigs, key, 1)
    await edit(casconfigs, key, mode="Preview")
    await wait_for_reason(casconfigs, key, "Preview")
    assert comparable_fields(await get_object(casconfigs, namespace, "web")) == comparable_fields(before)


def is_dry_run(request: Request) -> bool:
    return request.verb == "patch" and request.resource == "deployments" and "dryRun" in request.query


async def test_preview_succeeds_despite_concurrent_write_to_target(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    await create_object(casconfigs, namespace, a_deployment("web"))
    web = ObjectKey(namespace, "web")

    async def somebody_else() -> None:
        # A status write does not cause a reconciliation.
        status = {"status": {"collisionCount": 7}}
        await casconfigs.patch(DEPLOYMENTS, web, status, Object, subresource="status")

    fault = proxy.inject(Before(somebody_else), when=is_dry_run)
    key = await create(casconfigs, namespace, "tried", a_policy(envs={"X": "1"}), mode="Preview")
    config = await wait_for_reason(casconfigs, key, "Preview")
    assert len(config.status.plan) == 1, config.status
    assert fault.hits


async def test_rejected_preview_reports_reason_and_is_retried(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    await create_object(casconfigs, namespace, a_deployment("web"))
    refused = proxy.inject(Answer(403, "Forbidden"), when=is_dry_run, times=None)
    key = await create(casconfigs, namespace, "tried", a_policy(envs={"X": "1"}), mode="Preview")
    config = await wait_for_reason(casconfigs, key, "TargetFailed")
    (target,) = config.status.targets
    assert (target.state, target.reason) == ("Failed", "Forbidden"), config.status
    assert not config.status.plan
    refused.remove()
    with casconfig_operator.clock.running_fast():
        config = await wait_for_reason(casconfigs, key, "Preview")
    assert len(config.status.plan) == 1, config.status
