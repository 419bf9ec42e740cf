"""Failures around a StatefulCluster, and how it reports and handles them, on a real API server.

The tests create the volumes: the real controllers bind them, no node mounts them.
"""

from collections.abc import AsyncIterator

import pytest

from kit.cluster.api import Api
from kit.cluster.objects import wait_until_gone
from kit.eventually import eventually
from kit.faults.proxy import Answer, Before, FaultProxy, matching
from kit.kinds.statefulclusters import (
    a_claim_template,
    a_cluster,
    a_storage_class,
    claims_of,
    create,
    get,
    list_claims,
    list_objects,
    list_pods,
    names,
    statefulcluster_operator,
    update_spec,
    wait_for_condition,
    wait_until_settled,
)
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.apis.statefulcluster import STATEFULCLUSTERS, ClaimState
from quintet.controllers.statefulcluster.decide import plan, volumes
from quintet.controllers.statefulcluster.decide.desired import CLAIMS, PODS
from quintet.kube.client import Client

EVENTS = Resource("events.k8s.io", "v1", "Event", "events")


@pytest.fixture
async def web(cluster_operator, simulated_node, clusters: Client, namespace) -> ObjectKey:
    """A settled StatefulCluster with two replicas."""
    key = await create(clusters, namespace, replicas=2)
    await wait_until_settled(clusters, key)
    return key


async def event_reasons(client: Client, namespace: str) -> list[str]:
    return [each["reason"] for each in await list_objects(client, EVENTS, namespace)]


async def wait_for_event(client: Client, namespace: str, reason: str) -> None:
    """Wait for an Event; it is recorded after the status."""

    async def probe() -> None:
        assert reason in await event_reasons(client, namespace)

    await eventually(probe)


