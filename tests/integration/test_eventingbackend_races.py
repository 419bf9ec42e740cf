"""EventingBackends when things happen at the same moment, half-way, or while nobody expects them."""

from kit.backends import (
    a_subscription,
    an_operator,
    change,
    create,
    jetstream_of,
    ready,
    says,
    statuses,
)
from kit.eventually import eventually
from kit.objects import exists
from kit.proxy import FaultProxy
from quintet.apis.eventingbackend import EVENTINGBACKENDS
from quintet.apis.meta import Object, ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.controllers.eventingbackend import server
from quintet.eventing import streams
from quintet.kube.client import Client


async def gone_without_a_mark(backends: Client, key: ObjectKey, url: str) -> None:
    async def gone() -> None:
        assert not await exists(backends, EVENTINGBACKENDS, key)

    await eventually(gone, within=120)
    async with jetstream_of(url) as jetstream:
        for name in ("sap", "sap-dead-letter"):
            found = (await jetstream.stream_info(name)).config
            assert streams.owner_of(found) is None, "the stream is still claimed"


async def test_what_is_found_without_asking_the_server_is_looked_at_again_only_now_and_then(
    backend_operator, backends: Client, proxy: FaultProxy, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await ready(backends, key)
    theirs = {
        "apiVersion": server.NETWORK_POLICIES.api_version,
        "kind": server.NETWORK_POLICIES.kind,
        "metadata": {"name": "any-nats"},
        "spec": {"podSelector": {}},
    }
    await backends.create(server.NETWORK_POLICIES, theirs, Object, namespace=namespace)
    await change(backends, key)
    await says(backends, key, "Objects could not be made")
    # Longer than the probe before it holds: each look tries to make the policy.
    await proxy.quiet(4.0)


async def test_a_backend_whose_deletion_waits_gets_its_connection_back(
    backends: Client, cluster, pretended_node, nats, namespace
):
    async with an_operator(cluster.kubeconfig, namespace=namespace) as sessions:
        key = await create(backends, namespace, "any", url=nats.url)
        await ready(backends, key)
        user = await a_subscription(backends, namespace, "orders", "any")
        await backends.delete(EVENTINGBACKENDS, key)
        await says(backends, key, "DeletionWaits", type_="Ready")
        await nats.kill()

        async def lost() -> None:
            assert sessions.current(key, nats.url) is None

        async def connected() -> None:
            assert sessions.current(key, nats.url) is not None

        await eventually(lost, within=90)
        await nats.start()
        await eventually(connected, within=120)
        await backends.delete(SUBSCRIPTIONS, user)
        await gone_without_a_mark(backends, key, nats.url)


async def test_an_operator_that_starts_after_a_deletion_takes_the_mark_off_the_stream(
    backends: Client, cluster, pretended_node, nats, namespace
):
    async with an_operator(cluster.kubeconfig, namespace=namespace):
        key = await create(backends, namespace, "any", url=nats.url)
        await ready(backends, key)
    await backends.delete(EVENTINGBACKENDS, key)
    async with an_operator(cluster.kubeconfig, namespace=namespace):
        await gone_without_a_mark(backends, key, nats.url)


async def test_a_server_that_somebody_scaled_is_scaled_back_and_nobody_is_told_to_mend_a_config(
    backend_operator, backends: Client, api, proxy: FaultProxy, namespace
):
    key = await create(backends, namespace, "any")
    await says(backends, key, "Server name not resolved")
    scaled = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/any-nats"
    await api.merge(f"{scaled}/scale", {"spec": {"replicas": 3}})

    async def put_back() -> None:
        assert (await api.get(scaled))["spec"]["replicas"] == 1

    await eventually(put_back, within=120)
    told = {each["reason"] for status in statuses(proxy, key) for each in status["conditions"]}
    assert "Server cannot be changed" not in told
