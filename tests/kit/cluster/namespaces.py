"""Clears the namespaces of finished tests without deleting them.

Deleting a namespace takes the namespace controller a hundred requests; for all tests together that is a quarter of a
run's CPU. Objects that keep controllers busy are deleted with few requests for all namespaces together; the others
stay. In namespaces that a test deleted, finalizers are removed, because the operator of the test no longer runs.
`kit.cluster.control_plane.fresh_namespace` labels the namespaces of finished tests.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import aiohttp

from kit.cluster.api import Api, JsonObject, RefusedError
from kit.kinds.widgets import WIDGETS
from quintet.apis.meta import Resource
from quintet.components import CUSTOM_RESOURCES

MARK = "test.quintet.dev/over"
OVER, CLEARED = {MARK: "yes"}, {MARK: "cleared"}
KINDS = (WIDGETS, *(kind.resource for kind in CUSTOM_RESOURCES if kind.resource.namespaced))
# Owners come before the objects that they create.
BUSY = (
    Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    Resource("batch", "v1", "CronJob", "cronjobs"),
    Resource("batch", "v1", "Job", "jobs"),
    Resource("apps", "v1", "Deployment", "deployments"),
    Resource("apps", "v1", "StatefulSet", "statefulsets"),
    Resource("apps", "v1", "DaemonSet", "daemonsets"),
    Resource("apps", "v1", "ReplicaSet", "replicasets"),
    Resource("", "v1", "Pod", "pods"),
    Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    Resource("", "v1", "Service", "services"),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
)
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PAUSE = 3.0


async def clear_finished_namespaces(api: Api) -> None:
    """Clear the namespaces of finished tests until cancelled."""
    while True:
        await asyncio.sleep(PAUSE)
        # Some tests kill the API server.
        with suppress(RefusedError, aiohttp.ClientError, TimeoutError):
            listed = await api.get("/api/v1/namespaces", labelSelector=f"{MARK}={OVER[MARK]}")
            over = {each["metadata"]["name"]: each for each in listed["items"]}
            if over:
                await _delete_objects(api, over)
                for name, each in over.items():
                    if "deletionTimestamp" not in each["metadata"]:
                        await api.merge(f"/api/v1/namespaces/{name}", {"metadata": {"labels": CLEARED}})


async def _delete_objects(api: Api, namespaces: Iterable[str]) -> None:
    """Delete the objects that controllers would keep reconciling."""
    chosen = set(namespaces)
    for resource in (*KINDS, *BUSY):
        with suppress(RefusedError):  # not every CRD is installed, and objects may disappear
            found = [each for each in await _list_metadata(api, resource) if each["namespace"] in chosen]
            for each in found:
                if resource in KINDS and each.get("finalizers"):
                    path = resource.path(each["namespace"], each["name"])
                    with suppress(RefusedError):
                        await api.merge(path, {"metadata": {"finalizers": None}})
            for namespace in {each["namespace"] for each in found}:
                await api.delete(
                    resource.path(namespace), propagationPolicy="Background", gracePeriodSeconds="0"
                )


async def _list_metadata(api: Api, resource: Resource) -> list[JsonObject]:
    """Return the metadata of all objects of a type."""
    async with api.session.get(api.server + resource.path(), headers={"Accept": METADATA}) as answer:
        if answer.status >= 400:
            raise RefusedError(answer.status, await answer.text())
        listed = await answer.json()
    return [each["metadata"] for each in listed["items"] or ()]
