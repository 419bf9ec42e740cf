"""The suite operator in pods, on a node of its own: it installs the controllers, and they work.

The other end-to-end tests run the controllers from config/default, which does not go together with this.
"""

import json
import subprocess
import tarfile
from collections.abc import Iterator

import pytest

from e2e.checkups import a_checkup, furnish
from e2e.conftest import COMMAND
from e2e.place import SYSTEM, Place
from e2e.runtime import Runtime
from kit.cluster.control_plane import cluster_with_a_node
from kit.eventually import eventually
from kit.kinds.jsonservers import a_jsonserver
from quintet.components import COMPONENTS
from quintet.local.cluster import Cluster

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.timeout(900)]

SHOP = "shop"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_with_a_node("suite", tmp_path_factory.mktemp("suite")) as started:
        yield started


def command(own: Cluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    argv = [COMMAND, *arguments, "--kubeconfig", str(own.kubeconfig), "--timeout", "400"]
    return subprocess.run(argv, capture_output=True, text=True)


@pytest.fixture(scope="module")
def system(own: Cluster) -> Place:
    """The namespace of the operator, once every controller is available."""
    place = Place(own, SYSTEM)
    done = command(own, "install", "--replicas", "1")
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def shop(system: Place) -> Place:
    return furnish(system, SHOP)


def running(system: Place) -> dict[str, str]:
    """Account → the controllers that its pod runs."""
    pods = system.get("pods", "", "-l", "app.kubernetes.io/managed-by=quintet-operator")["items"]
    return {
        pod["spec"]["serviceAccountName"]: next(
            each for each in pod["spec"]["containers"][0]["args"] if each.startswith("--controllers=")
        )
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    }


async def test_every_controller_runs_as_an_account_of_its_own(system: Place):
    assert running(system) == {f"quintet-{name}": f"--controllers={name}" for name in COMPONENTS}
    found = system.get("quintets", "quintet")
    assert {
        each["name"]: each.get("ready", False) for each in found["status"]["components"]
    } == dict.fromkeys(COMPONENTS, True)


async def test_once_it_is_installed_webhooks_lead_to_the_controller_of_the_kind(system: Place):
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        found = system.get(kind, "quintet-jsonserver").get("webhooks", [])
        services = {each["clientConfig"]["service"]["name"] for each in found}
        assert services == {"quintet-jsonserver-webhooks"}, found

    def refused() -> None:
        body = a_jsonserver("app-wrong", config="no json")
        said = system.at("default").refused("apply", "--dry-run=server", "-f", "-", input=body)
        assert "Invalid JSON configuration." in said

    await eventually(refused, within=60)


async def test_a_jsonserver_and_a_checkup_work(shop: Place):
    def accepted() -> None:
        shop.apply(a_jsonserver("app-books", '{"books": []}'))

    await eventually(accepted, within=60)
    shop.wait_for("app-books", "Ready", 240)
    shop.apply(a_checkup("hello"))
    shop.kubectl("wait", "checkup/hello", "--for=condition=Succeeded", "--timeout=240s")


def said(own: Cluster, *arguments: str) -> str:
    """What a command prints that ends well."""
    argv = [COMMAND, *arguments, "--kubeconfig", str(own.kubeconfig)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


async def test_the_command_line_shows_what_works_here(own: Cluster, shop: Place):
    where = ("-n", SHOP)
    assert "Ready" in said(own, "status", "jsonserver", "app-books", *where)
    (pod,) = shop.pods("app-books")
    assert f"Pod {pod['metadata']['name']}" in said(own, "tree", "jsonserver", "app-books", *where)
    assert "Resources" in said(own, "logs", "jsonserver", "app-books", *where)
    assert "Leading" in said(own, "logs", "controller", "jsonserver")
    assert "Succeeded" in said(own, "explain", "checkup", "hello", *where)
    assert "app-books" in said(own, "events", *where)
    assert "ok" in said(own, "doctor")


async def test_a_report_has_the_logs_of_every_controller_and_no_data_of_a_user(
    own: Cluster, shop: Place, tmp_path
):
    archive = tmp_path / "report.tar.gz"
    said(own, "report", "--output", str(archive))
    with tarfile.open(archive) as opened:
        files = {each.name: opened.extractfile(each) for each in opened if each.isfile()}
        texts = {name: file.read().decode() for name, file in files.items() if file is not None}
    for name in ("operator", *COMPONENTS):
        assert any(f"quintet-{name}" in path and "logs" in path for path in texts), sorted(texts)
    assert not [path for path, text in texts.items() if '{"books": []}' in text]


async def test_when_the_leader_is_killed_another_goes_on(own: Cluster, system: Place, shop: Place):
    """Killed without a word, so that its lease has to run out."""
    settings = {"spec": {"settings": {"jsonserver": {"replicas": 2}}}}
    system.kubectl("patch", "quintets", "quintet", "--type=merge", "-p", json.dumps(settings))

    def two() -> None:
        status = system.get("deployment", "quintet-jsonserver")["status"]
        assert (status["replicas"], status.get("availableReplicas")) == (2, 2)

    await eventually(two, within=240)
    before = system.get("lease", "quintet-jsonserver")["spec"]
    pod = system.get("pod", before["holderIdentity"].rpartition("-")[0])
    Runtime(own).kill_container(pod["status"]["containerStatuses"][0]["containerID"])

    def changed() -> None:
        shop.kubectl("patch", "jsonserver", "app-books", "--type=merge", "-p", '{"spec": {"replicas": 2}}')

    await eventually(changed, within=120)

    def gone_on() -> None:
        lease = system.get("lease", "quintet-jsonserver")["spec"]
        assert lease["leaseTransitions"] > before["leaseTransitions"], lease
        assert lease["holderIdentity"] != before["holderIdentity"], lease
        assert len(shop.pods("app-books")) == 2

    await eventually(gone_on, within=240)


async def test_nobody_misses_a_right(system: Place, shop: Place):
    log = system.kubectl("logs", "-l", "app.kubernetes.io/part-of=quintet", "--tail=-1", "--prefix")
    refused = [line for line in log.splitlines() if "system:serviceaccount:" in line]
    assert refused == []


async def test_a_controller_that_is_taken_out_blocks_nobody(system: Place, shop: Place):
    rest = [name for name in COMPONENTS if name != "jsonserver"]
    system.kubectl(
        "patch", "quintets", "quintet", "--type=merge", "-p", json.dumps({"spec": {"controllers": rest}})
    )

    def gone() -> None:
        assert "quintet-jsonserver" not in running(system)
        for kind in (
            "mutatingwebhookconfiguration",
            "validatingwebhookconfiguration",
            "clusterrole",
            "lease",
        ):
            assert system.run("get", kind, "quintet-jsonserver").returncode != 0, kind
        assert system.run("get", "secret", "quintet-jsonserver-webhook-certs").returncode != 0

    await eventually(gone, within=120)

    def annotated() -> None:
        shop.kubectl("annotate", "jsonserver", "app-books", "seen=yes", "--overwrite")

    await eventually(annotated, within=60)  # the API server hears of the end of a webhook through a watch
    assert shop.get("jsonserver", "app-books")["metadata"]["annotations"]["seen"] == "yes"
    assert len(shop.pods("app-books")) == 2, "its pods go on without a controller"


async def test_uninstalling_leaves_what_users_made(own: Cluster, system: Place, shop: Place):
    done = command(own, "uninstall")
    assert done.returncode == 0, done.stderr
    assert "JsonServer shop/app-books" in done.stderr
    assert shop.get("jsonserver", "app-books")["spec"]["jsonConfig"] == '{"books": []}'

    def nobody() -> None:
        assert system.kubectl("get", "pods", "-o", "name") == ""

    await eventually(nobody, within=120)
