"""StatefulClusters of a real program on a real node: nothing that happens to them loses data.

The operator runs in the cluster, as it is installed from config/default. Pods are recorded by a
watch while things happen, so "one at a time" is a statement about every moment, not about samples.
"""

import json

import pytest
import yaml

from e2e.place import ROOT, Place, a_condition, refusals
from e2e.runtime import Runtime
from e2e.statefulclusters import (
    API_VERSION,
    IMAGE,
    NAME,
    a_cluster,
    a_headless_service,
    all_records,
    an_autoscaler,
    claims,
    each_where_it_was,
    fill,
    ledger,
    pods,
    settled,
)
from kit.eventually import eventually
from kit.recorder import claims_of, is_ready, recording

pytestmark = pytest.mark.node

OURS = {"kind": "StatefulCluster"}
OTHER_IMAGE = "quintet.local/nats:other-name"
MISSING_IMAGE = "quintet.local/nats:not-there"


@pytest.fixture
async def filled(place) -> tuple[Place, dict[str, str]]:
    """A namespace with three replicas, each with a record of its own."""
    place.apply(a_headless_service())
    place.apply(a_cluster())
    await settled(place)
    return place, fill(place)


def placed(place: Place) -> dict[str, set[str]]:
    """Which replica has which claims."""
    return {name: claims_of(pod) for name, pod in pods(place).items()}


def in_ledger(place: Place, want_states: list[str]) -> None:
    """Assert the states of all claims, as the StatefulCluster tells them."""
    found = ledger(place.get("statefulcluster", NAME))
    assert sorted(found.values()) == want_states, found


def set_image(place: Place, image: str, kind: str = "statefulcluster", name: str = NAME) -> None:
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
    place.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))


async def test_three_replicas_start_one_after_the_other_each_with_a_claim_of_its_own(place):
    async with recording(place.cluster, place.namespace) as seen:
        place.apply(a_cluster())
        place.kubectl("wait", f"statefulcluster/{NAME}", "--for=condition=Ready", "--timeout=300s")
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
    async with recording(place.cluster, place.namespace) as seen:
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


async def test_a_container_killed_on_the_node_restarts_in_place(filled):
    place, written = filled
    before = {name: pod["metadata"]["uid"] for name, pod in pods(place).items()}
    victim = sorted(before)[1]
    (container,) = pods(place)[victim]["status"]["containerStatuses"]
    async with recording(place.cluster, place.namespace) as seen:
        Runtime(place.cluster).kill_container(container["containerID"])

        def restarted() -> None:
            (now,) = pods(place)[victim]["status"]["containerStatuses"]
            assert (now["restartCount"], now["ready"]) == (1, True), now

        await eventually(restarted, within=120)
        await settled(place)
    seen.check(at_least=2, **OURS)
    assert {name: pod["metadata"]["uid"] for name, pod in pods(place).items()} == before
    await each_where_it_was(place, written)


async def test_an_update_replaces_every_pod_and_keeps_its_name_and_claims(filled):
    place, written = filled
    Runtime(place.cluster).also_known_as(IMAGE, OTHER_IMAGE)
    before, uids = placed(place), {pod["metadata"]["uid"] for pod in pods(place).values()}
    old = place.get("statefulcluster", NAME)["status"]["updateRevision"]
    async with recording(place.cluster, place.namespace) as seen:
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

    async with recording(place.cluster, place.namespace) as seen:
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


async def test_scaled_down_and_up_again_the_same_volumes_are_used(filled):
    place, written = filled
    before, names = claims(place), set(pods(place))
    async with recording(place.cluster, place.namespace) as seen:
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


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_volume_on_a_node_that_is_gone_is_set_aside_and_the_replica_comes_back(filled):
    place, written = filled
    before = placed(place)
    victim = sorted(before)[0]
    (lost,) = before[victim]
    volume = place.get("pvc", lost)["spec"]["volumeName"]
    gone = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a-node-that-is-gone"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [gone]}]}}
    place.kubectl(
        "patch", "pv", volume, "--type=merge", "-p", json.dumps({"spec": {"nodeAffinity": affinity}})
    )
    place.kubectl("delete", "pod", victim, "--wait=false")

    def set_aside() -> None:
        found = place.get("statefulcluster", NAME)
        assert ledger(found).get(lost) == "Unusable", found["status"]

    await eventually(set_aside, within=300)
    found = await settled(place)
    (entry,) = (each for each in found["status"]["claims"] if each["name"] == lost)
    assert entry["nextStep"], entry
    after = placed(place)
    assert lost not in {claim for held in after.values() for claim in held}
    assert lost in claims(place), "what lies on the volume was given up"
    kept = {claim: value for claim, value in written.items() if claim != lost}
    assert await all_records(place) == kept


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


