"""StatefulClusters on a real API server, with a simulated node where pods must start.

Tests that need real containers and volumes are in tests/e2e.
"""

import pytest

from kit.cluster.api import Api
from kit.cluster.client import CONFIG_MAPS
from kit.cluster.objects import wait_until_gone
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy, anything
from kit.kinds.statefulclusters import (
    a_claim_template,
    a_cluster,
    claims_of,
    create,
    get,
    list_claims,
    list_pods,
    list_revisions,
    names,
    update_spec,
    wait_for_condition,
    wait_until_settled,
)
from quintet.apis.meta import JsonObject, Object, ObjectKey
from quintet.apis.statefulcluster import STATEFULCLUSTERS, ClaimState
from quintet.controllers.statefulcluster.decide import desired
from quintet.controllers.statefulcluster.decide.desired import CLAIMS, PODS
from quintet.kube.client import JSON, Client


async def annotate(client: Client, key: ObjectKey, **annotations) -> None:
    named = {f"enge.me/{name.replace('_', '-')}": value for name, value in annotations.items()}
    await client.patch(STATEFULCLUSTERS, key, {"metadata": {"annotations": named}}, Object)


def with_image(image: str) -> JsonObject:
    return a_cluster(image=image)["spec"]["template"]


@pytest.fixture
async def web(cluster_operator, simulated_node, clusters: Client, namespace) -> ObjectKey:
    """A settled StatefulCluster with three replicas."""
    key = await create(clusters, namespace, replicas=3)
    await wait_until_settled(clusters, key)
    return key


async def test_replicas_have_own_names_claims_labels_and_hostname(web, clusters, namespace):
    cluster = await get(clusters, web)
    found = await list_pods(clusters, namespace)
    assert sorted(cluster.status.replica_names) == names(found)
    for pod in found:
        meta, spec = pod["metadata"], pod["spec"]
        assert meta["name"].startswith("web-")
        assert (spec["hostname"], spec["subdomain"]) == (meta["name"], "web")
        assert meta["labels"]["enge.me/replica"] == meta["name"]
        assert meta["labels"]["controller-revision-hash"] == cluster.status.update_revision
        assert (meta["labels"]["app"], meta["labels"]["tier"], meta["annotations"]["note"]) == (
            "web",
            "back",
            "kept",
        )
        assert [volume["name"] for volume in spec["volumes"][:2]] == ["scratch", "data"], (
            "template volumes stay"
        )
        owner = meta["ownerReferences"][0]
        assert (owner["uid"], owner["controller"]) == (cluster.metadata.uid, True)
    mounted = sorted(claim for pod in found for claim in claims_of(pod))
    assert mounted == names(await list_claims(clusters, namespace))
    assert len(set(mounted)) == 3


async def test_status_has_statefulset_fields_and_more(web, clusters):
    status = (await get(clusters, web)).status
    assert (status.replicas, status.ready_replicas, status.available_replicas) == (3, 3, 3)
    assert (status.current_replicas, status.updated_replicas) == (3, 3)
    assert status.current_revision == status.update_revision != ""
    assert (status.ready, status.selector) == ("3/3", "app=web")
    assert {line.state for line in status.claims} == {ClaimState.IN_USE}
    assert {line.replica for line in status.claims} == set(status.replica_names)
    verdicts = {each.type: each.status for each in status.conditions}
    assert verdicts == {"Ready": "True", "Progressing": "False", "Degraded": "False", "Blocked": "False"}


async def test_unchanged_statefulcluster_causes_no_requests(web, cluster_operator, proxy: FaultProxy):
    await proxy.quiet(1.0, anything)  # Events follow the status
    mark = proxy.trace.mark()
    with cluster_operator.clock.running_fast():
        await proxy.quiet(1.0)
    assert proxy.trace.requests(since=mark) == [], f"\n{proxy.trace}"