@pytest.fixture
async def pinned_volume(api: Api, namespace) -> AsyncIterator[str]:
    """A volume of a node that no longer exists."""
    name = f"volume-{namespace}"
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"gone-{namespace}"]}
    body = {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"pinned-{namespace}",
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/nowhere"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }
    await api.create("/api/v1/persistentvolumes", body)
    yield name
    await api.delete(f"/api/v1/persistentvolumes/{name}")


async def test_claims_on_removed_node_are_set_aside_and_replica_gets_new_ones(
    pinned_volume, cluster_operator, simulated_node, clusters, namespace, monkeypatch
):
    monkeypatch.setattr(volumes, "UNSCHEDULED_FOR", 1.0)
    simulated_node.health = lambda pod: "Pending"  # the real scheduler reports it as unschedulable
    body = a_cluster(replicas=1)
    body["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] = f"pinned-{namespace}"
    await clusters.create(STATEFULCLUSTERS, body, Object, namespace=namespace)
    key = ObjectKey(namespace, "web")

    async def assert_fresh() -> None:
        cluster = await get(clusters, key)
        states = sorted(line.state for line in cluster.status.claims)
        assert states == [ClaimState.IN_USE, ClaimState.UNUSABLE], cluster.status
        (lost,) = [line for line in cluster.status.claims if line.state is ClaimState.UNUSABLE]
        assert pinned_volume in lost.next_step
        (pod,) = await list_pods(clusters, namespace)
        assert claims_of(pod) != [lost.name]

    await eventually(assert_fresh, within=120.0)
    await wait_for_event(clusters, namespace, "ClaimsSetAside")
    (lost,) = [c for c in (await get(clusters, key)).status.claims if c.state is ClaimState.UNUSABLE]
    where = ObjectKey(namespace, lost.name)
    await clusters.patch(CLAIMS, where, {"metadata": {"annotations": {"enge.me/unusable": None}}}, Object)

    async def assert_free_again() -> None:
        cluster = await get(clusters, key)
        assert {line.name: line.state for line in cluster.status.claims}[lost.name] is ClaimState.FREE

    await eventually(assert_free_again)


async def test_unbound_claims_are_set_aside_once_and_then_reported(
    cluster_operator, simulated_node, clusters, proxy, namespace, monkeypatch
):
    monkeypatch.setattr(volumes, "UNBOUND_FOR", 1.0)
    simulated_node.health = lambda pod: "Pending"
    key = await create(clusters, namespace, replicas=1)
    blocked = await wait_for_condition(clusters, key, "Blocked", "True", within=60.0)

    async def assert_reported() -> None:
        cluster = await get(clusters, key)
        assert sorted(line.state for line in cluster.status.claims) == ["InUse", "Unusable"], cluster.status
        assert "other claims have none either" in cluster.status.plan[0].message, cluster.status

    await eventually(assert_reported, within=60.0)
    assert blocked.reason == "ClaimUnbound"
    await proxy.quiet(0.5)
    mark = proxy.trace.mark()
    await proxy.quiet(1.0)
    assert proxy.trace.writes(since=mark) == [], f"\n{proxy.trace}"


@pytest.fixture
async def late_class(api: Api, namespace) -> AsyncIterator[str]:
    """The name of a storage class that binds a claim once its pod is scheduled."""
    async with a_storage_class(api, f"late-{namespace}", volumeBindingMode="WaitForFirstConsumer"):
        yield f"late-{namespace}"


async def test_claim_waiting_for_scheduling_is_not_set_aside(
    late_class, cluster_operator, simulated_node, clusters, proxy, namespace, monkeypatch
):
    monkeypatch.setattr(volumes, "UNBOUND_FOR", 1.0)
    simulated_node.health = lambda pod: "Pending"
    body = a_cluster(replicas=1)
    body["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] = late_class
    await clusters.create(STATEFULCLUSTERS, body, Object, namespace=namespace)
    key = ObjectKey(namespace, "web")
    blocked = await wait_for_condition(clusters, key, "Blocked", "True", within=60.0)
    assert blocked.reason == "ClaimUnbound"
    await proxy.wait_for(matching("get", "storageclasses"))
    await proxy.quiet(1.0)
    assert [line.state for line in (await get(clusters, key)).status.claims] == [ClaimState.IN_USE]


async def test_claim_bound_at_last_moment_is_not_set_aside(
    cluster_operator, simulated_node, clusters, api, proxy, namespace, monkeypatch
):
    monkeypatch.setattr(volumes, "UNBOUND_FOR", 1.0)
    simulated_node.health = lambda pod: "Pending"

    async def bind() -> None:
        (claim,) = await list_claims(clusters, namespace)
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim['metadata']['name']}/status"
        status = {"phase": "Bound", "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"]}
        await api.merge(path, {"status": status})

    marks = matching("patch", "persistentvolumeclaims")
    proxy.inject(Before(bind), when=marks)
    key = await create(clusters, namespace, replicas=1)
    await proxy.wait_for(marks)

    async def assert_waited_for() -> None:
        cluster = await get(clusters, key)
        assert cluster.status.plan[0].reason == "PodPending", cluster.status

    await eventually(assert_waited_for, within=60.0)
    assert [line.state for line in (await get(clusters, key)).status.claims] == [ClaimState.IN_USE]


@pytest.fixture
async def rigid_class(api: Api, namespace) -> AsyncIterator[str]:
    """The path of a storage class that does not allow expansion yet."""
    async with a_storage_class(api, f"rigid-{namespace}", allowVolumeExpansion=False) as path:
        yield path


async def test_claim_grows_when_storage_class_allows_expansion(
    rigid_class, cluster_operator, simulated_node, clusters, api, proxy, namespace, monkeypatch
):
    monkeypatch.setattr(plan, "REFUSED_FOR", 0.5)
    template = a_claim_template("data")
    template["spec"]["storageClassName"] = f"rigid-{namespace}"
    key = await create(clusters, namespace, replicas=1, volumeClaimTemplates=[template])
    await wait_until_settled(clusters, key)
    (claim,) = await list_claims(clusters, namespace)
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim['metadata']['name']}/status"
    status = {"phase": "Bound", "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"]}
    await api.merge(path, {"status": status})
    template["spec"]["resources"]["requests"]["storage"] = "2Mi"
    await update_spec(clusters, key, volumeClaimTemplates=[template])

    async def assert_retried() -> None:
        assert len(proxy.trace.requests(matching("patch", "persistentvolumeclaims"))) > 2

    await eventually(assert_retried, within=60.0)
    (line,) = (await get(clusters, key)).status.claims
    assert "cannot grow to 2Mi" in line.next_step
    assert "ClaimExpanding" not in await event_reasons(clusters, namespace)
    await api.merge(rigid_class, {"allowVolumeExpansion": True})

    async def assert_grown() -> None:
        (claim,) = await list_claims(clusters, namespace)
        assert claim["spec"]["resources"]["requests"]["storage"] == "2Mi"

    await eventually(assert_grown, within=60.0)
    await wait_for_event(clusters, namespace, "ClaimExpanding")


