"""Whether an existing cluster may be removed, and how records of other versions are read."""

import json
import sys

import pytest

from quintet.local import cluster, repair
from quintet.local.process import ManagedProcess

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
