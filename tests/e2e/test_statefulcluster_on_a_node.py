"""StatefulClusters of NATS on a real node: updates, failures and scaling lose no data."""

import json

import pytest

from e2e.kubectl_client import KubectlClient, find_condition, find_forbidden_requests, object_list
from e2e.node_containerd import NodeContainerd
from e2e.statefulclusters import (
    API_VERSION,
    IMAGE,
    NAME,
    a_cluster,
    a_headless_service,
    all_records,
    assert_records_unchanged,
    claim_states,
    claims,
    claims_by_pod,
    pods,
    wait_until_ready,
    write_records,
)
from kit.cluster.pod_recorder import claims_of, is_ready, record_pods
from kit.eventually import eventually

pytestmark = pytest.mark.node

OURS = {"kind": "StatefulCluster"}
OTHER_IMAGE = "quintet.local/nats:other-name"
MISSING_IMAGE = "quintet.local/nats:not-there"


@pytest.fixture
async def empty(shared_client) -> KubectlClient:
    """The shared namespace without replicas and claims."""
    shared_client.kubectl("delete", "statefulclusters,statefulsets,pvc", "--all", "--timeout=120s")
    await shared_client.wait("pods", "--all", "--for=delete")
    return shared_client


@pytest.fixture
async def filled(shared_client) -> tuple[KubectlClient, dict[str, str]]:
    """The shared namespace with three replicas, each with one record."""
    shared_client.apply(object_list(a_headless_service(), a_cluster()))
    await wait_until_ready(shared_client)
    return shared_client, write_records(shared_client)


def assert_claim_states(client: KubectlClient, want_states: list[str]) -> None:
    """Assert the states of all claims in the status."""
    found = claim_states(client.get("statefulcluster", NAME))
    assert sorted(found.values()) == want_states, found


def set_image(client: KubectlClient, image: str, kind: str = "statefulcluster", name: str = NAME) -> None:
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
    client.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))


async def test_three_replicas_start_in_order_each_with_own_claim(empty):
    client = empty
    async with record_pods(client.cluster, client.namespace) as seen:
        client.apply(a_cluster())
        await client.wait(f"statefulcluster/{NAME}", "--for=condition=Ready", seconds=300)
    seen.check(**OURS)
    found = await wait_until_ready(client)
    assert sorted(found["status"]["replicaNames"]) == sorted(pods(client))
    await eventually(lambda: assert_claim_states(client, ["InUse"] * 3))
    assert sorted(claim_states(found)) == sorted(claims(client))
    assert len({claim for held in claims_by_pod(client).values() for claim in held}) == 3
    for name in pods(client):
        draw = name.removeprefix(f"{NAME}-")
        assert draw != name, f"{name} is not called after its cluster"
        assert not draw.isdecimal(), f"{name} looks like an ordinal"


@pytest.mark.exhaustive
async def test_kubectl_get_scale_and_wait_work_for_statefulcluster(filled):
    client, _ = filled
    header, row = client.kubectl("get", "stc").splitlines()
    assert header.split()[:5] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:4] == [NAME, "3/3", "3", "3"]
    client.kubectl("scale", f"statefulcluster/{NAME}", "--replicas=2")
    await wait_until_ready(client, 2)
    client.kubectl("wait", f"stc/{NAME}", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=120s")
    scale = json.loads(
        client.kubectl(
            "get",
            "--raw",
            f"/apis/{API_VERSION}/namespaces/{client.namespace}/statefulclusters/{NAME}/scale",
        )
    )
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
    assert "kind=StatefulCluster" in scale["status"]["selector"]


async def test_killed_pod_is_replaced_with_new_name_and_same_data(filled):
    client, written = filled
    before = claims_by_pod(client)
    victim = sorted(before)[0]
    async with record_pods(client.cluster, client.namespace) as seen:
        client.kubectl("delete", "pod", victim, "--now", "--wait=false")

        def assert_replaced() -> None:
            assert victim not in pods(client)
            assert len(pods(client)) == 3

        await eventually(assert_replaced, within=120)
        await wait_until_ready(client)
    seen.check(at_least=2, **OURS)
    after = claims_by_pod(client)
    assert set(before) - set(after) == {victim}
    (newcomer,) = set(after) - set(before)
    assert after[newcomer] == before[victim], "the data of the killed replica was not taken up again"
    await assert_records_unchanged(client, written)


@pytest.mark.exhaustive
async def test_killed_container_restarts_in_its_pod(filled):
    client, written = filled
    before = {name: pod["metadata"]["uid"] for name, pod in pods(client).items()}
    victim = sorted(before)[1]
    (container,) = pods(client)[victim]["status"]["containerStatuses"]
    async with record_pods(client.cluster, client.namespace) as seen:
        NodeContainerd(client.cluster).kill_container(container["containerID"])

        def assert_restarted() -> None:
            (now,) = pods(client)[victim]["status"]["containerStatuses"]
            assert (now["restartCount"], now["ready"]) == (1, True), now

        await eventually(assert_restarted, within=120)
        await wait_until_ready(client)
    seen.check(at_least=2, **OURS)
    assert {name: pod["metadata"]["uid"] for name, pod in pods(client).items()} == before
    await assert_records_unchanged(client, written)


@pytest.mark.exhaustive
async def test_fixed_template_recovers_statefulcluster_where_statefulset_stays_stuck(filled):
    client, written = filled
    twin = "twin"
    client.apply(a_cluster(kind="StatefulSet", name=twin))
    client.kubectl("rollout", "status", f"statefulset/{twin}", "--timeout=300s")

    def stuck(kind: str) -> str:
        waiting = [
            name
            for name, pod in pods(client, kind).items()
            if pod["spec"]["containers"][0]["image"] == MISSING_IMAGE and not is_ready(pod)
        ]
        assert len(waiting) == 1, f"{kind}: {waiting}"
        return waiting[0]

    async with record_pods(client.cluster, client.namespace) as seen:
        for kind, name in (("statefulcluster", NAME), ("statefulset", twin)):
            set_image(client, MISSING_IMAGE, kind, name)
        await eventually(lambda: (stuck("StatefulCluster"), stuck("StatefulSet")), within=120)
        for kind, name in (("statefulcluster", NAME), ("statefulset", twin)):
            set_image(client, IMAGE, kind, name)
        await wait_until_ready(client)
    seen.check(at_least=2, **OURS)
    await assert_records_unchanged(client, written)

    def assert_observed() -> None:
        found = client.get("statefulset", twin)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]

    await eventually(assert_observed)
    victim = stuck("StatefulSet")
    client.kubectl("delete", "pod", victim)
    client.kubectl("rollout", "status", f"statefulset/{twin}", "--timeout=300s")
    client.kubectl("delete", "statefulset", twin)


