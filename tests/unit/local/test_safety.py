"""What a cluster must never kill or remove.

Everything in danger is a stand-in below `tmp_path`, and `harmless` sees to it that a defect cannot reach more:
no signal is sent, nothing else is removed.
"""

import http.client
import itertools
import json
import os
import subprocess
from contextlib import nullcontext

import pytest

from quintet.local import cluster
from quintet.local.cleanup import remove_cluster, write_host
from quintet.local.errors import LocalError
from quintet.local.node import cgroups, storage, volumes
from quintet.local.node.filesystems import Filesystems
from quintet.local.node.layout import Node
from quintet.local.node.volumes import volumes_folder

pytestmark = pytest.mark.usefixtures("harmless")


@pytest.fixture
def clusters(tmp_path, monkeypatch):
    """A separate state directory, with a folder of the test as the only cgroup hierarchy."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = tmp_path / "cgroup"
    root.mkdir()
    (root / "cgroup.procs").write_text("")
    monkeypatch.setattr(cgroups, "find_hierarchies", lambda: [root])
    folder = tmp_path / "state/quintet/clusters"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def stranger():
    """A process that belongs to no cluster."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:  # ends when its input does
        yield process


@pytest.mark.parametrize("content", ["", ".", "quintet-", "system.slice", "quintet-x-00000000/.."], ids=repr)
def test_down_with_damaged_cgroup_record_kills_only_own_processes(
    clusters, stranger, tmp_path, content, harmless
):
    (clusters / "x").mkdir()
    (clusters / "x/attempt").write_text("1")
    (clusters / "x/cgroup").write_text(content)
    for folder in ("", "system.slice", "quintet-x-00000000"):
        (tmp_path / "cgroup" / folder).mkdir(exist_ok=True)
        (tmp_path / "cgroup" / folder / "cgroup.procs").write_text(f"{stranger.pid}\n")
    assert cluster.down("x")
    assert harmless == []
    assert not (clusters / "x").exists()


class Server:
    """Fake API server with lists of claims and volumes; raises an exception that is in a list."""

    def __init__(self, claims=(), volumes=()):
        self.lists = {storage.CLAIMS: list(claims), storage.VOLUMES: list(volumes)}
        self.created, self.deleted = [], []

    def request(self, method, path, body=None):
        if method == "DELETE":
            self.deleted.append(path)
            return {}
        found = self.lists[path.partition("?")[0]]
        for each in found:
            if isinstance(each, Exception):
                raise each
        return {"items": found}

    def create(self, path, body):
        self.created.append(body["metadata"]["name"])


def filesystems_of(node):
    return Filesystems(volumes_folder(node), "mnt:[1]")


def a_volume(name, path, uid="u-1"):
    annotations = {volumes.PROVISIONED_BY: volumes.PROVISIONERS[volumes.STANDARD]}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": volumes.STANDARD,
            "hostPath": {"path": str(path), "type": "Directory"},
            "claimRef": {"uid": uid},
        },
        "status": {"phase": "Released"},
    }


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("pvc-u-1", "home"),
        ("home", "home"),
        ("..", "volumes/.."),
        ("pvc-u-1", "volumes/../home"),
        ("pvc-u-1", "volumes/link"),
        ("pvc-u-2", "volumes/pvc-u-2"),
    ],
    ids=[
        "other path",
        "other name",
        "parent folder",
        "path through parent",
        "path through link",
        "other claim",
    ],
)
def test_provisioner_keeps_folder_of_volume_with_foreign_path(tmp_path, name, path):
    node = Node(tmp_path / "x", 1)
    kept = [tmp_path / "home/letter", node.directory / "volumes/pvc-u-2/data"]
    for file in kept:
        file.parent.mkdir(parents=True)
        file.write_text("dear")
    (node.directory / "volumes/link").symlink_to(tmp_path / "home")
    (node.directory / "home").symlink_to(tmp_path / "home")
    server = Server(volumes=[a_volume(name, node.directory / path)])
    storage.reconcile(server, node, filesystems_of(node))
    assert [file for file in kept if not file.exists()] == []
    assert server.deleted == []


@pytest.mark.parametrize("link", ["volumes", "volumes/pvc-u-1"])
def test_provisioner_does_not_follow_link_in_place_of_volume(tmp_path, link):
    letter = tmp_path / "home/pvc-u-1/letter"
    letter.parent.mkdir(parents=True)
    letter.write_text("dear")
    node = Node(tmp_path / "x", 1)
    place = node.directory / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "home" if link == "volumes" else letter.parent)
    volume = a_volume("pvc-u-1", node.directory / "volumes/pvc-u-1")
    storage.reconcile(Server(volumes=[volume]), node, filesystems_of(node))
    assert letter.exists()


