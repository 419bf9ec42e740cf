"""EventingBackends with concurrent changes and interrupted operations."""

import msgspec

from kit.cluster.api import Api
from kit.cluster.objects import wait_until_gone
from kit.eventually import eventually
from kit.faults.proxy import Answer, FaultProxy, matching
from kit.kinds.eventingbackends import (
    an_operator,
    condition,
    connect_jetstream,
    create,
    create_subscription,
    get,
    statuses,
    update_config,
    wait_for_reason,
    wait_until_ready,
)
from quintet.apis.eventingbackend import EVENTINGBACKENDS, NATS, effective
from quintet.apis.meta import Object, ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.controllers.eventingbackend.decide import server
from quintet.controllers.eventingbackend.probes import Timing
from quintet.eventing import streams
from quintet.eventing.decide import consumers
from quintet.kube.client import Client
from quintet.nats.config import StreamConfig
from quintet.nats.jetstream import JetStream


async def wait_until_gone_without_mark(backends: Client, key: ObjectKey, url: str) -> None:
    await wait_until_gone(backends, EVENTINGBACKENDS, key, within=120)
    async with connect_jetstream(url) as jetstream:
        for name in ("sap", "sap-retry", "sap-dead-letter"):
            found = (await jetstream.stream_info(name)).config
            assert streams.owner_of(found) is None, "the stream still has an owner"


async def create_with_stored_event(backends: Client, namespace: str, **values: str) -> ObjectKey:
    """Create a ready backend with an undelivered event in its stream."""
    key = await create(backends, namespace, "any", **values)
    await wait_until_ready(backends, key)
    await create_subscription(backends, namespace, "orders", "any")
    await create_consumer(backends, key, **values)
    async with connect_jetstream(values["url"]) as jetstream:
        subject = f"{values['streamSubjectPrefix']}.commerce.order.created.v1"
        await jetstream.publish(subject, b"{}", timeout=60)
    return key


async def create_consumer(backends: Client, key: ObjectKey, **values: str) -> None:
    """Create the consumer of the Subscription, as its controller would, once the stream exists."""
    found = await backends.get(SUBSCRIPTIONS, ObjectKey(key.namespace, "orders"), Subscription)
    consumer = consumers.desired_consumer(found, await get(backends, key), effective(NATS, values))
    async with connect_jetstream(values["url"]) as jetstream:

        async def create() -> None:
            await jetstream.create_or_update_consumer(values["streamName"], consumer)

        await eventually(create, within=90)


async def find_leftover_events(api: Api, namespace: str) -> list[tuple[str, int]]:
    """Return the Event about remaining events and how often it was recorded."""
    listed = await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return [
        (each["note"], (each.get("series") or {}).get("count", 1))
        for each in listed["items"]
        if each["reason"] == "EventsLeftBehind"
    ]


async def test_foreign_child_causes_no_frequent_retries(
    backends: Client, proxy: FaultProxy, simulated_node, nats, namespace, tmp_path
):
    often = Timing(while_ready=0.2, first_retry=0.1, last_retry=0.1)
    async with an_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace, timing=often):
        key = await create(backends, namespace, "any", url=nats.url)
        await wait_until_ready(backends, key)
        theirs = {
            "apiVersion": server.NETWORK_POLICIES.api_version,
            "kind": server.NETWORK_POLICIES.kind,
            "metadata": {"name": "any-nats"},
            "spec": {"podSelector": {}},
        }
        await backends.create(server.NETWORK_POLICIES, theirs, Object, namespace=namespace)
        await update_config(backends, key)
        await wait_for_reason(backends, key, "Objects could not be made")
        # Much longer than a probe is valid; each reconciliation would try to create the policy.
        await proxy.quiet(1.5)


async def test_backend_with_pending_deletion_reconnects_after_connection_loss(
    backends: Client, cluster, simulated_node, nats, namespace
):
    async with an_operator(cluster.kubeconfig, namespace=namespace) as operator:
        sessions = operator.sessions
        key = await create(backends, namespace, "any", url=nats.url)
        await wait_until_ready(backends, key)
        user = await create_subscription(backends, namespace, "orders", "any")
        await backends.delete(EVENTINGBACKENDS, key)
        await wait_for_reason(backends, key, "DeletionWaits", type_="Ready")
        await nats.kill()

        async def assert_lost() -> None:
            assert sessions.current(key, nats.url) is None

        async def assert_connected() -> None:
            assert sessions.current(key, nats.url) is not None

        await eventually(assert_lost, within=90)
        await nats.start()
        # A terminating backend is not probed: its connection is restored by the next reconciliation.
        with operator.clock.running_fast():
            await eventually(assert_connected, within=120)
        await backends.delete(SUBSCRIPTIONS, user)
        await wait_until_gone_without_mark(backends, key, nats.url)


async def test_operator_started_after_deletion_removes_owner_mark_from_stream(
    backends: Client, cluster, simulated_node, nats, namespace
):
    async with an_operator(cluster.kubeconfig, namespace=namespace):
        key = await create(backends, namespace, "any", url=nats.url)
        await wait_until_ready(backends, key)
    await backends.delete(EVENTINGBACKENDS, key)
    async with an_operator(cluster.kubeconfig, namespace=namespace):
        await wait_until_gone_without_mark(backends, key, nats.url)


