"""The embedded control plane: start, use, repair and complete removal."""

import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.conftest import COMMAND, IS_ROOT
from e2e.machine_state import list_files, processes
from kit.eventually import eventually
from quintet.local.build import programs, versions
from quintet.local.build.toolchain import find_go
from quintet.local.cluster import Cluster, down, down_all, load_cluster, up
from quintet.local.errors import LocalError

ROOT = Path(__file__).parents[2]
PROGRAMS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}


def assert_nothing_left(state: Path, seconds: float = 60) -> None:
    """Assert that no process and no file is left; killed processes take a moment to end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        left = processes(state), list(list_files(state))
        if left == ([], []):
            return
        time.sleep(0.1)
    pytest.fail(f"left behind: processes {left[0]}, files {left[1]}")


@dataclass(frozen=True)
class Shared:
    """A control plane that tests share if they do not change it."""

    state: Path
    answer: "subprocess.CompletedProcess[str]"

    def quintet(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run the command on the state directory of this control plane."""
        environment = os.environ | {"XDG_STATE_HOME": str(self.state)}
        return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def shared_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory of the shared clusters of this module."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder
        down_all()


@pytest.fixture(scope="module")
def shared(shared_state: Path) -> Shared:
    answer = subprocess.run([COMMAND, "up", "-o", "json"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return Shared(shared_state, answer)


@pytest.fixture(scope="module")
def plain(shared: Shared) -> Cluster:
    """The shared control plane."""
    return load_cluster("default")


@pytest.fixture(scope="module")
def audited(shared_state: Path) -> Cluster:
    """A durable control plane with an audit log."""
    return up("audited", durable=True, audited=True)


def test_up_prints_json_and_user_kubectl_works_with_its_kubeconfig(shared, plain):
    found = json.loads(shared.answer.stdout)
    assert set(found) == {"name", "kubeconfig", "server", "version", "node", "nodes"}
    assert (found["name"], found["node"], found["version"]) == (
        "default",
        None,
        f"v{versions.find_version().release}",
    )
    said = subprocess.run(
        [plain.programs / "kubectl", "--kubeconfig", found["kubeconfig"], "get", "--raw", "/readyz"],
        capture_output=True,
        text=True,
    )
    assert said.stdout == "ok", said.stderr


def test_second_up_prints_same_cluster(shared, plain):
    pids = {each.name: each.pid for each in plain.processes()}
    assert shared.quintet("up", "-o", "json").stdout == shared.answer.stdout
    assert {each.name: each.pid for each in plain.processes()} == pids


@pytest.mark.exhaustive
def test_kubectl_command_accepts_kubectl_flags(shared):
    answer = shared.quintet(
        "kubectl", "get", "namespaces", "-o", "name", "--field-selector", "metadata.name=default"
    )
    assert answer.stdout == "namespace/default\n", answer.stderr
    assert "kubectl controls the Kubernetes cluster manager" in shared.quintet("kubectl", "--help").stdout
    assert shared.quintet("kubectl", "get", "nonsense").returncode == 1


@pytest.mark.exhaustive
def test_up_with_other_version_than_running_cluster_is_refused(shared):
    other = next(name for name in versions.VERSIONS if name != versions.find_version().name)
    answer = shared.quintet("up", "--kubernetes", other)
    assert answer.returncode == 1
    assert (
        f"cluster default already runs, with Kubernetes v{versions.find_version().release}" in answer.stderr
    )
    assert "quintet down --name default" in answer.stderr
    assert shared.quintet("up").returncode == 0, "any version will do"


@pytest.mark.exhaustive
def test_durable_cluster_runs_etcd_with_fsync(audited, plain):
    durable, quick = (
        Path(f"/proc/{each.process('etcd').pid}/cmdline").read_text() for each in (audited, plain)
    )
    assert "--unsafe-no-fsync" not in durable
    assert "--unsafe-no-fsync" in quick


@pytest.mark.exhaustive
def test_client_certificates_are_limited_by_rbac_and_expiry(plain):
    limited = plain.client_kubeconfig("alice", ("testers",))
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    expired = plain.client_kubeconfig("admin", ("system:masters",), not_after=yesterday)
    kubectl = plain.programs / "kubectl"

    def send_request(kubeconfig: Path) -> str:
        command = [kubectl, f"--kubeconfig={kubeconfig}", "get", "secrets"]
        return subprocess.run(command, capture_output=True, text=True).stderr

    assert 'User "alice" cannot list resource "secrets"' in send_request(limited)
    assert "Unauthorized" in send_request(expired) or "provide credentials" in send_request(expired)


@pytest.mark.exhaustive
async def test_audit_log_contains_requests_of_non_administrators(audited):
    alice = audited.client_kubeconfig("alice", ("testers",))
    audited.kubectl("get", "pods")
    refused = audited.kubectl(f"--kubeconfig={alice}", "get", "secrets")
    assert "forbidden" in refused.stderr

    def assert_logged() -> None:
        entries = [json.loads(line) for line in audited.audit_log.read_text().splitlines()]
        assert {entry["user"]["username"] for entry in entries} == {"alice"}, entries
        asked = [entry for entry in entries if entry.get("objectRef", {}).get("resource") == "secrets"]
        decisions = {entry["annotations"]["authorization.k8s.io/decision"] for entry in asked}
        assert decisions == {"forbid"}, asked

    await eventually(assert_logged)  # a request is logged after its response


@pytest.mark.exhaustive
def test_up_with_audit_on_cluster_without_audit_log_is_refused(plain):
    assert plain.audit_log is None
    with pytest.raises(LocalError, match="cluster default already runs, without an audit log"):
        up("default", audited=True)


@pytest.mark.exhaustive
def test_etcd_of_cluster_can_be_compacted(plain):
    request = urllib.request.Request(f"{plain.etcd_url}/v3/maintenance/status", data=b"{}", method="POST")
    with urllib.request.urlopen(request) as response:
        assert "dbSize" in json.load(response)


@pytest.mark.exhaustive
def test_two_clusters_are_isolated(plain, audited):
    assert plain.server != audited.server
    audited.kubectl("create", "namespace", "only-in-one")
    assert audited.kubectl("get", "namespace", "only-in-one").returncode == 0
    assert plain.kubectl("get", "namespace", "only-in-one").returncode == 1
    down(audited.name)  # the last test that uses it
    assert plain.is_healthy()


@pytest.mark.parametrize("name", ["kube-apiserver", pytest.param("etcd", marks=pytest.mark.exhaustive)])
def test_killed_program_restarts_without_data_loss(plain, name):
    plain.kubectl("create", "configmap", f"kept-by-{name}")
    before = plain.process(name).pid
    plain.process(name).kill()
    plain.process(name).restart()
    plain.wait_until_ready()
    assert plain.process(name).pid != before
    answer = plain.kubectl("get", "configmap", f"kept-by-{name}")
    assert answer.returncode == 0, answer.stderr


def test_down_removes_processes_and_files(quintet, state):
    quintet("up")
    assert len(processes(state)) >= len(PROGRAMS)
    answer = quintet("down")
    assert answer.returncode == 0, answer.stderr
    assert_nothing_left(state)


@pytest.mark.exhaustive
def test_down_without_cluster_succeeds(quintet, state):
    answer = quintet("down")
    assert (answer.returncode, answer.stderr) == (0, "there is no cluster default\n")
    assert_nothing_left(state)


@pytest.mark.exhaustive
@pytest.mark.parametrize("victim", sorted(PROGRAMS))
def test_up_restarts_ended_programs_and_keeps_objects(shared_state, victim):
    first = up("half")  # reuses the cluster of the previous row
    first.kubectl("create", "configmap", f"kept-{victim}")
    old = {each.name: each.pid for each in first.processes()}
    first.process(victim).kill()
    said = []
    second = up("half", progress=said.append)
    assert second.is_healthy()
    assert f"{victim} of cluster half has ended: restarting it" in said
    assert {each.name for each in second.processes() if each.pid != old[each.name]} == {victim}
    assert second.kubectl("get", "configmap", f"kept-{victim}").returncode == 0


def test_up_after_all_processes_ended_starts_empty_cluster(state):
    first = up("dead")
    first.kubectl("create", "configmap", "lost")
    for each in first.processes():
        each.kill()
    second = up("dead")
    assert second.is_healthy()
    assert second.kubectl("get", "configmap", "lost").returncode == 1


def test_up_on_unresponsive_cluster_fails_and_keeps_data(state, monkeypatch):
    cluster = up("slow")
    cluster.kubectl("create", "configmap", "kept")
    pids = {each.name: each.pid for each in cluster.processes()}
    monkeypatch.setattr("quintet.local.repair.SECONDS", 1.0, raising=False)
    cluster.process("kube-apiserver").send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(LocalError, match="cluster slow runs but is not ready") as caught:
            up("slow")
    finally:
        cluster.process("kube-apiserver").send_signal(signal.SIGCONT)
    assert "quintet down --name slow" in caught.value.next_step
    cluster.wait_until_ready()
    assert {each.name: each.pid for each in cluster.processes()} == pids
    assert up("slow").kubectl("get", "configmap", "kept").returncode == 0


def test_up_with_damaged_record_of_running_cluster_is_refused(state):
    cluster = up("damaged")
    (cluster.directory / "cluster.json").write_text("")
    with pytest.raises(LocalError, match=r"its cluster\.json cannot be read"):
        up("damaged")
    assert cluster.is_healthy()


@pytest.mark.exhaustive
def test_concurrent_ups_of_one_name_start_one_cluster(state):
    commands = [
        subprocess.Popen([COMMAND, "up", "-o", "json"], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    answers = [command.communicate()[0] for command in commands]
    assert [command.returncode for command in commands] == [0, 0, 0]
    assert len(set(answers)) == 1
    assert len([line for line in processes(state) if "kube-apiserver" in line]) == 1


@pytest.mark.exhaustive
def test_concurrent_ups_of_different_names_succeed(state):
    names = ["a", "b", "c"]
    commands = [
        subprocess.Popen([COMMAND, "up", "--name", name, "-o", "json"], stdout=subprocess.PIPE, text=True)
        for name in names
    ]
    found = [json.loads(command.communicate()[0]) for command in commands]
    assert [each["name"] for each in found] == names
    assert len({each["server"] for each in found}) == 3


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name
)
@pytest.mark.parametrize("moment", ["etcd", "kube-apiserver", "kube-scheduler"])
def test_killed_up_leaves_no_process_and_no_file(state, number, moment):
    for _ in range(5):
        if interrupt_up(state, number, moment):
            break
        subprocess.run([COMMAND, "down"], check=True)  # on a busy machine the signal may be too late
    else:
        pytest.fail(f"`up` has ended well each time, in spite of {number.name}")
    assert_nothing_left(state)


def interrupt_up(state, number: signal.Signals, moment: str) -> bool:
    """Send a signal to `up` when a program runs; return False if `up` had already succeeded."""
    with subprocess.Popen([COMMAND, "up"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
        deadline = time.monotonic() + 60
        while not any(f"/{moment} " in line for line in processes(state)) and time.monotonic() < deadline:
            time.sleep(0.005)
        command.send_signal(number)
    return command.returncode != 0


@pytest.mark.exhaustive
def test_up_on_full_disk_fails_with_one_line_and_leaves_no_process(small_disk, monkeypatch):
    folder = small_disk(megabytes=8)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    with pytest.raises(LocalError) as caught:
        up("full")
    assert "no space left on device" in caught.value.message or "disk is full" in caught.value.message
    assert "\n" not in caught.value.message
    assert processes(folder) == []


@pytest.mark.exhaustive
def test_build_on_full_disk_fails_with_one_line(small_disk, monkeypatch):
    go = find_go(lambda _: None)
    compiled = subprocess.run([go, "env", "GOCACHE"], capture_output=True, text=True).stdout.strip()
    folder = small_disk(megabytes=1)
    monkeypatch.setenv("GOCACHE", compiled)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr(programs, "find_go", lambda _: go)
    with pytest.raises(LocalError, match="disk became full while building") as caught:
        programs.build_pause(lambda _: None)
    assert "free about" in caught.value.next_step
    assert [path for path in folder.rglob("*") if path.is_file()] == []


@pytest.fixture
def small_disk(tmp_path, state):
    """Return a function that creates a file system of a few megabytes."""
    if not IS_ROOT:
        pytest.skip("mounting a small file system needs root")
    mounted = []

    def make(megabytes: int) -> Path:
        folder = tmp_path / "small"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=True)
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_control_plane_runs_without_root(tmp_path_factory):
    if not IS_ROOT or not shutil.which("setpriv"):
        pytest.skip("becoming another user needs root and setpriv")
    home = Path("/tmp") / f"quintet-e2e-{os.getpid()}"
    try:
        _run_as_nobody(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run_as_nobody(home: Path) -> None:
    cache = home / "cache/quintet"
    cache.mkdir(parents=True)
    product = programs.build_kubernetes(lambda _: None)
    shutil.copytree(product, cache / product.name, symlinks=True)
    (home / "state").mkdir()
    os.chown(home / "state", 65534, 65534)
    variables = {
        "HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_STATE_HOME": str(home / "state"),
        "PATH": os.environ["PATH"],
    }
    # This Python may be in root's home: the other user can read everything, but write only its own files.
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *reading, "--"]

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [*nobody, sys.executable, COMMAND, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=variables, cwd="/")

    refused = run("up", "--node")
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: --node needs root, because"), refused.stderr
    answer = run("up", "-o", "json")
    assert answer.returncode == 0, answer.stderr
    assert run("kubectl", "get", "--raw", "/readyz").stdout == "ok"
    assert run("kubectl", "get", "namespaces").returncode == 0
    assert run("down").returncode == 0
    demo = run("demo")
    assert demo.returncode == 0, demo.stderr
    assert "app-my-server   Synced   False" in demo.stdout, demo.stdout
    # A CASConfig changes and restores Deployments without pods.
    assert "books and orders are restored exactly" in demo.stdout, demo.stdout
    rows = {line.split()[0] for line in demo.stdout.partition("RESULT")[2].splitlines() if line.strip()}
    assert {"JsonServer", "Checkup", "CASConfig", "EventingBackend", "StatefulCluster"} <= rows, demo.stdout
    assert "No pods ran, because a node needs root on Linux" in demo.stdout
    assert_nothing_left(home / "state")


@pytest.mark.exhaustive
@pytest.mark.slow
def test_five_rounds_of_up_and_down_leak_nothing(state):
    for _ in range(5):
        up("again")
        down("again")
    assert_nothing_left(state)
