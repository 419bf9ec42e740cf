"""The operator dies, or an answer is lost, at any write of a backend's life.

Whatever is hit: the same objects, none made twice, ready in the end, and nothing left after the deletion.
`kit.faults.scenarios` says which writes are hit on which level. NATS is real; the pods are made ready by a simulated node.
"""

import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kit.background import meanwhile
from kit.cli.quintet import COMMAND
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.cluster.objects import exists
from kit.cluster.service_accounts import context
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.faults.proxy import Before, FaultProxy, anything, matching
from kit.faults.proxy.requests import Predicate
from kit.faults.scenarios import (
    ANSWER_LOST,
    ESSENTIAL,
    KILLED_AFTER,
    KILLED_BEFORE,
    PATIENCE,
    TROUBLE,
    explaining,
    hit_by,
    keep_running,
    side_by_side,
    until_hit,
)
from kit.kinds.eventingbackends import change, children, create, get, jetstream_of, ready, resources
from kit.nats.server import NatsServer, a_nats_server
from kit.process import Program
from quintet.apis.eventingbackend import EVENTINGBACKENDS
from quintet.apis.meta import ObjectKey
from quintet.kube.client import Client
from quintet.kube.errors import NotFound

NAME = "bus"
WANTED = {
    f"{kind}/{NAME}-{part}"
    for part, kinds in {
        "publisher-proxy": ("Deployment", "Service", "PodDisruptionBudget"),
        "dispatcher": (
            "Deployment", "Service", "PodDisruptionBudget", "ServiceAccount", "Role", "RoleBinding"
        ),
    }.items()
    for kind in kinds
}  # fmt: skip


@contextlib.asynccontextmanager
async def an_operator(kubeconfig: Path, namespace: str) -> AsyncIterator[Program]:
    """`quintet run`, killed on the way out."""
    program = Program(
        str(COMMAND), "run", "--controllers", "eventing", "--kubeconfig", str(kubeconfig),
        "--namespace", namespace, "--health-address", "127.0.0.1:0", "--discovery-address", "127.0.0.1:0",
        "--context", context("eventing"), "--no-leader-elect", "--eventing-allowed-networks", "127.0.0.0/8",
    )  # fmt: skip
    await program.start()
    try:
        yield program
    finally:
        program.signal(signal.SIGCONT)
        program.kill()
        await program.ended()


@pytest.fixture(scope="module")
async def nats(tmp_path_factory) -> AsyncIterator[NatsServer]:
    async with a_nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


def its_stream(namespace: str, nats: NatsServer) -> dict[str, Any]:
    """A stream for each namespace on the one server; small and with few pods, because there are many runs."""
    places = {"url": nats.url, "streamName": namespace, "streamSubjectPrefix": namespace}
    return {**places, "maxBytes": "1Mi", "publisherReplicas": 1, "dispatcherReplicas": 1}


async def tell(client: Client, namespace: str, nats: NatsServer) -> None:
    """The story: a backend is made, changed and deleted."""
    stream = its_stream(namespace, nats)
    key = await create(client, namespace, NAME, **stream, maxMessages=10)
    await ready(client, key, within=PATIENCE)
    await change(client, key, **stream, maxMessages=20, publisherRequestTimeout="9s")
    await ready(client, key, within=PATIENCE)
    assert resources(await children(client, namespace)) == WANTED
    async with jetstream_of(nats.url) as jetstream:
        assert (await jetstream.stream_info(namespace)).config.max_msgs == 20
    await client.delete(EVENTINGBACKENDS, key)
    await nothing_left(client, namespace)


async def nothing_left(client: Client, namespace: str) -> None:
    async def gone() -> None:
        assert not await exists(client, EVENTINGBACKENDS, ObjectKey(namespace, NAME))
        assert await children(client, namespace) == {}

    await eventually(gone, within=PATIENCE)


@contextlib.asynccontextmanager
async def a_stage(
    api: Api, kubeconfig: Path, scratch: Path
) -> AsyncIterator[tuple[str, FaultProxy, Program]]:
    """A namespace with an operator behind a proxy, and a node that pretends."""
    async with (
        fresh_namespace(api) as namespace,
        SimulatedNode(api, namespace=namespace).running(),
        FaultProxy(kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(scratch), namespace) as operator,
        meanwhile(keep_running(operator)),
    ):
        yield namespace, proxy, operator