async def test_scaled_server_statefulset_is_restored_without_config_error(
    backend_operator, backends: Client, api, proxy: FaultProxy, namespace
):
    key = await create(backends, namespace, "any")
    await wait_for_reason(backends, key, "Server name not resolved")
    scaled = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/any-nats"
    await api.merge(f"{scaled}/scale", {"spec": {"replicas": 3}})

    async def assert_restored() -> None:
        assert (await api.get(scaled))["spec"]["replicas"] == 1

    await eventually(assert_restored, within=120)
    told = {each["reason"] for status in statuses(proxy, key) for each in status["conditions"]}
    assert "Server cannot be changed" not in told


async def test_subscription_missing_from_cache_delays_move_to_new_subjects(
    backend_operator, backends: Client, proxy: FaultProxy, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url, streamSubjectPrefix="old")
    await wait_until_ready(backends, key)
    news = proxy.hold("subscriptions")
    where = await create_subscription(backends, namespace, "orders", "any")
    await news.caught()
    values = {"url": nats.url, "streamSubjectPrefix": "new"}
    await update_config(backends, key, **values)

    async def assert_waiting() -> None:
        found = condition(await get(backends, key), "Publisher Proxy Ready")
        assert "1 more Subscriptions have a consumer at the new stream" in found.message, found

    await eventually(assert_waiting, within=90)
    subscription = await backends.get(SUBSCRIPTIONS, where, Subscription)
    consumer = consumers.desired_consumer(subscription, await get(backends, key), effective(NATS, values))
    async with connect_jetstream(nats.url) as jetstream:
        await jetstream.create_or_update_consumer("sap", consumer)
    await wait_until_ready(backends, key)
    news.release()


async def test_finished_move_is_not_repeated_after_failed_status_write(
    backends: Client, api, proxy: FaultProxy, simulated_node, nats, namespace, tmp_path
):
    quick = Timing(while_ready=1.0, first_retry=0.1, last_retry=0.5, longest_drain=2.0)
    async with an_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace, timing=quick):
        one = {"url": nats.url, "streamName": "one", "streamSubjectPrefix": "one"}
        key = await create_with_stored_event(backends, namespace, **one)
        writes = matching("apply", "deployments", name="any-dispatcher")
        proxy.inject(Answer(409, "Conflict"), when=writes)
        two = {"url": nats.url, "streamName": "two", "streamSubjectPrefix": "two"}
        await update_config(backends, key, **two)
        await create_consumer(backends, key, **two)
        await wait_until_ready(backends, key)
        (refused,) = [each for each in proxy.trace.requests(writes) if each.status == 409]
        said = matching("patch", "eventingbackends", subresource="status")
        later = proxy.trace.requests(said, since=refused.number)
        assert not [each for each in later if "events that are left" in str(each.body)]

        async def assert_reported_once() -> None:
            ((note, times),) = await find_leftover_events(api, namespace)
            assert "stream one" in note
            assert times == 1

        await eventually(assert_reported_once, within=90)


async def test_reverted_move_reports_stream_that_keeps_events(
    backends: Client, api, cluster, simulated_node, nats, namespace
):
    quick = Timing(while_ready=1.0, first_retry=0.1, last_retry=0.5)
    async with an_operator(cluster.kubeconfig, namespace=namespace, timing=quick):
        one = {"url": nats.url, "streamName": "one", "streamSubjectPrefix": "one"}
        key = await create_with_stored_event(backends, namespace, **one)
        two = {"url": nats.url, "streamName": "two", "streamSubjectPrefix": "two"}
        await update_config(backends, key, **two)
        await create_consumer(backends, key, **two)

        async def assert_delivers_the_rest() -> None:
            found = condition(await get(backends, key), "Subscription Controller Ready")
            assert "delivers 1 events remaining in stream one" in found.message, found

        await eventually(assert_delivers_the_rest, within=120)
        await update_config(backends, key, **one)
        await wait_until_ready(backends, key)

        async def assert_reported() -> None:
            ((note, _),) = await find_leftover_events(api, namespace)
            assert "stream two" in note

        await eventually(assert_reported, within=90)


async def test_stream_created_concurrently_by_other_backend_is_not_reported_as_rejected(
    backend_operator, backends: Client, proxy: FaultProxy, nats, namespace, monkeypatch
):
    create_stream = JetStream.create_stream

    async def they_were_first(jetstream: JetStream, wanted: StreamConfig):
        theirs = msgspec.structs.replace(wanted, metadata={streams.OWNER: f"{namespace}/other/uid"})
        await create_stream(jetstream, theirs)
        return await create_stream(jetstream, wanted)

    monkeypatch.setattr(JetStream, "create_stream", they_were_first)
    key = await create(backends, namespace, "any", url=nats.url)
    found = await wait_for_reason(backends, key, "Stream claimed by another backend")
    assert f"belongs to EventingBackend {namespace}/other" in found.message
    told = {each["reason"] for status in statuses(proxy, key) for each in status["conditions"]}
    assert "Stream refused by the server" not in told


async def test_write_conflict_is_retried_and_not_reported(
    backend_operator, backends: Client, proxy: FaultProxy, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    late = "somebody else was first"
    writes = matching("apply", "deployments", name="any-publisher-proxy")
    proxy.inject(Answer(409, "Conflict", late), when=writes)
    await update_config(backends, key, url=nats.url, publisherRequestTimeout="9s")
    await wait_until_ready(backends, key)
    assert [each for each in proxy.trace.requests(writes) if each.status == 409]
    assert late not in str(statuses(proxy, key))
    proxy.inject(Answer(409, "Conflict", late), when=writes, times=None)
    await update_config(backends, key, url=nats.url, publisherRequestTimeout="8s")

    async def assert_reported() -> None:
        assert condition(await get(backends, key), "Publisher Proxy Ready").message == late

    await eventually(assert_reported, within=120)
