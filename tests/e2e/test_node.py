"""The embedded cluster with a real node: pods, network and volumes work, and `down` restores the machine."""

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest

from e2e.commands import eventually, kubectl
from e2e.conftest import COMMAND
from e2e.machine_state import CLUSTER, MachineState, find_processes_in_networks, processes
from e2e.node_containerd import NodeContainerd
from kit.permissions.audit_logs import copy_audit_log
from quintet.components import COMPONENTS
from quintet.local import cluster as local
from quintet.local.cluster import Cluster
from quintet.local.images import catalog

pytestmark = pytest.mark.node

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/00-hello/hello.yaml"
IMAGE = "quintet.local/json-server:0.17.4"


def assert_nothing_left(state: Path) -> None:
    """Assert that no process and no file is left; killed processes take a moment to end."""

    def left() -> tuple[list[str], list[Path]]:
        return processes(state), list(state.iterdir())

    eventually(lambda: left() == ([], []), "nothing is left", lambda: str(left()))


@pytest.fixture(scope="module")
def hello(node):
    """The ready hello example."""
    kubectl(node, "apply", "-f", str(EXAMPLE))
    kubectl(node, "rollout", "status", "deployment/hello", "--timeout=120s")
    return node


def ready_pods(node: Cluster) -> list[str]:
    """Return the names of the example's ready pods."""
    found = json.loads(kubectl(node, "get", "pods", "-l", "app.kubernetes.io/name=hello", "-o", "json"))
    return [
        pod["metadata"]["name"]
        for pod in found["items"]
        if any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in pod["status"].get("conditions", ())
        )
    ]


def send_request(node: Cluster, url: str) -> str:
    """Send a request from a pod with retries: a Service routes to new pods with a delay."""
    script = (
        f"require('http').get('{url}', answer => answer.pipe(process.stdout))"
        ".on('error', error => { console.error(error.message); process.exit(1) })"
    )
    answers = []

    def assert_response() -> bool:
        answers.append(node.kubectl("exec", "deployment/hello", "--", "node", "-e", script))
        return answers[-1].returncode == 0

    eventually(assert_response, f"an answer from {url}", seconds=60)
    return answers[-1].stdout


def test_node_is_ready_under_cluster_name(node):
    assert node.nodes == (f"quintet-{CLUSTER}-1",)
    found = json.loads(kubectl(node, "get", "node", node.node, "-o", "json"))
    ready = {each["type"]: each["status"] for each in found["status"]["conditions"]}["Ready"]
    assert ready == "True"
    assert not found["spec"].get("taints")


def test_second_up_with_node_returns_same_cluster(node, node_state, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(node_state))
    assert local.up(CLUSTER, nodes=1) == node


def test_second_up_reloads_changed_image_and_reports_it(node, node_state, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(node_state))
    said = []
    # Simulate an image that was built from other source when the node started.
    NodeContainerd(node).tag_image(catalog.PAUSE, catalog.CLUSTER_BASICS)
    local.up(CLUSTER, nodes=1, progress=said.append)
    assert [line for line in said if "loaded" in line] == [
        f"reloaded {catalog.CLUSTER_BASICS}, which has changed; running pods keep the old image"
    ]
    said.clear()
    local.up(CLUSTER, nodes=1, progress=said.append)
    assert said == []