class Stopped(BaseException):
    """Raised to end the endless loop of the provisioner."""


@pytest.mark.parametrize(
    "failure",
    [http.client.IncompleteRead(b"{"), http.client.BadStatusLine(""), TimeoutError(), KeyError("items")],
    ids=repr,
)
def test_provisioner_continues_after_truncated_response(tmp_path, monkeypatch, failure):
    server = Server(claims=[failure])
    rounds = itertools.count()

    def pause(_):
        if next(rounds) == 2:
            raise Stopped

    monkeypatch.setattr(storage, "Api", lambda *_: server)
    monkeypatch.setattr(storage.time, "sleep", pause)
    with pytest.raises(Stopped):
        storage.main(str(tmp_path), "1", "192.0.2.1", "6443", "net:[1],mnt:[1]")


def test_provisioner_creates_other_volumes_when_one_fails(tmp_path):
    node = Node(tmp_path / "x", 1)

    def a_claim(uid):
        selected = {volumes.SELECTED_NODE: node.name}
        return {
            "metadata": {"name": uid, "namespace": "shop", "uid": uid, "annotations": selected},
            "spec": {
                "storageClassName": "standard",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Pending"},
        }

    (node.directory / "volumes").mkdir(parents=True)
    (node.directory / "volumes/pvc-u-1").write_text("a file is in the way")
    server = Server(claims=[a_claim("u-1"), a_claim("u-2")])
    storage.reconcile(server, node, filesystems_of(node))
    assert [name for name in server.created if name.startswith("pvc")] == ["pvc-u-2"]


def test_down_refuses_folder_not_created_by_up(clusters):
    (clusters / "photos").mkdir()
    (clusters / "photos/holiday.jpg").write_text("sea")
    with pytest.raises(LocalError, match="is not the folder of a cluster"):
        cluster.down("photos")
    assert (clusters / "photos/holiday.jpg").exists()


def test_down_refuses_symbolic_link_in_place_of_cluster_folder(clusters, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/attempt").write_text("1")
    (clusters / "x").symlink_to(tmp_path / "home")
    with pytest.raises(LocalError, match="is not the folder of a cluster"):
        cluster.down("x")
    assert (tmp_path / "home/attempt").exists()


def test_down_refuses_cluster_of_another_machine(clusters):
    (clusters / "x").mkdir()
    (clusters / "x/attempt").write_text("1")
    (clusters / "x/host").write_text(json.dumps({"machine": "another", "hostname": "beta"}))
    with pytest.raises(LocalError, match="cluster x runs on another machine, beta") as caught:
        cluster.down("x")
    assert "run the command there" in caught.value.next_step
    assert (clusters / "x/attempt").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_down_refuses_cluster_folder_with_mount_below(clusters, tmp_path):
    (clusters / "x/volumes/pvc-1").mkdir(parents=True)
    (clusters / "x/attempt").write_text("1")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter").write_text("dear")
    point = str(clusters / "x/volumes/pvc-1")
    subprocess.run(["mount", "--bind", str(tmp_path / "home"), point], check=True)
    try:
        with pytest.raises(LocalError, match=f"{point} is mounted"):
            cluster.down("x")
    finally:
        subprocess.run(["umount", point], check=True)
    assert (tmp_path / "home/letter").exists()


class Killed(BaseException):
    """Raised in place of a SIGKILL."""


@pytest.mark.parametrize("removals", range(0, 18, 2))
def test_removal_that_was_killed_at_any_point_is_completed_by_next_down(clusters, monkeypatch, removals):
    cluster_folder = clusters / "x"
    for name in (
        "attempt",
        *(f"nodes/{each}/file" for each in range(4)),
        *(f"file-{each}" for each in range(8)),
    ):
        (cluster_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (cluster_folder / name).touch()
    write_host(cluster_folder)
    count, scan = itertools.count(), os.scandir

    def scan_marks_first(folder):
        with scan(folder) as entries:
            return nullcontext(sorted(entries, key=lambda each: each.name not in ("host", "attempt")))

    def die_after_removals(remove):
        def removed(*arguments, **options):
            if next(count) >= removals:
                raise Killed
            return remove(*arguments, **options)

        return removed

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scan_marks_first)
        for name in ("unlink", "rmdir"):
            patch.setattr(os, name, die_after_removals(getattr(os, name)))
        with pytest.raises(Killed):
            remove_cluster(cluster_folder)
    remove_cluster(cluster_folder)
    assert not cluster_folder.exists()
