"""One control plane per test run and one namespace per test.

The state of the cluster is in a folder of the test run, so that a run never touches clusters that a user started.
"""

import os
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from kit.cluster import service_accounts
from kit.cluster.api import Api, RefusedError
from kit.cluster.namespaces import OVER
from kit.eventually import eventually
from kit.permissions.audit_logs import copy_audit_log, is_recording
from quintet.local.cluster import Cluster, down, down_all, up

GONE_OR_GOING = (404, 409)


@contextmanager
def control_plane(state: Path) -> Iterator[Cluster]:
    """Run a control plane while inside."""
    name = f"test-{os.getpid()}"
    with _state_in(state):
        cluster = up(name, audited=is_recording())
    try:
        service_accounts.install(cluster)
        yield cluster
    finally:
        copy_audit_log(cluster)
        with _state_in(state):
            down(name)


def stop_clusters_of_workers(base: Path) -> None:
    """Stop the clusters of killed pytest workers; `base` is the temporary folder of the run."""
    for clusters in base.glob("popen-*/*/quintet/clusters"):
        with _state_in(clusters.parents[1]):
            down_all()


@contextmanager
def cluster_with_nodes(
    name: str, state: Path, nodes: int = 1, zones: Sequence[str] = ()
) -> Iterator[Cluster]:
    """Run a cluster with real nodes while inside; its folder is below `state`."""
    with _state_in(state):
        cluster = up(name, nodes=nodes, zones=zones, audited=is_recording())
        try:
            yield cluster
        finally:
            copy_audit_log(cluster)
            down(name)


@asynccontextmanager
async def fresh_namespace(api: Api, prefix: str = "test") -> AsyncIterator[str]:
    """Create a namespace; `kit.cluster.namespaces` clears it afterwards unless the test deleted it."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        # A controller creates it; until then pods without a ServiceAccount are rejected.
        await eventually(lambda: api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"), within=120)
        yield name
    finally:
        try:
            await api.merge(f"/api/v1/namespaces/{name}", {"metadata": {"labels": OVER}})
        except RefusedError as refusal:
            if refusal.code not in GONE_OR_GOING:
                raise


async def wait_for_crds(cluster: Cluster) -> None:
    """Wait until the API server serves every kind that has a CRD."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    async def served(api: Api) -> None:
        for each in (await api.get(path))["items"]:
            spec = each["spec"]
            if "deletionTimestamp" not in each["metadata"]:
                version = next(version["name"] for version in spec["versions"] if version["served"])
                group = f"/apis/{spec['group']}/{version}"
                found = {each["name"] for each in (await api.get(group))["resources"]}
                assert spec["names"]["plural"] in found, f"{spec['names']['plural']} is not served yet"
                await api.get(f"{group}/{spec['names']['plural']}", limit="1")

    async with Api.connect(cluster.kubeconfig) as api:
        await eventually(lambda: served(api), within=60)


@contextmanager
def _state_in(directory: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(directory))
        yield