async def test_deleted_pod_is_replaced_under_new_name_with_its_claims(web, clusters, namespace):
    before = await list_pods(clusters, namespace)
    lost = before[0]
    await clusters.delete(PODS, ObjectKey(namespace, lost["metadata"]["name"]))

    async def assert_replaced() -> None:
        after = await list_pods(clusters, namespace)
        assert len(after) == 3
        assert lost["metadata"]["name"] not in names(after)
        (new,) = [pod for pod in after if pod["metadata"]["name"] not in names(before)]
        assert claims_of(new) == claims_of(lost)

    await eventually(assert_replaced)
    await wait_until_settled(clusters, web)
    assert len(await list_claims(clusters, namespace)) == 3


async def test_failed_pod_is_replaced(web, simulated_node: SimulatedNode, clusters, namespace):
    lost = names(await list_pods(clusters, namespace))[0]
    simulated_node.health = lambda pod: "Failed" if pod["metadata"]["name"] == lost else "Ready"
    simulated_node.sync_all()

    async def assert_replaced() -> None:
        found = names(await list_pods(clusters, namespace))
        assert lost not in found
        assert len(found) == 3

    await eventually(assert_replaced)
    cluster = await wait_until_settled(clusters, web)
    assert [entry.count for entry in cluster.status.setbacks] == [1]


async def test_scaling_down_and_up_reuses_retained_claims(web, clusters, cluster, namespace):
    before = names(await list_claims(clusters, namespace))
    assert cluster.kubectl("scale", "stc/web", "--replicas=1", "-n", namespace).returncode == 0
    down = await wait_until_settled(clusters, web)
    assert len(await list_pods(clusters, namespace)) == 1
    assert sorted(line.state for line in down.status.claims) == ["Free", "Free", "InUse"]
    await update_spec(clusters, web, replicas=3)
    await wait_until_settled(clusters, web)
    assert names(await list_claims(clusters, namespace)) == before
    assert sorted(c for pod in await list_pods(clusters, namespace) for c in claims_of(pod)) == before


async def test_new_replica_gets_new_claims_when_adoption_is_off(web, clusters, namespace):
    await annotate(clusters, web, claim_adoption="Never")
    lost = (await list_pods(clusters, namespace))[0]
    await clusters.delete(PODS, ObjectKey(namespace, lost["metadata"]["name"]))

    async def assert_replaced() -> None:
        found = await list_pods(clusters, namespace)
        assert len(found) == 3
        assert claims_of(lost)[0] not in [c for pod in found for c in claims_of(pod)]

    await eventually(assert_replaced)
    assert len(await list_claims(clusters, namespace)) == 4


async def test_rolling_update_keeps_pod_names_and_claims(web, clusters, namespace):
    before = {pod["metadata"]["name"]: claims_of(pod) for pod in await list_pods(clusters, namespace)}
    await update_spec(clusters, web, template=with_image("web:2"))
    after = await wait_until_settled(clusters, web)
    found = await list_pods(clusters, namespace)
    assert {pod["metadata"]["name"]: claims_of(pod) for pod in found} == before
    assert {pod["spec"]["containers"][0]["image"] for pod in found} == {"web:2"}
    assert after.status.current_revision == after.status.update_revision
    assert len(await list_revisions(clusters, namespace)) == 2


async def test_rolling_update_has_at_most_one_unavailable_pod(web, clusters, cluster, proxy, namespace):
    lowest = [3]

    async def assert_updated() -> None:
        found = await list_pods(clusters, namespace)
        ready = [pod for pod in found if not pod["metadata"].get("deletionTimestamp") and _ready(pod)]
        lowest[0] = min(lowest[0], len(ready))
        done = (await get(clusters, web)).status
        assert (done.updated_replicas, done.ready_replicas) == (3, 3), done
        assert {pod["spec"]["containers"][0]["image"] for pod in found} == {"web:2"}

    await update_spec(clusters, web, template=with_image("web:2"))
    await eventually(assert_updated, within=60.0)
    assert lowest[0] >= 2


def _ready(pod: JsonObject) -> bool:
    return any(
        each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ())
    )