async def test_unready_pod_is_replaced_after_grace_period(
    web, cluster_operator, simulated_node, clusters, namespace
):
    first = names(await list_pods(clusters, namespace))[0]
    await clusters.patch(
        STATEFULCLUSTERS, web, {"metadata": {"annotations": {"enge.me/unhealthy-grace-seconds": "2"}}}, Object
    )
    simulated_node.health = lambda pod: "Running" if pod["metadata"]["name"] == first else "Ready"
    simulated_node.sync_all()

    async def assert_replaced() -> None:
        found = names(await list_pods(clusters, namespace))
        assert first not in found
        assert len(found) == 2

    with cluster_operator.clock.running_fast(5.0):
        await eventually(assert_replaced)
    cluster = await wait_until_settled(clusters, web)
    assert [entry.count for entry in cluster.status.setbacks] == [1]
    await wait_for_event(clusters, namespace, "PodReplaced")


async def test_slowly_starting_pod_is_not_replaced(
    cluster_operator, simulated_node, clusters, proxy, namespace
):
    simulated_node.health = lambda pod: "Running"
    key = await create(clusters, namespace, replicas=1)

    async def assert_waiting() -> None:
        assert [step.reason for step in (await get(clusters, key)).status.plan] == ["NotAvailable"]

    await eventually(assert_waiting)
    before = names(await list_pods(clusters, namespace))
    await proxy.quiet(0.5)
    mark = proxy.trace.mark()
    await proxy.quiet(1.0)
    assert names(await list_pods(clusters, namespace)) == before
    assert proxy.trace.writes(since=mark) == [], f"\n{proxy.trace}"


async def test_claim_deleted_under_pending_pod_is_recreated(
    cluster_operator, simulated_node, clusters, namespace
):
    simulated_node.health = lambda pod: "Pending"
    await create(clusters, namespace, replicas=1)

    async def assert_created() -> JsonObject:
        (claim,) = await list_claims(clusters, namespace)
        assert await list_pods(clusters, namespace)
        return claim

    before = await eventually(assert_created)
    await clusters.delete(CLAIMS, ObjectKey(namespace, before["metadata"]["name"]))

    async def assert_repeated() -> None:
        (claim,) = await list_claims(clusters, namespace)
        assert claim["metadata"]["uid"] != before["metadata"]["uid"]
        assert not claim["metadata"].get("deletionTimestamp")
        (pod,) = await list_pods(clusters, namespace)
        assert claims_of(pod) == [claim["metadata"]["name"]]

    await eventually(assert_repeated, within=60.0)


async def test_two_disruption_budgets_for_one_pod_are_named(web, cluster_operator, clusters, api, namespace):
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    for name in ("first", "second"):
        spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}
        await api.create(path, {"metadata": {"name": name}, "spec": spec})
    await update_spec(clusters, web, replicas=1)
    blocked = await wait_for_condition(clusters, web, "Blocked", "True")
    assert "first and second" in blocked.message
    await api.delete(f"{path}/first")
    with cluster_operator.clock.running_fast():
        await wait_until_settled(clusters, web)
    assert len(await list_pods(clusters, namespace)) == 1


async def test_overloaded_api_server_is_not_reported_as_disruption_budget(
    web, cluster_operator, proxy, clusters, namespace
):
    proxy.inject(
        Answer(429, "TooManyRequests", retry_after=1),
        when=matching("create", "pods", subresource="eviction"),
        times=2,
    )
    await update_spec(clusters, web, replicas=1)
    with cluster_operator.clock.running_fast():
        cluster = await wait_until_settled(clusters, web)
    assert len(await list_pods(clusters, namespace)) == 1
    assert "DisruptionBudget" not in await event_reasons(clusters, namespace), cluster.status


