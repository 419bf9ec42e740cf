"""Several EventingBackends in one and two namespaces, moves between servers, and deletion."""

from kit.cluster.control_plane import fresh_namespace
from kit.cluster.objects import exists, wait_until_gone
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy, matching
from kit.kinds.eventingbackends import (
    a_mesh,
    an_operator,
    children,
    condition,
    connect_jetstream,
    create,
    create_secret,
    create_subscription,
    get,
    kinds_and_names,
    statuses,
    update_config,
    wait_for_reason,
    wait_until_ready,
)
from kit.nats.server import a_nats_server
from quintet.apis.eventingbackend import EVENTINGBACKENDS, NATS, effective
from quintet.apis.meta import Object, ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.controllers.eventingbackend.decide import desired
from quintet.eventing.decide import consumers
from quintet.eventing.decide.naming import retry_subject
from quintet.kube.client import Client


async def test_two_nats_backends_and_one_beb_backend_are_ready_in_one_namespace(
    backend_operator, witness, backends: Client, nats, namespace
):
    async with a_mesh() as mesh:
        await create_secret(backends, namespace, "mesh", **mesh.secret())
        keys = [
            await create(
                backends, namespace, "one", url=nats.url, streamName="one", streamSubjectPrefix="one"
            ),
            await create(
                backends, namespace, "two", url=nats.url, streamName="two", streamSubjectPrefix="two"
            ),
            await create(backends, namespace, "mesh", "beb", secretRef="mesh"),
        ]
        types = [(await wait_until_ready(backends, key)).status.backend_type for key in keys]
    assert types == ["nats", "nats", "beb"]
    deployments = {name for kind, name in await children(backends, namespace) if kind == "Deployment"}
    assert deployments == {
        "one-publisher-proxy",
        "one-dispatcher",
        "two-publisher-proxy",
        "two-dispatcher",
        "mesh-publisher-proxy",
    }
    witness.assert_truth()


async def test_backends_with_same_name_in_two_namespaces_are_independent(
    backends: Client, api, cluster, nats, tmp_path
):
    async with (
        fresh_namespace(api) as first,
        fresh_namespace(api) as second,
        SimulatedNode(api, namespace=first).running(),
        SimulatedNode(api, namespace=second).running(),
        an_operator(cluster.kubeconfig),
        a_mesh() as mesh,
    ):
        for number, namespace in enumerate((first, second)):
            await create_secret(backends, namespace, "mesh", **mesh.secret())
            await create(backends, namespace, "mesh", "beb", secretRef="mesh")
            for name in ("one", "two"):
                stream = f"{name}-{number}"
                await create(
                    backends, namespace, name, url=nats.url, streamName=stream, streamSubjectPrefix=stream
                )
        for namespace in (first, second):
            for name in ("one", "two", "mesh"):
                await wait_until_ready(backends, ObjectKey(namespace, name))
        await backends.delete(EVENTINGBACKENDS, ObjectKey(first, "one"))

        await wait_until_gone(backends, EVENTINGBACKENDS, ObjectKey(first, "one"), within=120)
        await wait_until_ready(backends, ObjectKey(second, "one"))


async def test_each_stage_of_beb_backend_has_its_own_reason(
    backend_operator, witness, backends: Client, namespace
):
    async with a_mesh() as mesh:
        key = await create(backends, namespace, "mesh", "beb", secretRef="some-secret")
        found = await wait_for_reason(backends, key, "Secret not found")
        assert found.message == (
            "The specified EventMesh secret is not found. Please provide an existing secret."
        )
        await create_secret(backends, namespace, "some-secret", messaging="{", namespace="x")
        found = await wait_for_reason(backends, key, "Secret not usable")
        assert found.message.startswith("The EventMesh secret data is not formatted properly.")
        await create_secret(backends, namespace, "some-secret", **mesh.secret("wrong"))
        await wait_for_reason(backends, key, "EventMesh token refused")
        await create_secret(backends, namespace, "some-secret", **mesh.secret())
        status = (await wait_until_ready(backends, key)).status
    assert condition(await get(backends, key), "Subscription Controller Ready").reason == (
        "Subscription controller started"
    )
    assert status.backend_type == "beb"
    witness.assert_truth()


