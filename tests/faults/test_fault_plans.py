"""A part of the fault plans of each kind, chosen evenly; `make faults-all` runs all of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.cluster.api import Api
from kit.fault_plans.campaign import learn, replay_all
from kit.fault_plans.stories import STORIES, Stage
from kit.kinds.controllers import install_crds
from kit.nats.server import NatsServer, a_nats_server
from quintet.kube.client import Client
from quintet.local.cluster import Cluster

QUICK = 6
"""How many plans of a kind `make test` runs."""


@pytest.fixture(scope="module")
async def nats(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with a_nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.mark.timeout(900)
@pytest.mark.parametrize("story", STORIES.values(), ids=lambda story: story.name)
async def test_story_ends_as_without_faults_when_faults_hit_it(
    story, client: Client, api: Api, nats: NatsServer, cluster: Cluster, tmp_path: Path
):
    await install_crds(client)
    stage = Stage(api, client, nats, "")
    reference, plans = await learn(story, stage, cluster.kubeconfig, tmp_path)
    step = max(1, len(plans) // QUICK)
    results = [
        each
        async for each in replay_all(story, plans[::step], reference, stage, cluster.kubeconfig, tmp_path)
    ]
    shown = "\n\n".join(each.violation for each in results if each.violation)
    assert not shown, shown
    assert any(each.hit for each in results), [str(each.plan) for each in results]