async def test_operator_restart_with_unchanged_statefulcluster_sends_no_write(
    clusters, simulated_node, proxy: FaultProxy, namespace, tmp_path
):
    kubeconfig = proxy.write_kubeconfig(tmp_path)
    async with statefulcluster_operator(kubeconfig, namespace=namespace):
        key = await create(clusters, namespace, replicas=2)
        await wait_until_settled(clusters, key)
        await proxy.quiet(1.0)
    mark = proxy.trace.mark()
    async with statefulcluster_operator(kubeconfig, namespace=namespace):
        await proxy.quiet(1.0)
    assert proxy.trace.writes(since=mark) == [], f"\n{proxy.trace}"


async def test_stale_cache_neither_removes_nor_creates_extra_pod(web, proxy, clusters, namespace):
    """The operator gets no watch events of pods while it scales down and up."""
    hold = proxy.hold("pods")
    await update_spec(clusters, web, replicas=1)

    async def staying() -> list[str]:
        found = await list_pods(clusters, namespace)
        return names([pod for pod in found if not pod["metadata"].get("deletionTimestamp")])

    async def assert_one_left() -> None:
        assert len(await staying()) == 1

    await eventually(assert_one_left)
    kept = await staying()
    await clusters.patch(STATEFULCLUSTERS, web, {"metadata": {"labels": {"look": "again"}}}, Object)
    await proxy.quiet(1.0)
    assert await staying() == kept, "removed a second one on a stale cache"
    hold.release()
    await wait_until_settled(clusters, web)
    assert len(await list_pods(clusters, namespace)) == 1


async def test_pod_lost_while_operator_was_down_is_recreated_once(
    clusters, simulated_node, proxy, namespace, tmp_path
):
    kubeconfig = proxy.write_kubeconfig(tmp_path)
    async with statefulcluster_operator(kubeconfig, namespace=namespace):
        key = await create(clusters, namespace, replicas=2)
        await wait_until_settled(clusters, key)
    lost = ObjectKey(namespace, names(await list_pods(clusters, namespace))[0])
    await clusters.delete(PODS, lost)
    await wait_until_gone(clusters, PODS, lost)
    mark = proxy.trace.mark()
    async with statefulcluster_operator(kubeconfig, namespace=namespace):

        async def assert_complete() -> None:
            assert len(await list_pods(clusters, namespace)) == 2

        await eventually(assert_complete)
        await wait_until_settled(clusters, key)
    assert len(proxy.trace.requests(matching("create", "pods", subresource=""), since=mark)) == 1
    assert len(await list_claims(clusters, namespace)) == 2


async def test_claims_mounted_by_pods_of_deleted_statefulcluster_are_awaited(web, clusters, namespace):
    before = await list_pods(clusters, namespace)
    keys = [ObjectKey(namespace, name) for name in names(before)]
    for key in keys:
        await clusters.patch(PODS, key, {"metadata": {"finalizers": ["test.quintet.dev/stays"]}}, Object)
    await clusters.delete(STATEFULCLUSTERS, web)
    await create(clusters, namespace, replicas=2)

    async def assert_waiting() -> None:
        assert [step.reason for step in (await get(clusters, web)).status.plan] == ["Leaving"]

    await eventually(assert_waiting)
    assert names(await list_pods(clusters, namespace)) == names(before), "two pods on one volume"
    for key in keys:
        await clusters.patch(PODS, key, {"metadata": {"finalizers": None}}, Object)
    await wait_until_settled(clusters, web)
    after = await list_pods(clusters, namespace)
    assert sorted(map(claims_of, after)) == sorted(map(claims_of, before))
    assert len(await list_claims(clusters, namespace)) == 2


async def test_terminating_namespace_gets_no_new_objects(web, cluster, clusters, namespace):
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")

    async def assert_gone() -> None:
        assert await list_pods(clusters, namespace) == []
        assert await list_claims(clusters, namespace) == []

    await eventually(assert_gone, within=120.0)
