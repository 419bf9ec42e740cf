"""The commands of docs/statefulcluster-conversion.md work as documented.

StatefulSet controller, volume binder and our controller are real; only the node is simulated.
"""

import pytest
import yaml

from kit.cli.shell import Shell
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.kinds.jsonservers import ROOT
from kit.kinds.statefulcluster_manifests import WEB
from kit.kinds.statefulclusters import claims_of, install, names, statefulcluster_operator

pytestmark = pytest.mark.timeout(900)
PAGE = ROOT / "docs/statefulcluster-conversion.md"
SETS = "/apis/apps/v1/namespaces/{}/statefulsets"


@pytest.fixture
async def place(cluster, api, client, namespace, tmp_path):
    """A namespace with a simulated node, our controller, four volumes and the shell of a user."""
    await install(client)
    made = [f"/api/v1/persistentvolumes/{namespace}-{number}" for number in range(4)]
    for path in made:
        await api.create("/api/v1/persistentvolumes", a_volume(path.rpartition("/")[2], namespace))
    node = SimulatedNode(api, namespace=namespace)
    async with node.running(), statefulcluster_operator(cluster.kubeconfig, namespace=namespace):
        yield Shell(cluster, namespace, PAGE, tmp_path)
    for path in made:
        await api.delete(path)


def a_volume(name, storage_class):
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": f"/nowhere/{name}"},
        },
    }


async def create_statefulset(api, namespace) -> dict[str, str]:
    """Create the StatefulSet of the documentation and return the volume of each claim."""
    spec = yaml.safe_load(yaml.safe_dump(WEB)) | {"minReadySeconds": 0}
    spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] = namespace
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec}
    await api.create(SETS.format(namespace), body)

    async def assert_running():
        found = await api.get(f"{SETS.format(namespace)}/web")
        assert found["status"].get("readyReplicas") == 3, found["status"]
        return await bound_volumes(api, namespace)

    return await eventually(assert_running, within=120)


async def bound_volumes(api, namespace) -> dict[str, str]:
    """Return the volume of each bound claim."""
    found = (await api.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"))["items"]
    assert {claim["status"]["phase"] for claim in found} == {"Bound"}, [claim["status"] for claim in found]
    return {claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in found}


async def list_pods(api, namespace):
    return (await api.get(f"/api/v1/namespaces/{namespace}/pods"))["items"]


@pytest.mark.parametrize("way", ["at-once", "one-by-one"])
async def test_statefulset_is_converted_with_same_claims_and_volumes(way, place, api, namespace):
    before = await create_statefulset(api, namespace)
    assert sorted(before) == ["www-web-0", "www-web-1", "www-web-2"]
    await place.run("before")
    await place.run(way)
    assert await bound_volumes(api, namespace) == before, "no claim was made, lost or bound anew"
    found = await list_pods(api, namespace)
    assert sorted(claim for pod in found for claim in claims_of(pod)) == sorted(before)
    assert not {"web-0", "web-1", "web-2"} & set(names(found))
    assert not await api.exists(f"{SETS.format(namespace)}/web")


async def test_statefulcluster_is_converted_back_with_same_volumes(place, api, namespace):
    await create_statefulset(api, namespace)
    await place.run("before")
    await place.run("at-once")
    path = f"/apis/enge.me/v1alpha1/namespaces/{namespace}/statefulclusters/web"
    await api.merge(path, {"metadata": {"annotations": {"enge.me/claim-adoption": "Never"}}})
    gone = (await list_pods(api, namespace))[0]
    await api.delete(f"/api/v1/namespaces/{namespace}/pods/{gone['metadata']['name']}")

    async def assert_replaced():
        found = (await api.get(path))["status"]
        assert found["plan"][0]["reason"] == "AsWanted", found
        assert len(found["claims"]) == 4, found["claims"]
        return await bound_volumes(api, namespace)

    there = await eventually(assert_replaced, within=120)
    assert len(there) == 4, (
        "one claim has a group that is no number, as every group is that was not taken over"
    )
    (unused,) = (await place.run("unused")).split()
    assert unused in claims_of(gone)
    await api.delete(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{unused}")
    kept = {name: volume for name, volume in there.items() if name != unused}
    await place.run("back")
    after = await bound_volumes(api, namespace)
    assert sorted(after) == ["www-web-0", "www-web-1", "www-web-2"]
    assert sorted(after.values()) == sorted(kept.values())
    assert names(await list_pods(api, namespace)) == ["web-0", "web-1", "web-2"]
    for volume in after.values():
        found = await api.get(f"/api/v1/persistentvolumes/{volume}")
        assert found["spec"]["persistentVolumeReclaimPolicy"] == "Delete", "as it was before"