async def test_changed_backend_type_is_not_ready_until_new_backend_is(
    backend_operator, witness, backends: Client, proxy: FaultProxy, nats, namespace
):
    async with a_mesh() as mesh:
        key = await create(backends, namespace, "any", url=nats.url)
        await wait_until_ready(backends, key)
        await update_config(backends, key, "beb", secretRef="mesh")
        await wait_for_reason(backends, key, "Secret not found")
        waiting = (await get(backends, key)).status
        assert (waiting.backend_type, waiting.eventing_ready) == ("nats", False), (
            "the old backend does not serve"
        )
        assert condition(await get(backends, key), "Publisher Proxy Ready").status == "True"
        await create_secret(backends, namespace, "mesh", **mesh.secret())
        await wait_until_ready(backends, key)

        async def assert_no_dispatcher() -> None:
            assert "Deployment/any-dispatcher" not in kinds_and_names(await children(backends, namespace))

        await eventually(assert_no_dispatcher, within=90)
        assert (await get(backends, key)).status.backend_type == "beb"
        await update_config(backends, key, url=nats.url)
        assert (await wait_until_ready(backends, key)).status.backend_type == "nats"
    witness.assert_truth()
    for status in statuses(proxy, key):
        if status["eventingReady"]:
            settings = {entry["name"] for entry in status["effectiveConfig"]}
            assert ("streamName" in settings) == (status["backendType"] == "nats"), status


async def test_move_to_other_server_loses_no_event(
    backend_operator, witness, backends: Client, nats, namespace, tmp_path
):
    """Subscribe there → publish there → deliver the remaining events here → deliver there."""
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    where = await create_subscription(backends, namespace, "orders", "any")
    subscription = await backends.get(SUBSCRIPTIONS, where, Subscription)
    # The test acts as Subscription controller and dispatcher.
    consumer = consumers.desired_consumer(
        subscription, await get(backends, key), effective(NATS, {"url": nats.url})
    )

    async def settings_of(part: str) -> str:
        found = (await children(backends, namespace))["Deployment", f"any-{part}"]
        return str(found["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"])

    async with a_nats_server(tmp_path / "new") as new, connect_jetstream(nats.url) as here:
        await here.create_or_update_consumer("sap", consumer)
        await here.publish("kyma.commerce.order.created.v1", b"{}", timeout=60)
        # It waits for a retry.
        await here.publish(retry_subject("sap", consumer.durable_name), b"{}", timeout=60)
        await update_config(backends, key, url=new.url)

        async def assert_waits_for_subscriptions() -> None:
            found = condition(await get(backends, key), "Publisher Proxy Ready")
            assert "1 more Subscriptions have a consumer at the new stream" in found.message, found

        await eventually(assert_waits_for_subscriptions, within=90)
        assert nats.url in await settings_of("publisher-proxy"), "publishers moved before the subscriptions"
        async with connect_jetstream(new.url) as there:
            await there.create_or_update_consumer("sap", consumer)

        async def assert_publishers_ready() -> None:
            assert new.url in await settings_of("publisher-proxy")
            found = condition(await get(backends, key), "Subscription Controller Ready")
            assert "delivers 2 events remaining in stream sap" in found.message, found

        await eventually(assert_publishers_ready, within=90)
        assert nats.url in await settings_of("dispatcher"), "dispatchers moved before the last event"
        for stream in ("sap", "sap-retry"):
            await here.purge_stream(stream)  # equivalent to delivery
        await wait_until_ready(backends, key)
        assert new.url in await settings_of("dispatcher")
    witness.assert_truth()


