"""The API server fails at any write of a Subscription's life; the end is the same each time.

There is one consumer as long as there is a Subscription, and none afterwards. `kit.faults.scenarios` says which writes are
hit on which level.
"""

import itertools
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.faults.proxy import Answer, DropReply, FaultProxy
from kit.faults.scenarios import hit_by, side_by_side
from kit.kinds.subscriptions import STREAM, Scene, a_scene, install, subscription_operator
from kit.nats.server import NatsServer, a_nats_server
from quintet.apis.meta import Object
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.controllers.subscription import controller
from quintet.eventing.decide.naming import consumer_name
from quintet.kube.client import Client
from quintet.kube.errors import NotFound
from quintet.local.cluster import Cluster

FAULTS = {
    "the answer is lost": DropReply,
    "refused with a conflict": lambda: Answer(409, "Conflict"),
    "refused for overload": lambda: Answer(429, "TooManyRequests", retry_after=1),
    "refused by a server in trouble": lambda: Answer(503, "ServiceUnavailable"),
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "LOOK_SOON", 0.3)


@asynccontextmanager
async def a_stage(
    client: Client, cluster: Cluster, server: NatsServer, folder: Path
) -> AsyncIterator[tuple[Scene, FaultProxy]]:
    async with (
        Api.connect(cluster.kubeconfig) as api,
        fresh_namespace(api) as namespace,
        FaultProxy(cluster.kubeconfig) as proxy,
        a_scene(client, namespace, server, cluster.kubeconfig) as scene,
        subscription_operator(proxy.write_kubeconfig(folder), scene),
    ):
        yield scene, proxy


async def tell(scene: Scene) -> None:
    """The story: a Subscription is made, changed and deleted."""
    made = await scene.subscribe()
    await scene.found("orders", "DispatcherNotPulling")
    name = consumer_name(made.metadata)
    before = await scene.jetstream.consumer_info(STREAM, name)
    await scene.change("orders", config={"maxInFlightMessages": 3})
    await scene.found("orders", "DispatcherNotPulling")
    after = await scene.jetstream.consumer_info(STREAM, name)
    assert after.config is not None
    assert (after.config.max_ack_pending, after.created) == (3, before.created)
    await scene.client.delete(SUBSCRIPTIONS, made.key)

    async def gone() -> None:
        try:
            seen = await scene.client.get(SUBSCRIPTIONS, made.key, Object)
        except NotFound:
            assert [each.name for each in await scene.jetstream.consumers(STREAM)] == []
            return
        raise AssertionError(f"it is still there: {seen}")

    await eventually(gone, within=60)


async def tell_with(fault: str, at_write: int | None, client: Client, cluster: Cluster, folder: Path) -> None:
    """Tell the story on a NATS server of its own: its stream has the same name in every scene."""
    with tempfile.TemporaryDirectory(dir=folder) as store:
        async with (
            a_nats_server(Path(store)) as server,
            a_stage(client, cluster, server, folder) as (scene, proxy),
            hit_by(FAULTS[fault](), proxy, at_write=at_write),
        ):
            await tell(scene)


@pytest.fixture(scope="module")
async def writes(client: Client, cluster: Cluster, tmp_path_factory) -> int:
    """How many writes the story takes when nothing goes wrong."""
    folder = tmp_path_factory.mktemp("reference")
    await install(client)
    async with (
        a_nats_server(folder / "nats") as server,
        a_stage(client, cluster, server, folder) as (scene, proxy),
    ):
        await tell(scene)
        await proxy.quiet(0.5)
        assert len(proxy.trace.writes()) >= 4, "finalizer, status, status, finalizer"
        return len(proxy.trace.writes())


async def test_subscription_reaches_same_final_state_when_first_write_of_each_type_fails(
    client: Client, cluster: Cluster, tmp_path: Path
):
    await install(client)
    await side_by_side(FAULTS, lambda fault: tell_with(fault, None, client, cluster, tmp_path))


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
async def test_subscription_reaches_same_final_state_when_any_write_fails(
    writes: int, client: Client, cluster: Cluster, tmp_path: Path
):
    async def told(case: tuple[str, int]) -> None:
        await tell_with(*case, client, cluster, tmp_path)

    await side_by_side(itertools.product(FAULTS, range(1, writes + 1)), told)