async def test_corrected_template_recovers_failed_rollout(web, simulated_node, clusters, namespace):
    simulated_node.health = lambda pod: (
        "Pending" if pod["spec"]["containers"][0]["image"] == "bad:1" else "Ready"
    )
    await update_spec(clusters, web, template=with_image("bad:1"))

    async def assert_stuck() -> None:
        found = await list_pods(clusters, namespace)
        assert "bad:1" in [pod["spec"]["containers"][0]["image"] for pod in found]

    await eventually(assert_stuck)
    await update_spec(clusters, web, template=with_image("web:2"))
    await wait_until_settled(clusters, web)
    found = await list_pods(clusters, namespace)
    assert [pod["spec"]["containers"][0]["image"] for pod in found] == ["web:2"] * 3


async def test_reverted_template_reuses_previous_revision(web, clusters, namespace):
    first = (await get(clusters, web)).status.update_revision
    await update_spec(clusters, web, template=with_image("web:2"))
    await wait_until_settled(clusters, web)
    await update_spec(clusters, web, template=with_image("web:1"))
    after = await wait_until_settled(clusters, web)
    assert after.status.update_revision == first
    assert len(await list_revisions(clusters, namespace)) == 2


@pytest.mark.parametrize("escaped", [True, False])
async def test_template_with_escaped_characters_can_be_reverted(
    cluster_operator, simulated_node, clusters, namespace, monkeypatch, escaped
):
    """The API server compares revisions as bytes: one that it would escape itself cannot be patched."""
    if not escaped:
        monkeypatch.setattr(desired, "escape", lambda data: data)
    template = with_image("web:1")
    template["spec"]["containers"][0]["args"] = ["a < b && c > d \u2028"]
    key = await create(clusters, namespace, replicas=1, template=template)
    first = (await wait_until_settled(clusters, key)).status.update_revision
    await update_spec(clusters, key, template=with_image("web:2"))
    await wait_until_settled(clusters, key)
    await update_spec(clusters, key, template=template)
    assert (await wait_until_settled(clusters, key)).status.update_revision == first
    found = {each["metadata"]["name"]: each["revision"] for each in await list_revisions(clusters, namespace)}
    assert max(found, key=found.__getitem__) == first


async def test_revisions_beyond_history_limit_are_deleted(web, clusters, namespace):
    await update_spec(clusters, web, revisionHistoryLimit=1)
    for number in range(2, 5):
        await update_spec(clusters, web, template=with_image(f"web:{number}"))
        await wait_until_settled(clusters, web)

    async def assert_trimmed() -> None:
        assert len(await list_revisions(clusters, namespace)) == 2

    await eventually(assert_trimmed)


async def test_partition_keeps_oldest_pods_on_previous_revision(web, clusters, namespace):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await update_spec(clusters, web, updateStrategy=strategy, template=with_image("web:2"))
    status = (await wait_until_settled(clusters, web)).status
    assert (status.updated_replicas, status.current_replicas) == (1, 2)
    old = [p for p in await list_pods(clusters, namespace) if p["spec"]["containers"][0]["image"] == "web:1"]
    lost = ObjectKey(namespace, old[0]["metadata"]["name"])
    await clusters.delete(PODS, lost)
    await wait_until_gone(clusters, PODS, lost)

    async def assert_restored() -> None:
        images = sorted(p["spec"]["containers"][0]["image"] for p in await list_pods(clusters, namespace))
        assert images == ["web:1", "web:1", "web:2"]

    await eventually(assert_restored)
    await wait_until_settled(clusters, web)


async def test_on_delete_strategy_updates_only_deleted_pods(web, clusters, namespace):
    strategy = {"type": "OnDelete", "rollingUpdate": None}
    await update_spec(clusters, web, updateStrategy=strategy, template=with_image("web:2"))
    await wait_until_settled(clusters, web)
    found = await list_pods(clusters, namespace)
    assert {pod["spec"]["containers"][0]["image"] for pod in found} == {"web:1"}
    await clusters.delete(PODS, ObjectKey(namespace, found[0]["metadata"]["name"]))

    async def assert_updated() -> None:
        images = sorted(p["spec"]["containers"][0]["image"] for p in await list_pods(clusters, namespace))
        assert images == ["web:1", "web:1", "web:2"]

    await eventually(assert_updated)