@pytest.fixture(scope="module")
async def writes(backends: Client, nats, cluster, tmp_path_factory) -> int:
    """How many writes the story takes when nothing goes wrong."""
    scratch = tmp_path_factory.mktemp("reference")
    async with (
        Api.connect(cluster.kubeconfig) as api,
        a_stage(api, cluster.kubeconfig, scratch) as (namespace, proxy, _),
    ):
        await tell(backends, namespace, nats)
        await proxy.quiet(0.5)
        made = [e for e in proxy.trace.writes() if e.request.verb == "create" and e.status == 201]
        assert len(made) == len(WANTED), f"\n{proxy.trace}"
        return len(proxy.trace.writes())


async def tell_with(
    fault: str,
    at_write: int | None,
    client: Client,
    nats: NatsServer,
    api: Api,
    kubeconfig: Path,
    scratch: Path,
) -> None:
    async with (
        a_stage(api, kubeconfig, scratch) as (namespace, proxy, operator),
        hit_by(fault, proxy, operator, at_write=at_write),
    ):
        await tell(client, namespace, nats)
        made = [e for e in proxy.trace.writes() if e.request.verb == "create" and e.status == 201]
        assert len(made) == len(WANTED), "something was made twice"


@pytest.mark.timeout(1800)
async def test_eventingbackend_reaches_same_final_state_when_first_write_of_each_type_fails(
    backends: Client, nats, cluster, api, tmp_path
):
    async def told(fault: str) -> None:
        await tell_with(fault, None, backends, nats, api, cluster.kubeconfig, tmp_path)

    await side_by_side(ESSENTIAL, told)


# To be refused is to have written nothing, and a lost answer is a kill after the commit without the kill.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, ANSWER_LOST: 2, TROUBLE: 4}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_eventingbackend_reaches_same_final_state_when_any_write_fails(
    fault, writes, backends: Client, nats, cluster, api, tmp_path
):
    async def told(number: int) -> None:
        await tell_with(fault, number, backends, nats, api, cluster.kubeconfig, tmp_path)

    await side_by_side(range(1, writes + 1, EVERY[fault]), told)


async def delete_before(
    when: Predicate,
    at_write: int | None,
    client: Client,
    nats: NatsServer,
    api: Api,
    kubeconfig: Path,
    scratch: Path,
) -> None:
    """Delete the backend just before a write of its story; nothing may be left."""
    async with a_stage(api, kubeconfig, scratch) as (namespace, proxy, operator):
        key = ObjectKey(namespace, NAME)

        async def delete() -> None:
            with contextlib.suppress(NotFound):
                await client.delete(EVENTINGBACKENDS, key)

        injected = proxy.inject(Before(delete), when=when, at_write=at_write)
        with explaining(f"deleted before write {at_write or 'of the given type'}", proxy, operator):
            await until_hit(injected, tell(client, namespace, nats))
            await delete()
            await nothing_left(client, namespace)


@pytest.mark.timeout(1800)
async def test_eventingbackend_deleted_while_its_objects_are_created_leaves_no_objects(
    backends: Client, nats, cluster, api, tmp_path
):
    when = matching("create", "deployments")
    await delete_before(when, None, backends, nats, api, cluster.kubeconfig, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_eventingbackend_deleted_at_any_write_leaves_no_objects(
    writes, backends: Client, nats, cluster, api, tmp_path
):
    async def told(number: int) -> None:
        await delete_before(anything, number, backends, nats, api, cluster.kubeconfig, tmp_path)

    await side_by_side(range(1, writes + 1, 3), told)


async def test_restarted_operator_writes_nothing_for_ready_eventingbackend(
    backends: Client, nats, cluster, api, tmp_path
):
    async with a_stage(api, cluster.kubeconfig, tmp_path) as (namespace, proxy, operator):
        key = await create(backends, namespace, NAME, **its_stream(namespace, nats))
        await ready(backends, key, within=PATIENCE)
        await proxy.quiet(1.0)
        before, mark = await get(backends, key), proxy.trace.mark()
        operator.kill()

        def started_again() -> None:
            assert sum("Caches synced" in line for line in operator.log) == 2, "\n".join(operator.log)

        await eventually(started_again, within=120)
        await proxy.quiet(3.0)
        writes = proxy.trace.writes(since=mark)
        assert writes == [], "\n".join(map(str, writes))
        assert (await get(backends, key)).status == before.status
