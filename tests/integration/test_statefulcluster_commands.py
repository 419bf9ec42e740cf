"""The commands of docs/statefulcluster.md work as documented. Only the node is simulated."""

import pytest

from kit.cli.browser import dashboard
from kit.cli.commands import Person
from kit.cli.shell import Shell
from kit.cluster.simulated_node import SimulatedNode
from kit.kinds.jsonservers import ROOT
from kit.kinds.statefulcluster_manifests import a_cluster
from kit.kinds.statefulclusters import claims_of, install, statefulcluster_operator, wait_until_settled
from quintet.apis.meta import ObjectKey
from quintet.apis.statefulcluster import STATEFULCLUSTERS
from quintet.inspect.session import Target


@pytest.fixture
async def place(cluster, api, client, namespace, tmp_path):
    """A namespace with a running StatefulCluster of two replicas and the shell of a user."""
    await install(client)
    node = SimulatedNode(api, namespace=namespace)
    async with node.running(), statefulcluster_operator(cluster.kubeconfig, namespace=namespace):
        await api.create(STATEFULCLUSTERS.path(namespace), a_cluster(replicas=2, minReadySeconds=0))
        await wait_until_settled(client, ObjectKey(namespace, "web"))
        yield Shell(cluster, namespace, ROOT / "docs/statefulcluster.md", tmp_path)


async def read_pods(api, namespace):
    """Return revision, claims and uid of every pod by name."""
    found = (await api.get(f"/api/v1/namespaces/{namespace}/pods"))["items"]
    return {pod["metadata"]["name"]: pod for pod in found}


def images(found):
    return {pod["spec"]["containers"][0]["image"] for pod in found.values()}


def uids(found):
    return {pod["metadata"]["uid"] for pod in found.values()}


async def test_plan_only_commands_show_plan_and_change_nothing(place, api, client, namespace):
    before = await read_pods(api, namespace)
    said = await place.run("plan-only")
    assert "has revision" in said
    after = await read_pods(api, namespace)
    assert uids(after) == uids(before)
    # Without the annotation the plan is carried out.
    await api.merge(
        f"{STATEFULCLUSTERS.path(namespace)}/web", {"metadata": {"annotations": {"enge.me/plan-only": None}}}
    )
    await wait_until_settled(client, ObjectKey(namespace, "web"))
    assert images(await read_pods(api, namespace)) == {"registry.k8s.io/nginx-slim:0.25"}


async def test_ledger_command_lists_every_claim(place, api, namespace):
    found = await read_pods(api, namespace)
    said = await place.run("ledger")
    lines = sorted(line.split("\t") for line in said.splitlines())
    want = sorted([claim, "InUse", name] for name, pod in found.items() for claim in claims_of(pod))
    assert [line[:3] for line in lines] == want
    assert all(line[3] for line in lines)


async def test_restart_command_keeps_claims_and_undo_command_restores_template(place, api, namespace):
    first = await read_pods(api, namespace)
    await place.run("restart")
    second = await read_pods(api, namespace)
    assert sorted(second) == sorted(first)
    assert {name: claims_of(pod) for name, pod in second.items()} == {
        name: claims_of(pod) for name, pod in first.items()
    }
    assert not uids(second) & uids(first)
    assert all("restarted-at" in pod["metadata"]["annotations"] for pod in second.values())
    await place.run("undo")
    third = await read_pods(api, namespace)
    assert not uids(third) & uids(second)
    assert not any("restarted-at" in pod["metadata"].get("annotations", {}) for pod in third.values())


async def test_status_and_dashboard_show_replicas_with_node_and_claims(place, api, cluster, namespace):
    found = await read_pods(api, namespace)
    shown = await Person(cluster.kubeconfig, namespace).sees("status", "statefulcluster", "web")
    rows = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    async with dashboard(Target(str(cluster.kubeconfig))) as browser:
        page = await browser.sees("Replicas", f"/objects/StatefulCluster/{namespace}/web")
    assert len(found) == 2
    for name, pod in found.items():
        want = [
            pod["spec"]["nodeName"],
            pod["metadata"]["labels"]["controller-revision-hash"],
            *claims_of(pod),
        ]
        assert [each for each in want if each not in rows[name]] == [], shown
        assert [each for each in want if each not in page] == [], page
