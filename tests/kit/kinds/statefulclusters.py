"""StatefulClusters on a real API server: CRD, controller and wait functions.

Where pods must start, `kit.cluster.simulated_node.SimulatedNode` writes their status.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from kit.cluster.api import Api
from kit.cluster.service_accounts import context as context_of
from kit.eventually import eventually
from kit.kinds.controllers import install_crds, run_controllers
from quintet.apis.meta import Condition, JsonObject, Object, ObjectKey, Resource, find_condition
from quintet.apis.statefulcluster import STATEFULCLUSTER, STATEFULCLUSTERS, StatefulCluster
from quintet.controllers.statefulcluster import controller
from quintet.controllers.statefulcluster.decide.desired import CLAIMS, PODS, REVISIONS
from quintet.kube.client import Client
from quintet.runtime.manager import Manager

CONTEXT = context_of("statefulcluster")
LABELS = {"app": "web"}


async def install(client: Client) -> None:
    """Install the CRD."""
    await install_crds(client, STATEFULCLUSTER)


def a_cluster(
    name: str = "web", *, image: str = "web:1", claims: tuple[str, ...] = ("data",), **spec: Any
) -> JsonObject:
    """A StatefulCluster with the fields of a StatefulSet."""
    return {
        "apiVersion": STATEFULCLUSTERS.api_version,
        "kind": STATEFULCLUSTERS.kind,
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": {**LABELS, "tier": "back"}, "annotations": {"note": "kept"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "main", "image": image}],
                    "volumes": [{"name": "scratch", "emptyDir": {}}],
                },
            },
            "volumeClaimTemplates": [a_claim_template(name) for name in claims],
            **spec,
        },
    }


def a_claim_template(name: str, size: str = "1Mi") -> JsonObject:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "by-hand",
            "resources": {"requests": {"storage": size}},
        },
    }


@contextlib.asynccontextmanager
async def a_storage_class(api: Api, name: str, **fields: Any) -> AsyncIterator[str]:
    """Create a storage class without provisioner, yield its path, and delete it."""
    path = "/apis/storage.k8s.io/v1/storageclasses"
    await api.create(path, {"metadata": {"name": name}, "provisioner": "nobody", **fields})
    try:
        yield f"{path}/{name}"
    finally:
        await api.delete(f"{path}/{name}")


@contextlib.asynccontextmanager
async def statefulcluster_operator(
    kubeconfig: Path, *, context: str | None = CONTEXT, **options: Any
) -> AsyncIterator[Manager]:
    """Run the controller in this process while inside."""
    async with run_controllers(kubeconfig, controller.build, context=context, **options) as manager:
        yield manager


async def create(client: Client, namespace: str, **spec: Any) -> ObjectKey:
    """Create the StatefulCluster that `a_cluster` returns."""
    body = a_cluster(**spec)
    await client.create(STATEFULCLUSTERS, body, Object, namespace=namespace)
    return ObjectKey(namespace, body["metadata"]["name"])


async def update_spec(client: Client, key: ObjectKey, **spec: Any) -> None:
    await client.patch(STATEFULCLUSTERS, key, {"spec": spec}, Object)


async def get(client: Client, key: ObjectKey) -> StatefulCluster:
    return await client.get(STATEFULCLUSTERS, key, StatefulCluster)


async def wait_until_settled(client: Client, key: ObjectKey, within: float = 120.0) -> StatefulCluster:
    """Wait until the status reports that the current spec is reached, and return the StatefulCluster."""

    async def probe() -> StatefulCluster:
        cluster = await get(client, key)
        status = cluster.status
        assert status.observed_generation == cluster.metadata.generation, status
        assert [step.reason for step in status.plan][:1] == ["AsWanted"], status
        return cluster

    return await eventually(probe, within=within)


async def wait_for_condition(
    client: Client, key: ObjectKey, kind: str, status: str, within: float = 60.0, *, says: str = ""
) -> Condition:
    """Wait for a condition of the current generation with this status and reason, and return it."""

    async def probe() -> Condition:
        cluster = await get(client, key)
        assert cluster.status.observed_generation == cluster.metadata.generation, cluster.status
        found = find_condition(cluster.status.conditions, kind)
        assert found is not None, cluster.status
        assert found.status == status, cluster.status
        assert says in found.message, cluster.status
        return found

    return await eventually(probe, within=within)


async def list_objects(
    client: Client, resource: Resource, namespace: str, labels: str = ""
) -> list[JsonObject]:
    """Return all objects of a type in a namespace, sorted by name."""
    pages = client.pages(resource, namespace=namespace, labels=labels)
    found = [msgspec.json.decode(item) async for page in pages for item in page.items]
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


async def list_pods(client: Client, namespace: str) -> list[JsonObject]:
    return await list_objects(client, PODS, namespace)


async def list_claims(client: Client, namespace: str) -> list[JsonObject]:
    return await list_objects(client, CLAIMS, namespace)


async def list_revisions(client: Client, namespace: str) -> list[JsonObject]:
    return await list_objects(client, REVISIONS, namespace)


def names(objects: list[JsonObject]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


def claims_of(pod: JsonObject) -> list[str]:
    """Return the names of the claims that a pod mounts."""
    volumes = pod["spec"]["volumes"]
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]
