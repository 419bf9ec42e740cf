"""Whether an existing cluster may be removed, and how records of other versions are read."""

import json
import sys

import pytest

from quintet.local import cluster, repair
from quintet.local.errors import LocalError
from quintet.local.node.layout import enter_namespaces
from quintet.local.process import ManagedProcess
from quintet.local.teardown import RefusedError

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
RECORD = {
    "name": "x",
    "kubeconfig": "/k",
    "server": "https://127.0.0.1:1",
    "version": "v1",
    "node": None,
    "directory": "/d",
    "programs": "/p",
    "etcd_url": "http://127.0.0.1:2",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = tmp_path / "quintet/clusters/x"
    (found / "processes").mkdir(parents=True)
    return found


@pytest.fixture
def program(folder):
    process = ManagedProcess("program", folder / "processes")
    process.start(SLEEP)
    yield process
    process.kill()


def test_cluster_with_one_running_process_is_not_removable(folder, program):
    (folder / "cluster.json").write_text("damaged")
    assert not repair.is_removable(folder)


def test_cluster_without_running_processes_is_removable(folder, program):
    (folder / "cluster.json").write_text(json.dumps(RECORD))
    program.kill()
    assert repair.is_removable(folder)


@pytest.mark.parametrize("left", ["nothing noted", "a removal that was cut off"])
def test_interrupted_start_or_removal_is_removable(folder, program, left):
    if left == "a removal that was cut off":
        (folder / "cluster.json").write_text(json.dumps(RECORD))
        (folder / "processes.ending").mkdir()
    assert repair.is_removable(folder)


def test_load_cluster_ignores_unknown_fields(folder):
    (folder / "cluster.json").write_text(json.dumps(RECORD | {"flavour": "new"}))
    found = cluster.load_cluster("x")
    assert found is not None
    assert found.server == RECORD["server"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", json.dumps({"name": "x"})], ids=["empty", "list", "truncated", "missing fields"]
)
def test_load_cluster_returns_none_for_incomplete_record(folder, text):
    (folder / "cluster.json").write_text(text)
    assert cluster.load_cluster("x") is None


def test_load_cluster_of_copied_folder_is_not_the_original(folder):
    (folder / "cluster.json").write_text(json.dumps(RECORD | {"name": "original", "directory": "/original"}))
    found = cluster.load_cluster("x")
    assert found is not None
    assert (found.name, found.directory, found.kubeconfig) == ("x", folder, folder / "kubeconfig")


@pytest.mark.parametrize(
    ("lost", "want"),
    [
        ("namespace", "cluster x has lost the namespace of its control plane"),
        ("namespace-1", "node quintet-x-1 has lost its namespaces"),
    ],
)
def test_repair_restarts_nothing_in_lost_namespaces(folder, lost, want):
    """The pid in the recorded commands can belong to a process of the machine meanwhile."""
    processes = [ManagedProcess(name, folder / "processes") for name in ("containerd-1", "kubelet-1", lost)]
    for process in processes:
        process.start(["touch", str(folder / f"{process.name}.started")])
        process.kill()
        (folder / f"{process.name}.started").unlink(missing_ok=True)
    (folder / "cluster.json").write_text(json.dumps(RECORD | {"nodes": ["quintet-x-1"]}))
    with pytest.raises(LocalError, match=want):
        repair.repair_cluster(folder, cluster.load_cluster("x"), lambda _: None)
    assert list(folder.glob("*.started")) == []


def test_command_is_not_run_in_the_namespaces_of_the_machine(program):
    with pytest.raises(RefusedError, match="program is in the net namespace of the machine"):
        enter_namespaces(program, "net")
