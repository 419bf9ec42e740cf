"""StatefulClusters of a real program on a real node: nothing that happens to them loses data.

The operator runs in the cluster, as it is installed from config/default. Pods are recorded by a
watch while things happen, so "one at a time" is a statement about every moment, not about samples.
What needs a namespace of its own is in test_statefulcluster_cases_on_a_node.py.
"""

import json

import pytest

from e2e.place import Place, a_condition, a_list, refusals
from e2e.runtime import Runtime
from e2e.statefulclusters import (
    API_VERSION,
    IMAGE,
    NAME,
    a_cluster,
    a_headless_service,
    all_records,
    claims,
    each_where_it_was,
    fill,
    ledger,
    placed,
    pods,
    settled,
)
from kit.cluster.pod_recorder import claims_of, is_ready, record_pods
from kit.eventually import eventually

pytestmark = pytest.mark.node

OURS = {"kind": "StatefulCluster"}
OTHER_IMAGE = "quintet.local/nats:other-name"
MISSING_IMAGE = "quintet.local/nats:not-there"


@pytest.fixture
async def empty(shared_place) -> Place:
    """The shared namespace without replicas and claims."""
    shared_place.kubectl("delete", "statefulclusters,statefulsets,pvc", "--all", "--timeout=120s")
    await shared_place.wait("pods", "--all", "--for=delete")
    return shared_place


@pytest.fixture
async def filled(shared_place) -> tuple[Place, dict[str, str]]:
    """The shared namespace with three replicas, each with a record of its own."""
    shared_place.apply(a_list(a_headless_service(), a_cluster()))
    await settled(shared_place)
    return shared_place, fill(shared_place)


def in_ledger(place: Place, want_states: list[str]) -> None:
    """Assert the states of all claims, as the StatefulCluster tells them."""
    found = ledger(place.get("statefulcluster", NAME))
    assert sorted(found.values()) == want_states, found


def set_image(place: Place, image: str, kind: str = "statefulcluster", name: str = NAME) -> None:
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
    place.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))


async def test_three_replicas_start_one_after_the_other_each_with_a_claim_of_its_own(empty):
    place = empty
    async with record_pods(place.cluster, place.namespace) as seen:
        place.apply(a_cluster())
        await place.wait(f"statefulcluster/{NAME}", "--for=condition=Ready", seconds=300)
    seen.check(**OURS)
    found = await settled(place)
    assert sorted(found["status"]["replicaNames"]) == sorted(pods(place))
    await eventually(lambda: in_ledger(place, ["InUse"] * 3))
    assert sorted(ledger(found)) == sorted(claims(place))
    assert len({claim for held in placed(place).values() for claim in held}) == 3
    for name in pods(place):
        draw = name.removeprefix(f"{NAME}-")
        assert draw != name, f"{name} is not called after its cluster"
        assert not draw.isdecimal(), f"{name} looks like an ordinal"


@pytest.mark.exhaustive
async def test_kubectl_shows_scales_and_waits_as_for_a_statefulset(filled):
    place, _ = filled
    header, row = place.kubectl("get", "stc").splitlines()
    assert header.split()[:5] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:4] == [NAME, "3/3", "3", "3"]
    place.kubectl("scale", f"statefulcluster/{NAME}", "--replicas=2")
    await settled(place, 2)
    place.kubectl("wait", f"stc/{NAME}", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=120s")
    scale = json.loads(
        place.kubectl(
            "get",
            "--raw",
            f"/apis/{API_VERSION}/namespaces/{place.namespace}/statefulclusters/{NAME}/scale",
        )
    )
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
    assert "kind=StatefulCluster" in scale["status"]["selector"]


async def test_a_killed_pod_comes_back_under_another_name_with_the_same_data(filled):
    place, written = filled
    before = placed(place)
    victim = sorted(before)[0]
    async with record_pods(place.cluster, place.namespace) as seen:
        place.kubectl("delete", "pod", victim, "--now", "--wait=false")

        def replaced() -> None:
            assert victim not in pods(place)
            assert len(pods(place)) == 3

        await eventually(replaced, within=120)
        await settled(place)
    seen.check(at_least=2, **OURS)
    after = placed(place)
    assert set(before) - set(after) == {victim}
    (newcomer,) = set(after) - set(before)
    assert after[newcomer] == before[victim], "the data of the killed replica was not taken up again"
    await each_where_it_was(place, written)


@pytest.mark.exhaustive
async def test_a_container_killed_on_the_node_restarts_in_place(filled):
    place, written = filled
    before = {name: pod["metadata"]["uid"] for name, pod in pods(place).items()}
    victim = sorted(before)[1]
    (container,) = pods(place)[victim]["status"]["containerStatuses"]
    async with record_pods(place.cluster, place.namespace) as seen:
        Runtime(place.cluster).kill_container(container["containerID"])

        def restarted() -> None:
            (now,) = pods(place)[victim]["status"]["containerStatuses"]
            assert (now["restartCount"], now["ready"]) == (1, True), now

        await eventually(restarted, within=120)
        await settled(place)
    seen.check(at_least=2, **OURS)
    assert {name: pod["metadata"]["uid"] for name, pod in pods(place).items()} == before
    await each_where_it_was(place, written)


@pytest.mark.exhaustive
async def test_a_mended_template_heals_by_itself_where_a_statefulset_stays_stuck(filled):
    place, written = filled
    twin = "twin"
    place.apply(a_cluster(kind="StatefulSet", name=twin))
    place.kubectl("rollout", "status", f"statefulset/{twin}", "--timeout=300s")

    def stuck(kind: str) -> str:
        waiting = [
            name
            for name, pod in pods(place, kind).items()
            if pod["spec"]["containers"][0]["image"] == MISSING_IMAGE and not is_ready(pod)
        ]
        assert len(waiting) == 1, f"{kind}: {waiting}"
        return waiting[0]

    async with record_pods(place.cluster, place.namespace) as seen:
        for kind, name in (("statefulcluster", NAME), ("statefulset", twin)):
            set_image(place, MISSING_IMAGE, kind, name)
        await eventually(lambda: (stuck("StatefulCluster"), stuck("StatefulSet")), within=120)
        for kind, name in (("statefulcluster", NAME), ("statefulset", twin)):
            set_image(place, IMAGE, kind, name)
        await settled(place)
    seen.check(at_least=2, **OURS)
    await each_where_it_was(place, written)

    def seen_by_its_controller() -> None:
        found = place.get("statefulset", twin)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]

    await eventually(seen_by_its_controller)
    victim = stuck("StatefulSet")
    place.kubectl("delete", "pod", victim)
    place.kubectl("rollout", "status", f"statefulset/{twin}", "--timeout=300s")
    place.kubectl("delete", "statefulset", twin)