async def test_a_statefulset_of_the_documentation_runs_with_only_its_kind_changed(operator, place):
    web = place.at(f"{place.namespace}-web")  # the manifest asks for root, which `restricted` forbids
    web.kubectl("create", "namespace", web.namespace)
    try:
        Runtime(place.cluster).load_web()
        text = (ROOT / "tests/e2e/data/web.yaml").read_text()
        changed = text.replace("apps/v1", API_VERSION).replace("kind: StatefulSet", "kind: StatefulCluster")
        assert len(text.splitlines()) == len(changed.splitlines())
        web.kubectl("apply", "-f", "-", input=changed)
        web.kubectl("wait", "statefulcluster/web", "--for=condition=Ready", "--timeout=300s")
        names = web.get("statefulcluster", "web")["status"]["replicaNames"]
        assert len(names) == 2
        for name in names:
            write = "echo $(hostname) >/usr/share/nginx/html/index.html"
            web.kubectl("exec", name, "--", "sh", "-c", write)

            def resolved(name: str = name) -> None:
                assert f"{name}.nginx" in web.kubectl("exec", name, "--", "getent", "hosts", f"{name}.nginx")

            await eventually(resolved, within=120)  # cluster DNS follows the pods with a delay
        victim = names[0]
        web.kubectl("delete", "pod", victim)
        web.kubectl("wait", "statefulcluster/web", "--for=condition=Ready", "--timeout=300s")

        def back() -> None:
            now = web.get("statefulcluster", "web")["status"]["replicaNames"]
            assert victim not in now
            pages = [
                web.kubectl("exec", each, "--", "cat", "/usr/share/nginx/html/index.html") for each in now
            ]
            assert sorted(page.strip() for page in pages) == sorted(names), pages

        await eventually(back, within=120)
    finally:
        web.run("delete", "namespace", web.namespace, "--wait=false")


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


async def test_claims_go_with_their_cluster_where_that_is_asked_for(place):
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    place.apply(a_cluster(2, persistentVolumeClaimRetentionPolicy=policy))
    await settled(place, 2)
    place.kubectl("scale", f"stc/{NAME}", "--replicas=1")
    await settled(place, 1)

    def one_left() -> None:
        assert len(claims(place)) == 1, claims(place)

    await eventually(one_left, within=120)
    place.kubectl("delete", f"stc/{NAME}", "--timeout=120s")

    def none_left() -> None:
        assert claims(place) == {}

    await eventually(none_left, within=120)


async def test_an_autoscaler_scales_a_statefulcluster(place):
    place.apply(a_cluster(1))
    await settled(place, 1)
    place.apply(an_autoscaler(2, 3))

    def scaled() -> None:
        assert place.get("statefulcluster", NAME)["spec"]["replicas"] == 2, place.get("hpa", NAME)["status"]

    await eventually(scaled, within=120)
    await settled(place, 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_the_example_keeps_its_records_while_every_server_is_replaced(place):
    manifest = ROOT / "examples/03-statefulcluster/journal.yaml"
    cluster = next(
        each for each in yaml.safe_load_all(manifest.read_text()) if each["kind"] == "StatefulCluster"
    )
    assert cluster["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
    place.kubectl("apply", "-f", str(manifest))
    place.kubectl("wait", "stc/journal", "--for=condition=Ready", "--timeout=180s")

    def ask(*words: str) -> str:
        pod = place.get("statefulcluster", "journal")["status"]["replicaNames"][-1]
        return place.kubectl("exec", pod, "--", "kv", "-server", "nats://journal:4222", *words)

    await eventually(lambda: ask("-replicas", "3", "put", "greeting", "hello"), within=120)
    for victim in place.get("statefulcluster", "journal")["status"]["replicaNames"]:
        place.kubectl("delete", "pod", victim)

        def replaced(victim: str = victim) -> None:
            status = place.get("statefulcluster", "journal")["status"]
            assert victim not in status["replicaNames"], status
            assert status["availableReplicas"] == 3, status

        await eventually(replaced, within=120)
    await eventually(lambda: ask("put", "farewell", "goodbye"), within=120)

    def kept() -> None:
        assert ask("list") == "farewell=goodbye\ngreeting=hello\n"

    # Asked of a server that is still catching up with the others, a list lacks what these have.
    await eventually(kept, within=120)
    assert len(claims(place)) == 3


async def test_all_of_this_took_no_right_that_the_operator_does_not_have(operator):
    assert refusals(operator) == []