async def test_new_subject_prefix_is_published_only_after_subscriptions_listen(
    backend_operator, witness, backends: Client, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url, streamSubjectPrefix="old")
    await wait_until_ready(backends, key)
    where = await create_subscription(backends, namespace, "orders", "any")
    subscription = await backends.get(SUBSCRIPTIONS, where, Subscription)
    values = {"url": nats.url, "streamSubjectPrefix": "new"}
    async with connect_jetstream(nats.url) as jetstream:

        async def subjects() -> tuple[str, ...]:
            return (await jetstream.stream_info("sap")).config.subjects

        await update_config(backends, key, **values)

        async def assert_both() -> None:
            found = condition(await get(backends, key), "Publisher Proxy Ready")
            assert "1 more Subscriptions have a consumer at the new stream" in found.message, found
            assert await subjects() == ("new.>", "old.>")

        await eventually(assert_both, within=90)
        found = (await children(backends, namespace))["Deployment", "any-publisher-proxy"]
        assert '"subjectPrefix":"old"' in str(found["spec"]["template"]["spec"]["containers"][0]["env"])
        wanted = consumers.desired_consumer(subscription, await get(backends, key), effective(NATS, values))
        await jetstream.create_or_update_consumer("sap", wanted)
        await wait_until_ready(backends, key)

        async def assert_only_new() -> None:
            assert await subjects() == ("new.>",)

        await eventually(assert_only_new, within=90)
    witness.assert_truth()