def test_file_system_unmounted_on_machine_is_unmounted_in_node(tmp_path, monkeypatch):
    """The mount is shared first, as on machines with systemd."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shared, stick = tmp_path / "shared", tmp_path / "shared/stick"
    shared.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(shared)], check=True)
    try:
        subprocess.run(["mount", "--make-shared", str(shared)], check=True)
        stick.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(stick)], check=True)
        process = local.up("mounts", nodes=1).process("namespace-1")
        mounts = Path(f"/proc/{process.pid}/mountinfo")
        held = str(stick) in mounts.read_text()
        subprocess.run(["umount", str(stick)], check=True)
        assert held
        assert str(stick) not in mounts.read_text()
    finally:
        local.down("mounts")
        subprocess.run(["umount", "--recursive", str(shared)], check=True)


def test_nonroot_pod_can_write_to_its_volume(hello):
    assert kubectl(hello, "exec", "deployment/hello", "--", "id", "-u").strip() == "65532"
    kubectl(hello, "exec", "deployment/hello", "--", "sh", "-c", "echo kept >/data/written")
    (before,) = ready_pods(hello)
    kubectl(hello, "delete", "pod", before, "--wait")
    # `exec deployment/…` may still choose the deleted pod, so find the new pod.
    eventually(lambda: len(ready_pods(hello)) == 1, "another pod", seconds=120)
    assert ready_pods(hello) != [before]
    assert kubectl(hello, "exec", "deployment/hello", "--", "cat", "/data/written") == "kept\n"


def test_pod_logs_are_readable(hello):
    assert "Loading /data/db.json" in kubectl(hello, "logs", "deployment/hello")


def test_service_resolves_by_short_and_full_name_in_pod(hello):
    address = kubectl(hello, "get", "service", "hello", "-o", "jsonpath={.spec.clusterIP}")
    for name in ("hello", "hello.default", "hello.default.svc.cluster.local"):
        answer = kubectl(hello, "exec", "deployment/hello", "--", "getent", "hosts", name)
        assert answer.split() == [address, "hello.default.svc.cluster.local"], name


def test_service_is_reachable_from_its_own_pod(hello):
    assert "Hello from a pod" in send_request(hello, "http://hello/greetings")


@pytest.mark.exhaustive
def test_service_is_reachable_from_another_namespace(hello):
    kubectl(hello, "create", "namespace", "other")
    kubectl(hello, "apply", "--namespace", "other", "-f", str(EXAMPLE))
    kubectl(hello, "--namespace", "other", "rollout", "status", "deployment/hello", "--timeout=120s")
    assert "Hello from a pod" in send_request(hello, "http://hello.other/greetings")


@pytest.mark.exhaustive
def test_port_forward_reaches_service(hello):
    command = [
        str(hello.programs / "kubectl"),
        f"--kubeconfig={hello.kubeconfig}",
        "port-forward",
        "service/hello",
        ":80",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        try:
            assert forward.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+)", forward.stdout.readline())
            assert found
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/greetings", timeout=30) as answer:
                assert json.load(answer)[0]["id"] == 1
        finally:
            forward.kill()


def test_pod_reaches_api_server_through_kubernetes_service(hello):
    script = (
        "process.env.NODE_TLS_REJECT_UNAUTHORIZED = 0;"
        "require('https').get('https://kubernetes.default/version', a => a.pipe(process.stdout))"
    )
    answer = kubectl(hello, "exec", "deployment/hello", "--", "node", "-e", script)
    assert json.loads(answer)["gitVersion"] == hello.version


@pytest.mark.exhaustive
def test_pod_cannot_reach_network_outside_the_cluster(hello):
    script = (
        "const s = require('net').connect({host: '192.0.2.1', port: 80, timeout: 1500});"
        "s.on('connect', () => { console.log('out'); process.exit() });"
        "s.on('error', e => { console.log(e.code); process.exit() });"
        "s.on('timeout', () => { console.log('ETIMEDOUT'); process.exit() })"
    )
    answer = kubectl(hello, "exec", "deployment/hello", "--", "node", "-e", script)
    assert answer.strip() in {"EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT"}


def test_deleted_claim_deletes_its_volume_and_folder(node):
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "short-lived"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    container = {
        "name": "main",
        "image": catalog.PAUSE,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "short-lived"}}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "short-lived"},
        "spec": {"containers": [container], "volumes": volumes},
    }
    kubectl(
        node,
        "apply",
        "-f",
        "-",
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim, pod]}),
    )
    kubectl(node, "wait", "pvc/short-lived", "--for=jsonpath={.status.phase}=Bound", "--timeout=120s")
    volume = kubectl(node, "get", "pvc", "short-lived", "-o", "jsonpath={.spec.volumeName}")
    folder = node.list_nodes()[0].directory / "volumes" / volume
    assert folder.is_dir()
    kubectl(node, "delete", "pod/short-lived", "pvc/short-lived", "--grace-period=1")
    eventually(lambda: not folder.exists(), f"{folder} is removed")
    eventually(lambda: node.kubectl("get", "pv", volume).returncode == 1, f"{volume} is deleted")


@pytest.mark.exhaustive
def test_failed_pod_shows_error_and_exit_code(node):
    said = node.kubectl(
        "run", "broken", f"--image={IMAGE}", "--restart=Never", "--command", "--", "sh", "-c", "exit 3"
    )
    assert said.returncode == 0, said.stderr
    path = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
    eventually(lambda: node.kubectl("get", "pod", "broken", "-o", path).stdout == "3", "exit code 3")


def test_api_server_of_node_cluster_restarts_after_kill(hello):
    server = hello.process("kube-apiserver")
    server.kill()
    server.restart()
    assert "Hello from a pod" in send_request(hello, "http://hello/greetings")


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_config_default_uninstalls_as_documented_and_leaves_nothing(operator, node):
    """Uninstall while the process runs, which would register its webhooks again if it could."""
    page = (ROOT / "docs/suite.md").read_text().partition("## Removing it")[2]
    commands = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert len(commands) == 3, commands
    for command in commands:
        arguments = command.partition("#")[0].replace("config/default", str(ROOT / "config/default")).split()
        assert arguments[0] == "kubectl"
        kubectl(node, *arguments[1:], "--timeout=300s")
    assert kubectl(node, "get", "crds", "-o", "name") == ""
    kinds = "namespaces,clusterroles,clusterrolebindings,validatingadmissionpolicies"
    everything = f"{kinds},mutatingwebhookconfigurations,validatingwebhookconfigurations"
    left = kubectl(node, "get", everything, "-l", "app.kubernetes.io/part-of=quintet", "-o", "name")
    assert left == ""


def test_down_with_node_leaves_no_process_mount_network_cgroup_file_or_setting(
    hello, node_state, before, monkeypatch
):
    copy_audit_log(hello)
    monkeypatch.setenv("XDG_STATE_HOME", str(node_state))
    local.up(CLUSTER, nodes=1)  # it runs, unless an earlier round of this test stopped it
    during = MachineState.read(node_state).added_since(before)
    assert {"processes", "networks", "cgroups", "files"} <= set(during), during
    assert "mounts" not in during, "the node's mounts must be invisible outside its namespace"
    assert "settings" not in during, "the machine's settings must stay as they are"
    inside = find_processes_in_networks(during["networks"])
    assert local.down(CLUSTER)
    eventually(
        lambda: MachineState.read(node_state).added_since(before) == {},
        "nothing is left",
        lambda: str(MachineState.read(node_state).added_since(before)),
    )
    left = [each for each in inside if each.is_alive()]
    assert left == [], "somebody is still in a network of the node"


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_demo_runs_every_kind_and_stops_its_cluster(quintet, state, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    answer = quintet("demo")
    assert answer.returncode == 0, f"{answer.stderr}\n{answer.stdout}"
    for name in COMPONENTS:  # each controller has its own ServiceAccount
        assert re.search(rf"^ +quintet-{name} +quintet-{name} +1$", answer.stdout, re.MULTILINE), name
    assert '"name": "Person A"' in answer.stdout, answer.stdout
    assert re.search(r"cluster-basics +Passed", answer.stdout), answer.stdout
    assert "books and orders are restored exactly" in answer.stdout, answer.stdout
    sent = re.search(r"from inside a pod, ce-id: (\S+):$", answer.stdout, re.MULTILINE)
    arrived = re.search(r"(\S+) order.created.v1", answer.stdout)
    assert sent is not None, answer.stdout
    assert arrived is not None, answer.stdout
    assert sent[1] == arrived[1], answer.stdout
    put, got = re.findall(r"hello-[0-9a-f]{6}", answer.stdout)
    assert put == got
    assert "The demo has stopped everything that it started." in answer.stdout
    assert_nothing_left(state)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_demo_on_kubeconfig_cluster_restores_it(quintet, state, monkeypatch):
    other = local.up("other", nodes=1)
    kinds = "namespaces,crds,clusterroles,clusterrolebindings,validatingwebhookconfigurations"
    everything = ("get", f"{kinds},validatingadmissionpolicies,persistentvolumes", "-A", "-o", "name")
    before = other.kubectl(*everything).stdout
    monkeypatch.setenv("KUBECONFIG", str(other.kubeconfig))
    answer = quintet("demo", "--only", "jsonserver,eventing")
    assert answer.returncode == 0, f"{answer.stderr}\n{answer.stdout}"
    assert '"name": "Person A"' in answer.stdout, answer.stdout
    assert "Checkup" not in answer.stdout, "it was not asked for"
    assert local.list_clusters() == ["other"]
    eventually(lambda: other.kubectl(*everything).stdout == before, "the cluster is as it was", seconds=120)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_demo_stopped_by_signal_stops_its_cluster(state, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    running = subprocess.Popen(
        [COMMAND, "demo"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    said = []
    for line in running.stderr:
        said.append(line)
        if "installing Quintet" in line:
            running.terminate()
            break
    rest = running.communicate()[1]
    assert running.returncode == 130, "".join(said) + rest
    assert rest.endswith("interrupted\n"), rest
    assert_nothing_left(state)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("moment", ["etcd", "containerd-1", "storage-1"])
def test_killed_up_with_node_leaves_nothing(tmp_path, monkeypatch, moment):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = MachineState.read(tmp_path)
    record = tmp_path / "quintet/clusters" / CLUSTER / f"processes/{moment}.pid"
    command = [COMMAND, "up", "--node", "--name", CLUSTER]
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
            eventually(record.exists, f"{moment} is started", seconds=300)
            started.kill()
        if started.returncode != 0:
            break
        local.down(CLUSTER)  # on a busy machine the signal may be too late
    else:
        pytest.fail("`up` has ended well each time")
    eventually(lambda: MachineState.read(tmp_path).added_since(before) == {}, "nothing is left")


@pytest.mark.exhaustive
@pytest.mark.slow
def test_down_after_containerd_was_killed_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = MachineState.read(tmp_path)
    cluster = local.up(CLUSTER, nodes=1)
    kubectl(
        cluster, "run", "orphan", f"--image={IMAGE}", "--restart=Never", "--command", "--", "sleep", "600"
    )
    kubectl(cluster, "wait", "pod/orphan", "--for=condition=Ready", "--timeout=120s")
    for name in ("kubelet-1", "containerd-1", "namespace-1", "namespace"):
        cluster.process(name).kill()
    assert local.down(CLUSTER)
    eventually(lambda: MachineState.read(tmp_path).added_since(before) == {}, "nothing is left")