async def test_parallel_policy_creates_all_pods_at_once(cluster_operator, clusters, namespace):
    """Without a node every pod stays pending."""
    await create(clusters, namespace, replicas=5, podManagementPolicy="Parallel")

    async def assert_all_present() -> None:
        assert len(await list_pods(clusters, namespace)) == 5

    await eventually(assert_all_present)


async def test_ordered_policy_waits_for_first_pod(cluster_operator, clusters, proxy, namespace):
    """Without a node the first pod stays pending."""
    key = await create(clusters, namespace, replicas=3)

    async def assert_waiting() -> None:
        cluster = await get(clusters, key)
        assert [step.reason for step in cluster.status.plan] == ["PodPending"], cluster.status

    await eventually(assert_waiting)
    await proxy.quiet(1.0)
    assert len(await list_pods(clusters, namespace)) == 1


async def test_disruption_budget_blocks_removal_and_is_named(web, cluster_operator, clusters, api, namespace):
    budget = {
        "metadata": {"name": "keep-three"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}},
    }
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    await api.create(path, budget)

    async def assert_known() -> None:
        assert (await api.get(f"{path}/keep-three"))["status"].get("currentHealthy") == 3

    await eventually(assert_known)
    await update_spec(clusters, web, replicas=2)
    blocked = await wait_for_condition(clusters, web, "Blocked", "True")
    assert blocked.reason == "DisruptionBudget"
    assert "keep-three" in blocked.message
    assert len(await list_pods(clusters, namespace)) == 3
    await api.delete(f"{path}/keep-three")
    with cluster_operator.clock.running_fast():
        await wait_until_settled(clusters, web)
    assert (await wait_for_condition(clusters, web, "Blocked", "False")).reason == "NotBlocked"


async def test_when_scaled_delete_removes_claims_of_removed_replicas(
    cluster_operator, simulated_node, clusters, namespace
):
    policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    key = await create(clusters, namespace, replicas=3, persistentVolumeClaimRetentionPolicy=policy)
    await wait_until_settled(clusters, key)
    await update_spec(clusters, key, replicas=1)

    async def assert_gone() -> None:
        kept = [claim for pod in await list_pods(clusters, namespace) for claim in claims_of(pod)]
        assert names(await list_claims(clusters, namespace)) == kept
        assert len(kept) == 1

    await eventually(assert_gone)

    async def assert_unregistered() -> None:
        assert (await wait_until_settled(clusters, key)).status.retiring == ()

    await eventually(assert_unregistered)


async def test_claims_of_removed_replicas_are_kept_for_a_time_and_can_be_taken_back(
    cluster_operator, simulated_node, clusters, namespace
):
    policy, kept = {"whenScaled": "Delete", "whenDeleted": "Retain"}, {"whenScaled": {"after": "1h"}}
    key = await create(
        clusters, namespace, replicas=2, persistentVolumeClaimRetentionPolicy=policy, cluster=kept
    )
    await wait_until_settled(clusters, key)
    before = names(await list_claims(clusters, namespace))

    async def assert_announced() -> None:
        steps = [line.next_step for line in (await get(clusters, key)).status.claims]
        assert sum(step.startswith("deleted at ") for step in steps) == 1, steps

    async def assert_gone() -> None:
        assert len(await list_claims(clusters, namespace)) == 1

    await update_spec(clusters, key, replicas=1)
    await eventually(assert_announced)
    await update_spec(clusters, key, replicas=2)
    await wait_until_settled(clusters, key)
    found = await list_pods(clusters, namespace)
    assert sorted(claim for pod in found for claim in claims_of(pod)) == before
    await update_spec(clusters, key, replicas=1)
    await eventually(assert_announced)
    assert names(await list_claims(clusters, namespace)) == before
    with cluster_operator.clock.running_fast(speed=600.0):
        await eventually(assert_gone, within=60.0)


@pytest.mark.parametrize(("policy", "want"), [("Retain", 2), ("Delete", 0)])
async def test_when_deleted_policy_keeps_or_deletes_claims(
    policy, want, cluster_operator, simulated_node, clusters, namespace
):
    both = {"whenScaled": "Retain", "whenDeleted": policy}
    key = await create(clusters, namespace, replicas=2, persistentVolumeClaimRetentionPolicy=both)
    await wait_until_settled(clusters, key)
    await clusters.delete(STATEFULCLUSTERS, key)

    async def assert_gone() -> None:
        assert await list_pods(clusters, namespace) == []
        assert len(await list_claims(clusters, namespace)) == want

    await eventually(assert_gone, within=120.0)


