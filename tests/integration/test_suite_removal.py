"""A controller that is taken out of the Quintet finishes the deletions of its objects first."""

from kit.cluster.api import Api
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.jsonservers import a_jsonserver, install
from kit.kinds.suite import (
    a_flavour,
    apply_quintet,
    installed_operator,
    suite_operator,
    wait_for_condition,
    wait_until_settled,
)
from quintet.kube.client import Client

FINALIZER = "example.com/jsonserver"


async def hold(api: Api, path: str) -> None:
    """Create a JsonServer with the finalizer, as the webhook would."""
    body = a_jsonserver(path.rpartition("/")[2])
    body["metadata"]["finalizers"] = [FINALIZER]
    await api.create(path.rpartition("/")[0], body)


async def release(api: Api, path: str) -> None:
    """Remove the finalizer, as the controller does when it has cleaned up."""
    body = {"metadata": {"finalizers": list[str]()}}
    await api.merge(path, body)


async def test_controller_runs_until_deletions_are_finished_and_reports_later_ones(
    api: Api, client: Client, proxy: FaultProxy, namespace, tmp_path, simulated_node
):
    await install(client)
    flavour = a_flavour(namespace)
    deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/quintet-jsonserver"
    first, second = (
        f"/apis/example.com/v1/namespaces/{namespace}/jsonservers/{name}" for name in ("app-a", "app-b")
    )

    async def gone() -> None:
        assert not await api.exists(deployment)

    async with installed_operator(api, flavour) as token, suite_operator(proxy, token, tmp_path, flavour):
        await apply_quintet(api, controllers=["jsonserver", "checkup"])
        await wait_until_settled(client, ready="2/2")
        for path in (first, second):
            await hold(api, path)
        await api.delete(first)
        await apply_quintet(api, controllers=["checkup"])
        quintet = await wait_for_condition(client, "Progressing", "True", "FinishingDeletions")
        assert any(f"JsonServer {namespace}/app-a" in each.message for each in quintet.status.conditions)
        assert await api.exists(deployment)
        await release(api, first)
        quintet = await wait_until_settled(client, ready="1/1")
        await eventually(gone, within=60)
        messages = [each.message for each in quintet.status.conditions if each.type == "Available"]
        assert "jsonserver does not run, and " in messages[0]
        await api.delete(second)
        # The controller reads the objects when the Quintet changes, or after a minute.
        await apply_quintet(api, controllers=["checkup", "casconfig"])
        await wait_for_condition(client, "Degraded", "True", "DeletionsWithoutController")
        assert not await api.exists(deployment)
        await apply_quintet(api, controllers=["checkup", "jsonserver"])
        await release(api, second)
        await wait_for_condition(client, "Degraded", "False")
