"""The suite operator in pods on a separate node: it installs the controllers, and they work."""

import json
import subprocess
import tarfile
from collections.abc import Iterator

import pytest

from e2e.checkups import a_checkup, create_checkup_namespace
from e2e.conftest import COMMAND
from e2e.kubectl_client import SYSTEM, KubectlClient
from e2e.node_containerd import NodeContainerd
from kit.cluster.control_plane import cluster_with_nodes
from kit.eventually import eventually
from kit.kinds.jsonservers import a_jsonserver
from quintet.components import COMPONENTS
from quintet.local.cluster import Cluster

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.timeout(900)]

SHOP = "shop"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_with_nodes("suite", tmp_path_factory.mktemp("suite")) as started:
        yield started


def command(own: Cluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    argv = [COMMAND, *arguments, "--kubeconfig", str(own.kubeconfig), "--timeout", "400"]
    return subprocess.run(argv, capture_output=True, text=True)


@pytest.fixture(scope="module")
def system(own: Cluster) -> KubectlClient:
    """The operator's namespace, after every controller is ready."""
    client = KubectlClient(own, SYSTEM)
    done = command(own, "install", "--replicas", "1")
    assert done.returncode == 0, done.stderr
    return client


@pytest.fixture(scope="module")
def shop(system: KubectlClient) -> KubectlClient:
    return create_checkup_namespace(system, SHOP)


def controllers_by_service_account(system: KubectlClient) -> dict[str, str]:
    """Return the controllers of each ServiceAccount's pod."""
    pods = system.get("pods", "", "-l", "app.kubernetes.io/managed-by=quintet-operator")["items"]
    return {
        pod["spec"]["serviceAccountName"]: next(
            each for each in pod["spec"]["containers"][0]["args"] if each.startswith("--controllers=")
        )
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    }


async def test_every_controller_has_its_own_serviceaccount(system: KubectlClient):
    assert controllers_by_service_account(system) == {
        f"quintet-{name}": f"--controllers={name}" for name in COMPONENTS
    }
    found = system.get("quintets", "quintet")
    assert {
        each["name"]: each.get("ready", False) for each in found["status"]["components"]
    } == dict.fromkeys(COMPONENTS, True)


async def test_webhooks_route_to_controller_of_the_kind_after_install(system: KubectlClient):
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        found = system.get(kind, "quintet-jsonserver").get("webhooks", [])
        services = {each["clientConfig"]["service"]["name"] for each in found}
        assert services == {"quintet-jsonserver-webhooks"}, found

    def assert_refused() -> None:
        body = a_jsonserver("app-wrong", config="no json")
        said = system.in_namespace("default").expect_failure(
            "apply", "--dry-run=server", "-f", "-", input=body
        )
        assert "Invalid JSON configuration." in said

    await eventually(assert_refused, within=60)


async def test_jsonserver_and_checkup_work_after_install(shop: KubectlClient):
    def assert_accepted() -> None:
        shop.apply(a_jsonserver("app-books", '{"books": []}'))

    await eventually(assert_accepted, within=60)
    shop.wait_for("app-books", "Ready", 240)
    shop.apply(a_checkup("hello"))
    shop.kubectl("wait", "checkup/hello", "--for=condition=Succeeded", "--timeout=240s")


def run_command(own: Cluster, *arguments: str) -> str:
    """Run a command, assert that it succeeds, and return its output."""
    argv = [COMMAND, *arguments, "--kubeconfig", str(own.kubeconfig)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


async def test_cli_status_shows_installed_objects(own: Cluster, shop: KubectlClient):
    where = ("-n", SHOP)
    assert "Ready" in run_command(own, "status", "jsonserver", "app-books", *where)
    (pod,) = shop.pods("app-books")
    assert f"Pod {pod['metadata']['name']}" in run_command(own, "tree", "jsonserver", "app-books", *where)
    assert "Resources" in run_command(own, "logs", "jsonserver", "app-books", *where)
    assert "Leading" in run_command(own, "logs", "controller", "jsonserver")
    assert "Succeeded" in run_command(own, "explain", "checkup", "hello", *where)
    assert "app-books" in run_command(own, "events", *where)
    assert "ok" in run_command(own, "doctor")


async def test_support_bundle_has_logs_of_every_controller_and_no_user_data(
    own: Cluster, shop: KubectlClient, tmp_path
):
    archive = tmp_path / "report.tar.gz"
    run_command(own, "report", "--output", str(archive))
    with tarfile.open(archive) as opened:
        files = {each.name: opened.extractfile(each) for each in opened if each.isfile()}
        texts = {name: file.read().decode() for name, file in files.items() if file is not None}
    for name in ("operator", *COMPONENTS):
        assert any(f"quintet-{name}" in path and "logs" in path for path in texts), sorted(texts)
    assert not [path for path, text in texts.items() if '{"books": []}' in text]


async def test_standby_takes_over_when_leader_is_killed(
    own: Cluster, system: KubectlClient, shop: KubectlClient
):
    """Kill the leader with SIGKILL, so that its lease must expire."""
    settings = {"spec": {"settings": {"jsonserver": {"replicas": 2}}}}
    system.kubectl("patch", "quintets", "quintet", "--type=merge", "-p", json.dumps(settings))

    def assert_two_replicas() -> None:
        status = system.get("deployment", "quintet-jsonserver")["status"]
        assert (status["replicas"], status.get("availableReplicas")) == (2, 2)

    await eventually(assert_two_replicas, within=240)
    before = system.get("lease", "quintet-jsonserver")["spec"]
    pod = system.get("pod", before["holderIdentity"].rpartition("-")[0])
    NodeContainerd(own).kill_container(pod["status"]["containerStatuses"][0]["containerID"])

    def assert_changed() -> None:
        shop.kubectl("patch", "jsonserver", "app-books", "--type=merge", "-p", '{"spec": {"replicas": 2}}')

    await eventually(assert_changed, within=120)

    def assert_continued() -> None:
        lease = system.get("lease", "quintet-jsonserver")["spec"]
        assert lease["leaseTransitions"] > before["leaseTransitions"], lease
        assert lease["holderIdentity"] != before["holderIdentity"], lease
        assert len(shop.pods("app-books")) == 2

    await eventually(assert_continued, within=240)


async def test_no_controller_lacks_a_permission(system: KubectlClient, shop: KubectlClient):
    log = system.kubectl("logs", "-l", "app.kubernetes.io/part-of=quintet", "--tail=-1", "--prefix")
    refused = [line for line in log.splitlines() if "system:serviceaccount:" in line]
    assert refused == []


async def test_removed_controller_does_not_block_other_kinds(system: KubectlClient, shop: KubectlClient):
    rest = [name for name in COMPONENTS if name != "jsonserver"]
    system.kubectl(
        "patch", "quintets", "quintet", "--type=merge", "-p", json.dumps({"spec": {"controllers": rest}})
    )

    def assert_deleted() -> None:
        assert "quintet-jsonserver" not in controllers_by_service_account(system)
        for kind in (
            "mutatingwebhookconfiguration",
            "validatingwebhookconfiguration",
            "clusterrole",
            "lease",
        ):
            assert system.run("get", kind, "quintet-jsonserver").returncode != 0, kind
        assert system.run("get", "secret", "quintet-jsonserver-webhook-certs").returncode != 0

    await eventually(assert_deleted, within=120)

    def assert_annotated() -> None:
        shop.kubectl("annotate", "jsonserver", "app-books", "seen=yes", "--overwrite")

    await eventually(assert_annotated, within=60)  # the API server learns of removed webhooks through a watch
    assert shop.get("jsonserver", "app-books")["metadata"]["annotations"]["seen"] == "yes"
    assert len(shop.pods("app-books")) == 2, "its pods go on without a controller"


async def test_uninstall_keeps_user_objects(own: Cluster, system: KubectlClient, shop: KubectlClient):
    done = command(own, "uninstall")
    assert done.returncode == 0, done.stderr
    assert "JsonServer shop/app-books" in done.stderr
    assert shop.get("jsonserver", "app-books")["spec"]["jsonConfig"] == '{"books": []}'

    def assert_no_pods() -> None:
        assert system.kubectl("get", "pods", "-o", "name") == ""

    await eventually(assert_no_pods, within=120)