async def test_owner_references_of_claims_follow_retention_policy_and_keep_foreign_owners(
    web, clusters, namespace
):
    found = await list_claims(clusters, namespace)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}}
    made = await clusters.create(CONFIG_MAPS, config, Object, namespace=namespace)
    stranger = {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": made.metadata.uid, "controller": True
    }  # fmt: skip
    for claim in found:
        key = ObjectKey(namespace, claim["metadata"]["name"])
        await clusters.patch(CLAIMS, key, {"metadata": {"ownerReferences": [stranger]}}, Object)
    uid = (await get(clusters, web)).metadata.uid
    for policy, want in (("Delete", [made.metadata.uid, uid]), ("Retain", [made.metadata.uid])):
        both = {"whenScaled": "Retain", "whenDeleted": policy}
        await update_spec(clusters, web, persistentVolumeClaimRetentionPolicy=both)
        await wait_until_settled(clusters, web)
        for claim in await list_claims(clusters, namespace):
            assert [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] == want


async def test_recreated_statefulcluster_uses_retained_claims(web, clusters, namespace):
    before = names(await list_claims(clusters, namespace))
    await clusters.delete(STATEFULCLUSTERS, web)

    async def assert_gone() -> None:
        assert await list_pods(clusters, namespace) == []

    await eventually(assert_gone, within=120.0)
    await create(clusters, namespace, replicas=3)
    await wait_until_settled(clusters, web)
    assert names(await list_claims(clusters, namespace)) == before


async def test_orphaned_pods_are_adopted_by_recreated_statefulcluster(web, clusters, cluster, namespace):
    before = await list_pods(clusters, namespace)
    assert cluster.kubectl("delete", "stc/web", "--cascade=orphan", "-n", namespace).returncode == 0
    await create(clusters, namespace, replicas=3)
    again = await wait_until_settled(clusters, web)
    after = await list_pods(clusters, namespace)
    assert [pod["metadata"]["uid"] for pod in after] == [pod["metadata"]["uid"] for pod in before]
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in after} == {again.metadata.uid}


async def test_foreign_pod_is_reported_but_not_counted_or_removed(web, clusters, api, namespace):
    body = {
        "metadata": {"name": "stranger", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    await api.create(f"/api/v1/namespaces/{namespace}/pods", body)

    async def assert_reported() -> None:
        status = (await get(clusters, web)).status
        assert [(step.target, step.reason) for step in status.plan[1:]] == [("stranger", "ForeignPod")]
        assert status.replicas == 3

    await eventually(assert_reported)
    await update_spec(clusters, web, replicas=1)
    await wait_until_settled(clusters, web)
    found = names(await list_pods(clusters, namespace))
    assert len(found) == 2
    assert "stranger" in found


async def test_plan_only_reports_actions_and_changes_nothing(web, clusters, proxy, namespace):
    before = await list_pods(clusters, namespace)
    await annotate(clusters, web, plan_only="true")
    await update_spec(clusters, web, replicas=5, template=with_image("web:2"))

    async def assert_planned() -> None:
        cluster = await get(clusters, web)
        assert cluster.status.observed_generation == cluster.metadata.generation
        assert [step.action for step in cluster.status.plan] == ["CreateReplica"], cluster.status

    await eventually(assert_planned)
    await proxy.quiet(1.0)
    assert names(await list_pods(clusters, namespace)) == names(before)
    assert len(await list_revisions(clusters, namespace)) == 1
    await annotate(clusters, web, plan_only="false")
    await wait_until_settled(clusters, web)
    assert len(await list_pods(clusters, namespace)) == 5


async def test_replicas_become_available_after_min_ready_seconds(
    cluster_operator, simulated_node, clusters, namespace
):
    key = await create(clusters, namespace, replicas=2, minReadySeconds=2)
    with cluster_operator.clock.running_fast(5.0):
        cluster = await wait_until_settled(clusters, key)
    assert cluster.status.available_replicas == 2


async def test_rejected_pod_is_reported_and_created_after_correction(
    cluster_operator, simulated_node, clusters, namespace
):
    template = with_image("web:1")
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "nowhere", "mountPath": "/x"}]
    key = await create(clusters, namespace, replicas=1, template=template)
    # A new namespace has no default ServiceAccount at first, which also rejects pods.
    refused = await wait_for_condition(clusters, key, "Degraded", "True", says="nowhere")
    assert refused.reason == "Refused"
    await update_spec(clusters, key, template=a_cluster()["spec"]["template"])
    await clusters.patch(
        STATEFULCLUSTERS, key, [{"op": "replace", "path": "/spec/template", "value": with_image("web:1")}],
        Object, content_type=JSON,
    )  # fmt: skip
    await wait_until_settled(clusters, key)
    await wait_for_condition(clusters, key, "Degraded", "False")
    assert len(await list_claims(clusters, namespace)) == 1


