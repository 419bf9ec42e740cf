"""StatefulClusters that need their own namespace: a lost volume, the examples, an autoscaler, deletion of claims."""

import json
from collections.abc import AsyncIterator

import pytest
import yaml

from e2e.conftest import new_namespace, remove_namespace
from e2e.kubectl_client import ROOT, KubectlClient, horizontal_pod_autoscaler
from e2e.node_containerd import NodeContainerd
from e2e.statefulclusters import (
    API_VERSION,
    IMAGE,
    NAME,
    a_cluster,
    a_headless_service,
    all_records,
    claim_states,
    claims,
    claims_by_pod,
    wait_until_ready,
    write_records,
)
from kit.eventually import eventually

pytestmark = [pytest.mark.node, pytest.mark.exhaustive]


@pytest.fixture(scope="module")
async def cases(operator) -> AsyncIterator[dict[str, KubectlClient]]:
    """Namespaces with StatefulClusters that start together, one per test."""
    manifest = yaml.safe_load_all((ROOT / "examples/03-statefulcluster/journal.yaml").read_text())
    gone_with_it = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    made = {
        "lost": new_namespace(
            operator, a_headless_service(), a_cluster(cluster={"dataLoss": {"after": "1m"}})
        ),
        "journal": new_namespace(operator, *manifest),
        "deleted": new_namespace(operator, a_cluster(2, persistentVolumeClaimRetentionPolicy=gone_with_it)),
        "autoscaled": new_namespace(
            operator, a_cluster(1), horizontal_pod_autoscaler(API_VERSION, "StatefulCluster", NAME, 2, 3)
        ),
    }
    yield made
    for each in made.values():
        remove_namespace(each)


@pytest.fixture(scope="module")
async def lost(cases) -> tuple[KubectlClient, dict[str, str], str]:
    """A namespace with one of three volumes on a lost node; its records, and the claim."""
    client = cases["lost"]
    await wait_until_ready(client)
    written = write_records(client)
    victim, held = min(claims_by_pod(client).items())
    (claim,) = held
    volume = client.get("pvc", claim)["spec"]["volumeName"]
    gone = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a-node-that-is-gone"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [gone]}]}}
    patch = json.dumps({"spec": {"nodeAffinity": affinity}})
    client.kubectl("patch", "pv", volume, "--type=merge", "-p", patch)
    client.kubectl("delete", "pod", victim, "--wait=false")
    return client, written, claim


@pytest.fixture(scope="module", autouse=True)
def _early(request: pytest.FixtureRequest) -> None:
    """Lose the volume before the first test, because it counts as lost only after two minutes."""
    if any("lost" in item.fixturenames for item in request.session.items if item.path == request.path):
        request.getfixturevalue("lost")


async def test_statefulcluster_with_delete_policy_deletes_its_claims(cases):
    client = cases["deleted"]
    await wait_until_ready(client, 2)
    client.kubectl("scale", f"stc/{NAME}", "--replicas=1")
    await wait_until_ready(client, 1)

    def assert_one_left() -> None:
        assert len(claims(client)) == 1, claims(client)

    await eventually(assert_one_left, within=120)
    client.kubectl("delete", f"stc/{NAME}", "--timeout=120s")

    def assert_none_left() -> None:
        assert claims(client) == {}

    await eventually(assert_none_left, within=120)


async def test_horizontalpodautoscaler_scales_statefulcluster(cases):
    client = cases["autoscaled"]
    await client.wait(f"statefulcluster/{NAME}", "--for=jsonpath={.spec.replicas}=2")
    await wait_until_ready(client, 2)


async def test_statefulset_manifest_of_kubernetes_docs_runs_as_statefulcluster(operator, client):
    web = client.in_namespace(
        f"{client.namespace}-web"
    )  # the manifest needs root, which `restricted` forbids
    web.kubectl("create", "namespace", web.namespace)
    try:
        NodeContainerd(client.cluster).load_web()
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

            def assert_resolved(name: str = name) -> None:
                assert f"{name}.nginx" in web.kubectl("exec", name, "--", "getent", "hosts", f"{name}.nginx")

            await eventually(assert_resolved, within=120)  # cluster DNS resolves new pods with a delay
        victim = names[0]
        web.kubectl("delete", "pod", victim, "--now")
        web.kubectl("wait", "statefulcluster/web", "--for=condition=Ready", "--timeout=300s")

        def assert_ready_again() -> None:
            now = web.get("statefulcluster", "web")["status"]["replicaNames"]
            assert victim not in now
            pages = [
                web.kubectl("exec", each, "--", "cat", "/usr/share/nginx/html/index.html") for each in now
            ]
            assert sorted(page.strip() for page in pages) == sorted(names), pages

        await eventually(assert_ready_again, within=120)
    finally:
        web.run("delete", "namespace", web.namespace, "--wait=false")


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_statefulcluster_example_keeps_records_while_every_pod_is_replaced(cases):
    client = cases["journal"]
    await client.wait("stc/journal", "--for=condition=Ready")
    cluster = client.get("statefulcluster", "journal")
    assert cluster["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE

    def run_kv(*words: str) -> str:
        pod = client.get("statefulcluster", "journal")["status"]["replicaNames"][-1]
        return client.kubectl("exec", pod, "--", "kv", "-server", "nats://journal:4222", *words)

    await eventually(lambda: run_kv("-replicas", "3", "put", "greeting", "hello"), within=120)
    for victim in client.get("statefulcluster", "journal")["status"]["replicaNames"]:
        client.kubectl("delete", "pod", victim)

        def assert_replaced(victim: str = victim) -> None:
            status = client.get("statefulcluster", "journal")["status"]
            assert victim not in status["replicaNames"], status
            assert status["availableReplicas"] == 3, status

        await eventually(assert_replaced, within=120)
    await eventually(lambda: run_kv("put", "farewell", "goodbye"), within=120)

    def assert_records_kept() -> None:
        assert run_kv("list") == "farewell=goodbye\ngreeting=hello\n"

    # The list of a server that is still catching up is incomplete.
    await eventually(assert_records_kept, within=120)
    assert len(claims(client)) == 3


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_replica_whose_volume_is_on_lost_node_gets_new_claim(lost):
    client, written, claim = lost

    def assert_set_aside() -> None:
        found = client.get("statefulcluster", NAME)
        assert claim_states(found).get(claim) == "Unusable", found["status"]

    await eventually(assert_set_aside, within=300)
    found = await wait_until_ready(client)
    (entry,) = (each for each in found["status"]["claims"] if each["name"] == claim)
    assert entry["nextStep"], entry
    assert claim not in {held for each in claims_by_pod(client).values() for held in each}
    assert claim in claims(client), "what lies on the volume was given up"
    kept = {name: value for name, value in written.items() if name != claim}
    assert await all_records(client) == kept
