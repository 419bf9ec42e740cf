"""Changes of a backend's configuration while publishers send events as fast as they get answers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.cluster.api import Api
from kit.kinds.eventing_world import World, run_world
from kit.kinds.subscriptions import install
from kit.nats.server import a_nats_server
from quintet.kube.client import Client
from quintet.local.cluster import Cluster

PLAIN, COMPLETE = "order.created.v1", "sap.kyma.custom.shop.order.paid.v1"
REPLICAS = {"publisherReplicas": 1, "dispatcherReplicas": 1}


@pytest.fixture
async def world(
    client: Client, api: Api, cluster: Cluster, namespace: str, tmp_path: Path
) -> AsyncIterator[World]:
    await install(client)
    async with (
        a_nats_server(tmp_path / "nats") as server,
        run_world(client, api, cluster, namespace, server) as world,
    ):
        yield world


@pytest.mark.parametrize(
    "change",
    [
        {"streamSubjectPrefix": "moved"},
        {"eventTypePrefix": "other"},
        {"streamSubjectPrefix": "kyma.inner", "eventTypePrefix": "order"},
    ],
    ids=["subject prefix", "event type prefix", "both"],
)
async def test_acknowledged_events_arrive_when_prefixes_change_under_load(
    world: World, change: dict[str, str]
):
    await world.subscribe("orders", PLAIN, COMPLETE)
    async with world.load(PLAIN, COMPLETE):
        await world.configure(**REPLICAS, **change)
        await world.configure(**REPLICAS)
    assert len(world.acknowledged) > 20, world.refusals
    await world.check()