async def test_claim_that_cannot_grow_is_reported_and_tried_once(web, clusters, api, proxy, namespace):
    for claim in await list_claims(clusters, namespace):
        await bind_claim(api, namespace, claim)
    await update_spec(clusters, web, volumeClaimTemplates=[a_claim_template("data", "2Mi")])

    async def assert_reported() -> None:
        status = (await get(clusters, web)).status
        assert all("cannot grow to 2Mi" in line.next_step for line in status.claims), status.claims

    await eventually(assert_reported)
    mark = proxy.trace.mark()
    await proxy.quiet(1.0)
    assert proxy.trace.writes(since=mark) == [], f"\n{proxy.trace}"


async def bind_claim(api: Api, namespace: str, claim: JsonObject) -> None:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim['metadata']['name']}"
    status = {"phase": "Bound", "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"]}
    await api.merge(f"{path}/status", {"status": status})


async def test_lost_claim_of_pending_pod_is_set_aside_and_replaced(
    cluster_operator, simulated_node, clusters, api, namespace
):
    simulated_node.health = lambda pod: "Pending"
    key = await create(clusters, namespace, replicas=1)

    async def assert_created() -> JsonObject:
        (claim,) = await list_claims(clusters, namespace)
        assert await list_pods(clusters, namespace)
        return claim

    lost = await eventually(assert_created)
    name = lost["metadata"]["name"]
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}/status"
    await api.merge(path, {"status": {"phase": "Lost"}})

    async def assert_replaced() -> None:
        cluster = await get(clusters, key)
        states = {line.name: line.state for line in cluster.status.claims}
        assert states.pop(name) is ClaimState.UNUSABLE, cluster.status
        assert list(states.values()) == [ClaimState.IN_USE], cluster.status

    await eventually(assert_replaced)
    assert (await clusters.get(CLAIMS, ObjectKey(namespace, name), Object)).metadata.annotations[
        "enge.me/unusable"
    ]


@pytest.mark.exhaustive  # the autoscaler takes its time; what it reads is also read in test_statefulcluster_crd
async def test_horizontal_pod_autoscaler_reads_scale_subresource(web, clusters, cluster, namespace):
    made = cluster.kubectl(
        "autoscale", "statefulcluster/web", "--min=2", "--max=5", "--cpu=50%", "-n", namespace
    )
    assert made.returncode == 0, made.stderr

    async def assert_read() -> None:
        shown = cluster.kubectl("get", "hpa/web", "-n", namespace, "-o", "jsonpath={.status}")
        assert '"currentReplicas":3' in shown.stdout, shown.stdout
        assert "AbleToScale" in shown.stdout

    await eventually(assert_read, within=120.0)


async def test_kubectl_wait_and_columns_show_readiness(web, cluster, namespace):
    waited = cluster.kubectl("wait", "stc/web", "--for=condition=Ready", "--timeout=30s", "-n", namespace)
    assert waited.returncode == 0, waited.stderr
    shown = cluster.kubectl("get", "stc", "-n", namespace).stdout.split("\n")
    assert shown[0].split()[:5] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert shown[1].split()[:4] == ["web", "3/3", "3", "3"]