async def test_backend_in_use_is_kept_and_lists_its_subscriptions(
    backend_operator, backends: Client, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    users = [await create_subscription(backends, namespace, name, "any") for name in ("orders", "bills")]
    other = await create_subscription(backends, namespace, "others", "elsewhere")
    await backends.delete(EVENTINGBACKENDS, key)
    await wait_for_reason(backends, key, "DeletionWaits", type_="Ready")

    async def assert_named() -> None:
        found = condition(await get(backends, key), "Ready")
        assert "Subscriptions that use it: bills, orders; delete" in found.message, found

    await eventually(assert_named)
    assert "Deployment/any-dispatcher" in kinds_and_names(await children(backends, namespace)), (
        "events are lost"
    )
    for user in users:
        await backends.delete(SUBSCRIPTIONS, user)
    await wait_until_gone(backends, EVENTINGBACKENDS, key, within=120)
    assert await exists(backends, SUBSCRIPTIONS, other)


async def test_subscription_missing_from_cache_still_keeps_its_backend(
    backend_operator, backends: Client, proxy: FaultProxy, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    news = proxy.hold("subscriptions")
    user = await create_subscription(backends, namespace, "orders", "any")
    await news.caught()
    await backends.delete(EVENTINGBACKENDS, key)
    found = await wait_for_reason(backends, key, "DeletionWaits", type_="Ready")
    assert "Subscriptions that use it: orders; delete" in found.message
    assert "Deployment/any-dispatcher" in kinds_and_names(await children(backends, namespace)), (
        "events are lost"
    )
    news.release()
    await backends.delete(SUBSCRIPTIONS, user)
    with backend_operator.clock.running_fast():
        await wait_until_gone(backends, EVENTINGBACKENDS, key, within=120)


async def test_namespace_deletion_removes_backend_and_children(
    backend_operator, backends: Client, cluster, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    await create_subscription(backends, namespace, "orders", "any")
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")

    async def assert_all_gone() -> None:
        assert not await exists(backends, EVENTINGBACKENDS, key)
        assert await children(backends, namespace) == {}

    await eventually(assert_all_gone, within=120)


async def test_replicas_of_autoscaler_are_respected_until_it_is_removed(
    backend_operator, backends: Client, api, proxy: FaultProxy, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    scaled = f"/apis/apps/v1/namespaces/{namespace}/deployments/any-publisher-proxy"
    scalers = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"

    async def replicas() -> int:
        return int((await api.get(scaled))["spec"]["replicas"])

    await api.merge(f"{scaled}/scale", {"spec": {"replicas": 5}})

    async def assert_restored() -> None:
        assert await replicas() == 2

    await eventually(assert_restored, within=90)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "any-publisher-proxy"}
    body = {"metadata": {"name": "any"}, "spec": {"scaleTargetRef": target, "maxReplicas": 9}}
    await api.create(scalers, body)

    async def assert_scaled_to_four() -> None:
        """As an autoscaler does: again and again. The operator may not have heard of it at first."""
        await api.merge(f"{scaled}/scale", {"spec": {"replicas": 4}})
        applied = proxy.trace.writes(matching("apply", "deployments", name="any-publisher-proxy"))
        assert any(each.status == 200 and "replicas" not in each.body["spec"] for each in applied)
        assert await replicas() == 4

    await eventually(assert_scaled_to_four, within=90)
    await update_config(backends, key, url=nats.url, publisherRequestTimeout="9s")
    await wait_until_ready(backends, key)
    with backend_operator.clock.running_fast():
        await proxy.quiet(1.0)
    assert await replicas() == 4, "the operator fights with the autoscaler"
    await api.delete(f"{scalers}/any")
    await eventually(assert_restored, within=90)


async def test_foreign_child_is_skipped_and_named(backend_operator, backends: Client, nats, namespace):
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "any-publisher-proxy"},
        "spec": {"ports": [{"port": 1234}]},
    }
    await backends.create(desired.SERVICES, theirs, Object, namespace=namespace)
    key = await create(backends, namespace, "any", url=nats.url)

    async def assert_named() -> None:
        found = condition(await get(backends, key), "Publisher Proxy Ready")
        assert "exists and is not controlled by this object" in found.message, found

    await eventually(assert_named, within=90)
    seen = await backends.get(desired.SERVICES, ObjectKey(namespace, "any-publisher-proxy"), dict)
    assert [port["port"] for port in seen["spec"]["ports"]] == [1234]


async def test_every_condition_transition_records_event(
    backend_operator, backends: Client, api, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    await nats.kill()
    await wait_for_reason(backends, key, "Server not reached")

    async def assert_reported() -> None:
        listed = await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        found = {
            (each["type"], each["reason"]) for each in listed["items"] if each["regarding"]["name"] == "any"
        }
        assert found >= {
            ("Normal", "BackendReady"),
            ("Normal", "PublisherProxyDeploymentReady"),
            ("Normal", "SubscriptionControllerStarted"),
            ("Warning", "ServerNotReached"),
        }, found

    await eventually(assert_reported, within=90)


async def test_backend_without_url_gets_server_with_persistent_volume_claim(
    backend_operator, witness, backends: Client, namespace
):
    """The server in the pod is tested on a real node; here the status reports that it is not reachable."""
    key = await create(backends, namespace, "any", maxBytes="100Mi")

    async def assert_created() -> None:
        found = await children(backends, namespace)
        assert kinds_and_names(found) == {
            "StatefulSet/any-nats",
            "Service/any-nats",
            "NetworkPolicy/any-nats",
            "PodDisruptionBudget/any-nats",
        }
        claim = found["StatefulSet", "any-nats"]["spec"]["volumeClaimTemplates"][0]["spec"]
        assert claim["resources"]["requests"]["storage"] == "456Mi"

    await eventually(assert_created, within=90)
    await wait_for_reason(backends, key, "Server name not resolved")
    await update_config(backends, key, maxBytes="1Gi", streamReplicas=3)
    found = await wait_for_reason(backends, key, "Server cannot be changed")
    assert "streamReplicas 1" in found.message
    await update_config(backends, key, maxBytes="1Gi")
    await wait_for_reason(backends, key, "Server name not resolved")
    claim = (await children(backends, namespace))["StatefulSet", "any-nats"]["spec"]["volumeClaimTemplates"]
    assert claim[0]["spec"]["resources"]["requests"]["storage"] == "456Mi", "a claim cannot be changed"
