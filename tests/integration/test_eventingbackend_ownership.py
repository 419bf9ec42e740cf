"""A stream and a provisioned NATS server belong to one EventingBackend: theft, blocking and squatting."""

import pytest

from kit.cluster.control_plane import fresh_namespace
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.eventingbackends import (
    an_operator,
    children,
    connect_jetstream,
    create,
    update_config,
    wait_for_reason,
    wait_until_ready,
)
from kit.nats.server import a_nats_server
from quintet.apis.eventingbackend import EVENTINGBACKENDS
from quintet.eventing import streams
from quintet.kube.client import Client
from quintet.nats.config import StreamConfig


@pytest.mark.parametrize("max_messages", [20, 10], ids=["other settings", "equal settings"])
async def test_stream_of_one_backend_is_refused_to_another(
    backend_operator, backends: Client, proxy: FaultProxy, nats, namespace, max_messages
):
    owner = await create(backends, namespace, "owner", url=nats.url, maxMessages=10)
    await wait_until_ready(backends, owner)
    other = await create(backends, namespace, "other", url=nats.url, maxMessages=max_messages)
    found = await wait_for_reason(backends, other, "Stream claimed by another backend")
    assert f"belongs to EventingBackend {owner}" in found.message
    async with connect_jetstream(nats.url) as jetstream:
        with backend_operator.clock.running_fast():
            await proxy.quiet(1.0)
        assert (await jetstream.stream_info("sap")).config.max_msgs == 10, "both backends change the stream"
        await backends.delete(EVENTINGBACKENDS, owner)
        await wait_until_ready(backends, other)
        assert (await jetstream.stream_info("sap")).config.max_msgs == max_messages


async def test_stream_is_refused_to_backend_of_other_namespace(backends: Client, api, cluster, nats):
    async with (
        fresh_namespace(api) as victim,
        fresh_namespace(api) as thief,
        SimulatedNode(api, namespace=victim).running(),
        SimulatedNode(api, namespace=thief).running(),
        an_operator(cluster.kubeconfig),
    ):
        # The thief is older: age must not decide.
        stealing = await create(backends, thief, "a", url="nats://nowhere.invalid:4222")
        await wait_for_reason(backends, stealing, "Server name not resolved")
        owner = await create(backends, victim, "a", url=nats.url)
        await wait_until_ready(backends, owner)
        for entries in ({}, {"maxMessages": 1}, {"streamSubjectPrefix": "other"}):
            await update_config(backends, stealing, url=nats.url, **entries)
            found = await wait_for_reason(backends, stealing, "Stream claimed by another backend")
            assert f"belongs to EventingBackend {owner}" in found.message
        assert ("Deployment", "a-dispatcher") not in await children(backends, thief)
        async with connect_jetstream(nats.url) as jetstream:
            config = (await jetstream.stream_info("sap")).config
        assert (config.max_msgs, config.subjects) == (-1, ("kyma.>",))


async def test_unmarked_stream_is_marked_when_a_backend_uses_it(
    backend_operator, backends: Client, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    async with connect_jetstream(nats.url) as jetstream:

        async def assert_marked() -> None:
            for name in ("sap", "sap-retry", "sap-dead-letter"):
                assert streams.owner_of((await jetstream.stream_info(name)).config) == key

        await assert_marked()
        unmarked = streams.without_owner((await jetstream.stream_info("sap")).config)
        await jetstream.update_stream(unmarked)
        with backend_operator.clock.running_fast():
            await eventually(assert_marked, within=60)


@pytest.mark.parametrize(
    "host", ["victim-nats.{}.svc", "VICTIM-nats.{}", "victim-nats-0.victim-nats.{}.svc.x"]
)
async def test_server_of_one_backend_is_refused_to_others(
    backend_operator, backends: Client, namespace, host
):
    victim = await create(backends, namespace, "victim")
    await wait_for_reason(backends, victim, "Server name not resolved")
    url = f"nats://{host.format(namespace)}:4222"
    thief = await create(backends, namespace, "thief", url=url)
    found = await wait_for_reason(backends, thief, "Server belongs to another backend")
    assert f"EventingBackend {victim}" in found.message


async def test_server_under_two_names_is_recognised_as_one(
    backend_operator, backends: Client, namespace, tmp_path
):
    async with a_nats_server(tmp_path / "everywhere", {"host": "0.0.0.0"}) as server:
        elder = await create(backends, namespace, "elder", url=server.url, maxMessages=10)
        await wait_until_ready(backends, elder)
        alias = f"nats://127.0.0.2:{server.port}"
        younger = await create(backends, namespace, "younger", url=alias, maxMessages=20)
        found = await wait_for_reason(backends, younger, "Stream claimed by another backend")
        assert f"belongs to EventingBackend {elder}" in found.message
        async with connect_jetstream(server.url) as jetstream:
            assert (await jetstream.stream_info("sap")).config.max_msgs == 10


async def test_foreign_stream_is_not_taken_over(backend_operator, backends: Client, nats, namespace):
    async with connect_jetstream(nats.url) as jetstream:
        await jetstream.create_stream(StreamConfig(name="sap", subjects=("theirs.>",)))
        key = await create(backends, namespace, "any", url=nats.url)
        found = await wait_for_reason(backends, key, "Stream claimed by another backend")
        assert "does not belong to an EventingBackend" in found.message
        assert (await jetstream.stream_info("sap")).config.subjects == ("theirs.>",)
