"""The operator is killed or a response is lost at any write in the life of an EventingBackend.

Whichever write is hit, the same objects exist once, the backend becomes ready, and nothing is left after its deletion.
`kit.faults.scenarios` defines which writes are hit. NATS is real; a simulated node makes the pods ready.
"""

import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kit.background import run_in_background
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
    ESSENTIAL,
    KILLED_AFTER,
    KILLED_BEFORE,
    PATIENCE,
    RESPONSE_LOST,
    UNAVAILABLE,
    add_diagnostics,
    inject_at_write,
    keep_running,
    run_concurrently,
    run_until_hit,
)
from kit.kinds.eventingbackends import (
    children,
    connect_jetstream,
    create,
    get,
    kinds_and_names,
    update_config,
    wait_until_ready,
)
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
    """Run `quintet run` while inside and kill it afterwards."""
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


def stream_config(namespace: str, nats: NatsServer) -> dict[str, Any]:
    """Return the config of a small stream per namespace on the shared server."""
    places = {"url": nats.url, "streamName": namespace, "streamSubjectPrefix": namespace}
    return {**places, "maxBytes": "1Mi", "publisherReplicas": 1, "dispatcherReplicas": 1}


async def run_scenario(client: Client, namespace: str, nats: NatsServer) -> None:
    """Create, change and delete an EventingBackend."""
    stream = stream_config(namespace, nats)
    key = await create(client, namespace, NAME, **stream, maxMessages=10)
    await wait_until_ready(client, key, within=PATIENCE)
    await update_config(client, key, **stream, maxMessages=20, publisherRequestTimeout="9s")
    await wait_until_ready(client, key, within=PATIENCE)
    assert kinds_and_names(await children(client, namespace)) == WANTED
    async with connect_jetstream(nats.url) as jetstream:
        assert (await jetstream.stream_info(namespace)).config.max_msgs == 20
    await client.delete(EVENTINGBACKENDS, key)
    await assert_nothing_left(client, namespace)


async def assert_nothing_left(client: Client, namespace: str) -> None:
    async def assert_gone() -> None:
        assert not await exists(client, EVENTINGBACKENDS, ObjectKey(namespace, NAME))
        assert await children(client, namespace) == {}

    await eventually(assert_gone, within=PATIENCE)


@contextlib.asynccontextmanager
async def an_environment(
    api: Api, kubeconfig: Path, scratch: Path
) -> AsyncIterator[tuple[str, FaultProxy, Program]]:
    """Create a namespace with an operator behind a proxy and a simulated node."""
    async with (
        fresh_namespace(api) as namespace,
        SimulatedNode(api, namespace=namespace).running(),
        FaultProxy(kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(scratch), namespace) as operator,
        run_in_background(keep_running(operator)),
    ):
        yield namespace, proxy, operator


@pytest.fixture(scope="module")
async def writes(backends: Client, nats, cluster, tmp_path_factory) -> int:
    """Return the number of writes of the scenario without faults."""
    scratch = tmp_path_factory.mktemp("reference")
    async with (
        Api.connect(cluster.kubeconfig) as api,
        an_environment(api, cluster.kubeconfig, scratch) as (namespace, proxy, _),
    ):
        await run_scenario(backends, namespace, nats)
        await proxy.quiet(0.5)
        made = [e for e in proxy.trace.writes() if e.request.verb == "create" and e.status == 201]
        assert len(made) == len(WANTED), f"\n{proxy.trace}"
        return len(proxy.trace.writes())


async def run_with_fault(
    fault: str,
    at_write: int | None,
    client: Client,
    nats: NatsServer,
    api: Api,
    kubeconfig: Path,
    scratch: Path,
) -> None:
    async with (
        an_environment(api, kubeconfig, scratch) as (namespace, proxy, operator),
        inject_at_write(fault, proxy, operator, at_write=at_write),
    ):
        await run_scenario(client, namespace, nats)
        made = [e for e in proxy.trace.writes() if e.request.verb == "create" and e.status == 201]
        assert len(made) == len(WANTED), "an object was created twice"


@pytest.mark.timeout(1800)
async def test_eventingbackend_reaches_same_final_state_when_first_write_of_each_type_fails(
    backends: Client, nats, cluster, api, tmp_path
):
    async def run_case(fault: str) -> None:
        await run_with_fault(fault, None, backends, nats, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(ESSENTIAL, run_case)


# A rejected write changes nothing; a lost response equals a kill after the commit without the kill.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, RESPONSE_LOST: 2, UNAVAILABLE: 4}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_eventingbackend_reaches_same_final_state_when_any_write_fails(
    fault, writes, backends: Client, nats, cluster, api, tmp_path
):
    async def run_case(number: int) -> None:
        await run_with_fault(fault, number, backends, nats, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(range(1, writes + 1, EVERY[fault]), run_case)


async def delete_before(
    when: Predicate,
    at_write: int | None,
    client: Client,
    nats: NatsServer,
    api: Api,
    kubeconfig: Path,
    scratch: Path,
) -> None:
    """Delete the backend just before a write of the scenario; nothing may be left."""
    async with an_environment(api, kubeconfig, scratch) as (namespace, proxy, operator):
        key = ObjectKey(namespace, NAME)

        async def delete() -> None:
            with contextlib.suppress(NotFound):
                await client.delete(EVENTINGBACKENDS, key)

        injected = proxy.inject(Before(delete), when=when, at_write=at_write)
        with add_diagnostics(f"deleted before write {at_write or 'of the given type'}", proxy, operator):
            await run_until_hit(injected, run_scenario(client, namespace, nats))
            await delete()
            await assert_nothing_left(client, namespace)


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
    async def run_case(number: int) -> None:
        await delete_before(anything, number, backends, nats, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(range(1, writes + 1, 3), run_case)


async def test_restarted_operator_writes_nothing_for_ready_eventingbackend(
    backends: Client, nats, cluster, api, tmp_path
):
    async with an_environment(api, cluster.kubeconfig, tmp_path) as (namespace, proxy, operator):
        key = await create(backends, namespace, NAME, **stream_config(namespace, nats))
        await wait_until_ready(backends, key, within=PATIENCE)
        await proxy.quiet(1.0)
        before, mark = await get(backends, key), proxy.trace.mark()
        operator.kill()

        def assert_started_again() -> None:
            assert sum("Caches synced" in line for line in operator.log) == 2, "\n".join(operator.log)

        await eventually(assert_started_again, within=120)
        await proxy.quiet(3.0)
        writes = proxy.trace.writes(since=mark)
        assert writes == [], "\n".join(map(str, writes))
        assert (await get(backends, key)).status == before.status