@pytest.mark.exhaustive
async def test_scaled_down_and_up_again_the_same_volumes_are_used(filled):
    place, written = filled
    before, names = claims(place), set(pods(place))
    async with record_pods(place.cluster, place.namespace) as seen:
        place.kubectl("scale", f"stc/{NAME}", "--replicas=1")
        await settled(place, 1)
        await eventually(lambda: in_ledger(place, ["Free", "Free", "InUse"]))
        assert claims(place) == before, "a claim went with its replica"
        place.kubectl("scale", f"stc/{NAME}", "--replicas=3")
        await settled(place)
    seen.check(at_least=1, **OURS)
    assert claims(place) == before
    await eventually(lambda: in_ledger(place, ["InUse"] * 3))
    assert len(names & set(pods(place))) == 1, "a name was drawn twice"
    await each_where_it_was(place, written)


@pytest.mark.exhaustive
async def test_a_disruption_budget_holds_up_a_removal_and_is_named(filled):
    place, written = filled
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "hands-off"},
        # Not in numbers: the API server asks the scale subresource how many there should be.
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": OURS}},
    }
    place.apply(budget)

    def counted() -> None:
        found = place.get("pdb", "hands-off")["status"]
        assert (found["expectedPods"], found["currentHealthy"]) == (3, 3), found

    await eventually(counted, within=120)
    place.kubectl("scale", f"stc/{NAME}", "--replicas=2")

    def blocked() -> None:
        found = a_condition(place.get("statefulcluster", NAME), "Blocked")
        assert found.get("status") == "True", found
        assert "hands-off" in found["message"], found

    await eventually(blocked, within=120)
    assert len(pods(place)) == 3
    assert await all_records(place) == written
    place.kubectl("delete", "pdb", "hands-off")
    found = await settled(place, 2)
    assert a_condition(found, "Blocked").get("status") != "True", found["status"]


@pytest.mark.exhaustive
async def test_the_name_of_every_replica_resolves_from_another(filled):
    place, written = filled
    found = pods(place)
    asker = sorted(found)[0]
    for name, pod in found.items():
        (claim,) = claims_of(pod)
        full = f"{name}.{NAME}.{place.namespace}.svc.cluster.local"
        for host in (f"{name}.{NAME}", full):

            def resolved(host: str = host, pod: dict = pod, full: str = full) -> None:
                answer = place.run("exec", asker, "--", "getent", "hosts", host).stdout
                # A pod knows its own name by a file, with the short form behind it.
                assert answer.split()[:2] == [pod["status"]["podIP"], full], f"{host}: {answer!r}"

            await eventually(resolved, within=120)
        said = place.kubectl("exec", asker, "--", "kv", "-server", f"nats://{name}.{NAME}:4222", "get", claim)
        assert said.strip() == written[claim]


@pytest.mark.exhaustive
async def test_claims_outlive_their_cluster_and_the_next_of_its_name_takes_them_up(filled):
    place, written = filled
    before = claims(place)
    place.kubectl("delete", f"stc/{NAME}", "--timeout=120s")

    def no_pods() -> None:
        assert place.get("pods")["items"] == []

    await eventually(no_pods, within=120)
    assert claims(place) == before
    place.apply(a_cluster())
    await settled(place)
    assert claims(place) == before
    await each_where_it_was(place, written)


async def test_an_update_replaces_every_pod_and_keeps_its_name_and_claims(filled):
    place, written = filled
    Runtime(place.cluster).also_known_as(IMAGE, OTHER_IMAGE)
    before, uids = placed(place), {pod["metadata"]["uid"] for pod in pods(place).values()}
    old = place.get("statefulcluster", NAME)["status"]["updateRevision"]
    async with record_pods(place.cluster, place.namespace) as seen:
        set_image(place, OTHER_IMAGE)
        found = await settled(place)
    seen.check(at_least=2, **OURS)
    assert placed(place) == before
    now = pods(place).values()
    assert not uids & {pod["metadata"]["uid"] for pod in now}
    assert {pod["spec"]["containers"][0]["image"] for pod in now} == {OTHER_IMAGE}
    assert found["status"]["updateRevision"] == found["status"]["currentRevision"] != old
    revisions = [each["metadata"]["name"] for each in place.get("controllerrevisions")["items"]]
    assert {old, found["status"]["updateRevision"]} <= set(revisions), revisions
    await each_where_it_was(place, written)


async def test_all_of_this_took_no_right_that_the_operator_does_not_have(operator):
    assert refusals(operator) == []
