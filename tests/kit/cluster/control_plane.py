"""One control plane for a whole test run, and a namespace for each test.

Used by the fixtures in `conftest`. The state of the cluster lies in a folder of this run alone,
so a test run neither sees nor disturbs clusters that a person has started.
"""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from kit.cluster import service_accounts
from kit.cluster.api import Api, RefusedError
from kit.cluster.namespaces import OVER
from kit.eventually import eventually
from kit.permissions.audit_logs import keep, recording
from quintet.local.cluster import Cluster, down, down_all, up

GONE_OR_GOING = (404, 409)


@contextmanager
def control_plane(state: Path) -> Iterator[Cluster]:
    """A control plane that is gone afterwards, whatever happens inside."""
    name = f"test-{os.getpid()}"
    with _state_in(state):
        cluster = up(name, audited=recording())
    try:
        service_accounts.install(cluster)
        yield cluster
    finally:
        keep(cluster)
        with _state_in(state):
            down(name)


def stop_clusters_of_workers(base: Path) -> None:
    """Stop the clusters that killed workers left behind; `base` is the temporary folder of the run."""
    for clusters in base.glob("popen-*/*/quintet/clusters"):
        with _state_in(clusters.parents[1]):
            down_all()


@contextmanager
def cluster_with_a_node(name: str, state: Path) -> Iterator[Cluster]:
    """A cluster of one's own, for tests that change all of it."""
    with _state_in(state):
        cluster = up(name, node=True, audited=recording())
        try:
            yield cluster
        finally:
            keep(cluster)
            down(name)


@asynccontextmanager
async def fresh_namespace(api: Api, prefix: str = "test") -> AsyncIterator[str]:
    """A namespace of one's own; `kit.cluster.namespaces` clears it afterwards, unless the test has deleted it."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        # Made by a controller: until it is there, pods without an account of their own are refused.
        await eventually(lambda: api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"), within=120)
        yield name
    finally:
        try:
            await api.merge(f"/api/v1/namespaces/{name}", {"metadata": {"labels": OVER}})
        except RefusedError as refusal:
            if refusal.code not in GONE_OR_GOING:
                raise


async def definitions_served(cluster: Cluster) -> None:
    """Wait until the API server serves every kind that it has a definition of."""
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