@pytest.mark.exhaustive
async def test_scaling_down_and_up_reuses_volumes(filled):
    client, written = filled
    before, names = claims(client), set(pods(client))
    async with record_pods(client.cluster, client.namespace) as seen:
        client.kubectl("scale", f"stc/{NAME}", "--replicas=1")
        await wait_until_ready(client, 1)
        await eventually(lambda: assert_claim_states(client, ["Free", "Free", "InUse"]))
        assert claims(client) == before, "a claim went with its replica"
        client.kubectl("scale", f"stc/{NAME}", "--replicas=3")
        await wait_until_ready(client)
    seen.check(at_least=1, **OURS)
    assert claims(client) == before
    await eventually(lambda: assert_claim_states(client, ["InUse"] * 3))
    assert len(names & set(pods(client))) == 1, "a name was drawn twice"
    await assert_records_unchanged(client, written)


@pytest.mark.exhaustive
async def test_poddisruptionbudget_that_blocks_removal_is_reported(filled):
    client, written = filled
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "hands-off"},
        # For maxUnavailable, Kubernetes reads the desired replicas from the scale subresource.
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": OURS}},
    }
    client.apply(budget)

    def assert_counted() -> None:
        found = client.get("pdb", "hands-off")["status"]
        assert (found["expectedPods"], found["currentHealthy"]) == (3, 3), found

    await eventually(assert_counted, within=120)
    client.kubectl("scale", f"stc/{NAME}", "--replicas=2")

    def assert_blocked() -> None:
        found = find_condition(client.get("statefulcluster", NAME), "Blocked")
        assert found.get("status") == "True", found
        assert "hands-off" in found["message"], found

    await eventually(assert_blocked, within=120)
    assert len(pods(client)) == 3
    assert await all_records(client) == written
    client.kubectl("delete", "pdb", "hands-off")
    found = await wait_until_ready(client, 2)
    assert find_condition(found, "Blocked").get("status") != "True", found["status"]


@pytest.mark.exhaustive
async def test_replica_hostnames_resolve_from_other_replicas(filled):
    client, written = filled
    found = pods(client)
    asker = sorted(found)[0]
    for name, pod in found.items():
        (claim,) = claims_of(pod)
        full = f"{name}.{NAME}.{client.namespace}.svc.cluster.local"
        for host in (f"{name}.{NAME}", full):

            def assert_resolved(host: str = host, pod: dict = pod, full: str = full) -> None:
                answer = client.run("exec", asker, "--", "getent", "hosts", host).stdout
                # A pod resolves its own name from /etc/hosts, with the short name after it.
                assert answer.split()[:2] == [pod["status"]["podIP"], full], f"{host}: {answer!r}"

            await eventually(assert_resolved, within=120)
        said = client.kubectl(
            "exec", asker, "--", "kv", "-server", f"nats://{name}.{NAME}:4222", "get", claim
        )
        assert said.strip() == written[claim]


@pytest.mark.exhaustive
async def test_claims_survive_deletion_and_are_reused_by_cluster_of_same_name(filled):
    client, written = filled
    before = claims(client)
    client.kubectl("delete", f"stc/{NAME}", "--timeout=120s")

    def assert_no_pods() -> None:
        assert client.get("pods")["items"] == []

    await eventually(assert_no_pods, within=120)
    assert claims(client) == before
    client.apply(a_cluster())
    await wait_until_ready(client)
    assert claims(client) == before
    await assert_records_unchanged(client, written)


async def test_update_replaces_every_pod_and_keeps_hostnames_and_claims(filled):
    client, written = filled
    NodeContainerd(client.cluster).tag_image(IMAGE, OTHER_IMAGE)
    before, uids = claims_by_pod(client), {pod["metadata"]["uid"] for pod in pods(client).values()}
    old = client.get("statefulcluster", NAME)["status"]["updateRevision"]
    async with record_pods(client.cluster, client.namespace) as seen:
        set_image(client, OTHER_IMAGE)
        found = await wait_until_ready(client)
    seen.check(at_least=2, **OURS)
    assert claims_by_pod(client) == before
    now = pods(client).values()
    assert not uids & {pod["metadata"]["uid"] for pod in now}
    assert {pod["spec"]["containers"][0]["image"] for pod in now} == {OTHER_IMAGE}
    assert found["status"]["updateRevision"] == found["status"]["currentRevision"] != old
    revisions = [each["metadata"]["name"] for each in client.get("controllerrevisions")["items"]]
    assert {old, found["status"]["updateRevision"]} <= set(revisions), revisions
    await assert_records_unchanged(client, written)


async def test_operator_log_has_no_forbidden_requests(operator):
    assert find_forbidden_requests(operator) == []
