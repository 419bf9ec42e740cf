"""StatefulClusters on a real API server: their definition, their operator, and how to look at them.

There is no node; where pods must start, `kit.cluster.simulated_node.SimulatedNode` says of them what a kubelet would.
`kit.faults.operator_main` runs the operator alone, to be killed.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from kit.cluster.api import Api
from kit.cluster.service_accounts import context as context_of
from kit.eventually import eventually
from kit.kinds.controllers import define, operating
from quintet.apis.meta import Condition, JsonObject, Object, ObjectKey, Resource, find_condition
from quintet.apis.statefulcluster import STATEFULCLUSTER, STATEFULCLUSTERS, StatefulCluster
from quintet.controllers.statefulcluster import controller
from quintet.controllers.statefulcluster.decide.desired import CLAIMS, PODS, REVISIONS
from quintet.kube.client import Client
from quintet.runtime.manager import Manager

CONTEXT = context_of("statefulcluster")
LABELS = {"app": "web"}


async def install(client: Client) -> None:
    """Make the API server serve StatefulClusters."""
    await define(client, STATEFULCLUSTER)


def a_cluster(
    name: str = "web", *, image: str = "web:1", claims: tuple[str, ...] = ("data",), **spec: Any
) -> JsonObject:
    """As a StatefulSet would be written."""
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
    """A storage class for which nobody makes volumes, and its path; gone afterwards."""
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
    """An operator in this process, stopped on the way out."""
    async with operating(kubeconfig, controller.build, context=context, **options) as manager:
        yield manager


async def create(client: Client, namespace: str, **spec: Any) -> ObjectKey:
    """Make one, as `a_cluster` writes it."""
    body = a_cluster(**spec)
    await client.create(STATEFULCLUSTERS, body, Object, namespace=namespace)
    return ObjectKey(namespace, body["metadata"]["name"])


async def change(client: Client, key: ObjectKey, **spec: Any) -> None:
    await client.patch(STATEFULCLUSTERS, key, {"spec": spec}, Object)


async def get(client: Client, key: ObjectKey) -> StatefulCluster:
    return await client.get(STATEFULCLUSTERS, key, StatefulCluster)


async def settled(client: Client, key: ObjectKey, within: float = 120.0) -> StatefulCluster:
    """The cluster, once its status says that everything is as the current spec wants it."""

    async def probe() -> StatefulCluster:
        cluster = await get(client, key)
        status = cluster.status
        assert status.observed_generation == cluster.metadata.generation, status
        assert [step.reason for step in status.plan][:1] == ["AsWanted"], status
        return cluster

    return await eventually(probe, within=within)


async def condition(
    client: Client, key: ObjectKey, kind: str, status: str, within: float = 60.0, *, says: str = ""
) -> Condition:
    """A condition, once it is so for the current spec, and for this reason."""

    async def probe() -> Condition:
        cluster = await get(client, key)
        assert cluster.status.observed_generation == cluster.metadata.generation, cluster.status
        found = find_condition(cluster.status.conditions, kind)
        assert found is not None, cluster.status
        assert found.status == status, cluster.status
        assert says in found.message, cluster.status
        return found

    return await eventually(probe, within=within)


async def listed(client: Client, resource: Resource, namespace: str, labels: str = "") -> list[JsonObject]:
    """All objects of a type in a namespace, by name."""
    pages = client.pages(resource, namespace=namespace, labels=labels)
    found = [msgspec.json.decode(item) async for page in pages for item in page.items]
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


async def pods(client: Client, namespace: str) -> list[JsonObject]:
    return await listed(client, PODS, namespace)


async def claims(client: Client, namespace: str) -> list[JsonObject]:
    return await listed(client, CLAIMS, namespace)


async def revisions(client: Client, namespace: str) -> list[JsonObject]:
    return await listed(client, REVISIONS, namespace)


def names(objects: list[JsonObject]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


def claims_of(pod: JsonObject) -> list[str]:
    """The names of the claims that a pod mounts."""
    volumes = pod["spec"]["volumes"]
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]
