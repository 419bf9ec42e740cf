"""The volume provisioner: what it decides for both StorageClasses, and real file systems on loop devices."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quintet.local import teardown
from quintet.local.errors import LocalError
from quintet.local.node import filesystems, storage, volumes
from quintet.local.node.layout import Node
from quintet.local.node.namespace import namespace_ids

MIB = 2**20
CLAIM_PATH = "/api/v1/namespaces/shop/persistentvolumeclaims/data"
needs_loop = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists(), reason="needs root and loop devices"
)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path / "x", 1)


def a_claim(node, storage_class="exact", requested="64Mi", **status):
    return {
        "metadata": {
            "name": "data",
            "namespace": "shop",
            "uid": "u-1",
            "annotations": {volumes.SELECTED_NODE: node.name},
        },
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": requested}},
        },
        "status": {"phase": "Pending"} | status,
    }


def a_bound_claim(node, requested, offered="64Mi"):
    claim = a_claim(node, requested=requested, phase="Bound", capacity={"storage": offered})
    claim["spec"]["volumeName"] = "pvc-u-1"
    return claim


class Server:
    """Fake API server with two lists; records writes, and fails those whose path is in `failing`.

    The lists can be old: `live` is the claim as it is now.
    """

    def __init__(self, claims=(), volumes=(), failing=(), live=None):
        self.live = live
        self.lists = {storage.CLAIMS: list(claims), storage.VOLUMES: list(volumes)}
        self.failing, self.patched, self.created = failing, [], []

    def request(self, method, path, body=None):
        if path == CLAIM_PATH:
            return self.live or self.lists[storage.CLAIMS][0]
        if method == "GET":
            return {"items": self.lists[path.partition("?")[0]]}
        if path in self.failing:
            raise ConnectionError(path)
        self.patched.append((path, body))
        return {}

    def create(self, path, body):
        self.created.append(body)


def test_only_class_exact_allows_expansion_and_only_standard_is_default():
    classes = {each["metadata"]["name"]: each for each in volumes.storage_classes()}
    assert [name for name, each in classes.items() if each["allowVolumeExpansion"]] == ["exact"]
    assert [name for name, each in classes.items() if each["metadata"]["annotations"]] == ["standard"]
    assert {each["volumeBindingMode"] for each in classes.values()} == {"WaitForFirstConsumer"}


def test_exact_volume_is_data_folder_inside_mount_of_node(node):
    volume = volumes.volume_for(a_claim(node), node)
    assert volume["spec"]["local"] == {"path": f"{node.directory}/volumes/pvc-u-1/data"}
    assert "hostPath" not in volume["spec"]
    assert volumes.is_ours(volume, node)
    assert not volumes.is_ours(volume, Node(node.cluster, 2))


@pytest.mark.parametrize(
    "change",
    [
        {"local": {"path": "/etc"}},
        {"storageClassName": "standard"},
        {"storageClassName": "other"},
        {"claimRef": {"uid": "u-2"}},
    ],
    ids=str,
)
def test_volume_that_users_changed_is_not_ours(node, change):
    volume = volumes.volume_for(a_claim(node), node)
    volume["spec"] |= change
    assert not volumes.is_ours(volume, node)


@pytest.mark.parametrize(
    ("quantity", "size"),
    [("64Mi", 64 * MIB), ("1131Mi", 1131 * MIB), ("1e6", 10**6), ("0.5Ki", 512), ("1500m", 2)],
)
def test_requested_size_is_rounded_up_to_bytes(node, quantity, size):
    assert volumes.requested_bytes(a_claim(node, requested=quantity)) == size


@pytest.mark.parametrize(
    ("requested", "want"), [("65Mi", True), ("64Mi", False), ("65536Ki", False), ("1Mi", False)]
)
def test_exact_volume_grows_only_for_larger_request(node, requested, want):
    volume = volumes.volume_for(a_claim(node), node)
    assert volumes.must_grow(a_bound_claim(node, requested), volume) is want


def test_standard_pending_and_foreign_claims_do_not_grow(node):
    claim = a_bound_claim(node, "1Gi")
    assert volumes.must_grow(claim, volumes.volume_for(a_claim(node), node))
    assert not volumes.must_grow(claim, volumes.volume_for(a_claim(node, "standard"), node))
    pending = a_bound_claim(node, "1Gi") | {"status": {"phase": "Pending"}}
    assert not volumes.must_grow(pending, volumes.volume_for(a_claim(node), node))
    other = a_bound_claim(node, "1Gi")
    other["spec"]["volumeName"] = "pvc-u-2"
    assert not volumes.must_grow(other, volumes.volume_for(a_claim(node), node))


@pytest.mark.parametrize("storage_class", ["standard", "exact"])
@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ({"volumeMode": "Block"}, "volumeMode Block is not supported: use Filesystem"),
        (
            {"dataSource": {"kind": "VolumeSnapshot"}},
            "dataSource is not supported: volumes are created empty",
        ),
        ({"selector": {"matchLabels": {"a": "b"}}}, "selector is not supported: volumes are created empty"),
    ],
    ids=["block device", "snapshot", "selector"],
)
def test_claim_that_its_volume_would_not_satisfy_gets_an_event_and_no_volume(
    node, storage_class, requested, message
):
    claim = a_claim(node, storage_class)
    claim["spec"] |= requested
    server = Server([claim])
    storage.reconcile(server, node, Recorded())
    (event,) = server.created
    assert (event["kind"], event["reason"], event["message"]) == ("Event", "ProvisioningFailed", message)


def test_provisioner_refuses_to_run_in_namespaces_of_machine(tmp_path):
    with pytest.raises(SystemExit, match="refusing to change network and mounts of the machine"):
        storage.main(str(tmp_path), "1", "192.0.2.1", "6443", ",".join(namespace_ids()))


class Recorded:
    """Fake file systems; record what is done."""

    def __init__(self, failure=None, *, grows=True):
        self.failure, self.grows = failure, grows
        self.grown, self.mounted = [], []

    def create(self, name, size):
        raise self.failure

    def grow(self, name, size, *, in_use):
        self.grown.append((name, size))
        return self.grows

    def mount_all(self, without):
        self.mounted.append(without)


def test_growth_that_was_interrupted_is_repeated_until_claim_has_the_size(node):
    filesystems = Recorded()
    status = f"{CLAIM_PATH}/status"
    volume = volumes.volume_for(a_claim(node), node) | {"status": {"phase": "Bound"}}
    first = Server([a_bound_claim(node, "1Gi")], [volume], failing=[status])
    storage.reconcile(first, node, filesystems)
    assert [path for path, _ in first.patched] == [f"{storage.VOLUMES}/pvc-u-1"]
    assert [(each["reason"], each["involvedObject"]["name"]) for each in first.created] == [
        ("VolumeResizeFailed", "data")
    ]
    # The volume already has the new size, the claim does not.
    volume["spec"]["capacity"] = {"storage": "1Gi"}
    second = Server([a_bound_claim(node, "1Gi")], [volume])
    storage.reconcile(second, node, filesystems)
    assert [path for path, _ in second.patched] == [f"{storage.VOLUMES}/pvc-u-1", status]
    assert second.patched[1][1]["status"]["capacity"] == {"storage": "1Gi"}
    assert filesystems.grown == [("pvc-u-1", 1024 * MIB)] * 2
    third = Server([a_bound_claim(node, "1Gi", "1Gi")], [volume])
    storage.reconcile(third, node, filesystems)
    assert third.patched == []


def test_volume_does_not_grow_again_because_of_an_old_list(node):
    volume = volumes.volume_for(a_claim(node), node) | {"status": {"phase": "Bound"}}
    old, live = a_bound_claim(node, "1Gi"), a_bound_claim(node, "1Gi", "1Gi")
    other = a_bound_claim(node, "1Gi")
    other["metadata"] = other["metadata"] | {"uid": "u-2"}
    for now in (live, other):
        server = Server([old], [volume], live=now)
        storage.reconcile(server, node, filesystems := Recorded())
        assert (filesystems.grown, server.patched) == ([], [])


def test_failed_creation_is_one_event_however_often_it_is_tried(node):
    filesystems = Recorded(LocalError("mount failed: no loop device", "add one"))
    server = Server([a_claim(node)])
    storage.reconcile(server, node, filesystems)
    storage.reconcile(server, node, filesystems)
    one, two = server.created
    assert one["metadata"]["name"] == two["metadata"]["name"]
    assert (one["reason"], one["message"]) == ("ProvisioningFailed", "mount failed: no loop device")
    assert one["involvedObject"]["uid"] == "u-1"


IN_OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private", sys.executable, "-P", "-c")


def run_in_own_mounts(code, folder):
    """Run Python code with `them`, the file systems in a folder, in a mount namespace; return its JSON."""
    preamble = (
        "import json, os\nfrom pathlib import Path\nfrom quintet.local.node.filesystems import *\n"
        f"folder = Path({str(folder)!r})\n"
        f"them = Filesystems(folder, {os.readlink('/proc/self/ns/mnt')!r})\n"
        "def size():\n    found = os.statvfs(folder / 'pvc-1/data')\n"
        "    return found.f_blocks * found.f_frsize\n"
    )
    done = subprocess.run([*IN_OWN_MOUNTS, preamble + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_loop
def test_filesystem_has_requested_size_and_survives_end_of_namespace(tmp_path):
    code = f"""
them.create("pvc-1", {64 * MIB + 512})
(folder / "pvc-1/data/file").write_text("kept")
print(json.dumps([(folder / "pvc-1.img").stat().st_size, size()]))
"""
    file, filesystem = run_in_own_mounts(code, tmp_path)
    assert file == 64 * MIB + 512
    assert 54 * MIB < filesystem < 64 * MIB
    # The namespace has ended without unmounting, as when a node is killed.
    assert not filesystems.is_attached(tmp_path / "pvc-1.img")
    code = """
them.mount_all(["pvc-1"])
waits = (folder / "pvc-1").is_mount()
them.mount_all([])
found = (folder / "pvc-1/data/file").read_text(), is_attached(folder / "pvc-1.img")
them.delete("pvc-1")
them.delete("pvc-1")
print(json.dumps([waits, *found, os.listdir(folder)]))
"""
    assert run_in_own_mounts(code, tmp_path) == [False, "kept", True, []]


GROW_IN_USE = [
    False,
    pytest.param(
        True, marks=pytest.mark.skipif(not filesystems.can_grow_in_use(), reason="needs CAP_SYS_RESOURCE")
    ),
]


@needs_loop
@pytest.mark.parametrize("in_use", GROW_IN_USE, ids=["without the permission", "with the permission"])
def test_filesystem_grows_in_use_only_with_permission_else_when_pod_has_ended(tmp_path, in_use):
    """A bind mount of the data folder is what the kubelet makes for a pod."""
    code = f"""
import subprocess
them.create("pvc-1", {64 * MIB})
(folder / "pvc-1/data/file").write_text("kept")
(folder / "pod").mkdir()
subprocess.run(["mount", "--bind", folder / "pvc-1/data", folder / "pod"], check=True)
grown = [them.grow("pvc-1", {256 * MIB}, in_use={in_use}) for _ in range(2)]
(folder / "pod/file").write_text("written meanwhile")
may_start = (folder / "pvc-1/data").exists()
subprocess.run(["umount", folder / "pod"], check=True)
grown += [them.grow("pvc-1", {256 * MIB}, in_use={in_use}) for _ in range(2)]
print(json.dumps([grown, may_start, size(), (folder / "pvc-1/data/file").read_text()]))
"""
    grown, may_start, size, content = run_in_own_mounts(code, tmp_path)
    assert grown == [in_use, in_use, True, True]
    assert may_start is in_use
    assert 240 * MIB < size < 256 * MIB
    assert content == "written meanwhile"


def test_file_is_attached_if_a_loop_device_uses_it_or_devices_cannot_be_listed(tmp_path):
    image, devices = tmp_path / "pvc-1.img", tmp_path / "block"
    assert filesystems.is_attached(image, devices)
    (devices / "loop0").mkdir(parents=True)
    assert not filesystems.is_attached(image, devices)
    (devices / "loop1/loop").mkdir(parents=True)
    (devices / "loop1/loop/backing_file").write_text(f"{tmp_path}/pvc-2.img\n")
    assert not filesystems.is_attached(image, devices)
    (devices / "loop1/loop/backing_file").write_text(f"{image}\n")
    assert filesystems.is_attached(image, devices)


@needs_loop
def test_growth_repairs_filesystem_of_a_growth_that_was_killed(tmp_path):
    """A file system with an error, in a file that already has the new size."""
    code = f"""
import subprocess
them.create("pvc-1", {64 * MIB})
(folder / "pvc-1/data/file").write_text("kept")
subprocess.run(["umount", folder / "pvc-1"], check=True)
os.truncate(folder / "pvc-1.img", {128 * MIB})
subprocess.run(["debugfs", "-w", "-R", "ssv free_blocks_count 1", folder / "pvc-1.img"], check=True)
grown = them.grow("pvc-1", {128 * MIB}, in_use=False)
print(json.dumps([grown, size(), (folder / "pvc-1/data/file").read_text()]))
"""
    grown, size, content = run_in_own_mounts(code, tmp_path)
    assert grown
    assert size > 110 * MIB
    assert content == "kept"


def test_can_grow_in_use_reads_effective_capabilities(tmp_path):
    for capabilities, want in (("000001fffeffffff", False), ("000001ffffffffff", True)):
        (tmp_path / "status").write_text(f"Name:\tpython3\nCapEff:\t{capabilities}\n")
        assert filesystems.can_grow_in_use(tmp_path / "status") is want


def test_growth_that_waits_for_pods_is_a_condition_and_keeps_the_volume_unmounted(node):
    waiting = Recorded(grows=False)
    volume = volumes.volume_for(a_claim(node), node) | {"status": {"phase": "Bound"}}
    claim = a_bound_claim(node, "1Gi")
    storage.reconcile(server := Server([claim], [volume]), node, waiting)
    ((_, patch),) = server.patched
    claim["status"] |= patch["status"]
    assert [each["type"] for each in claim["status"]["conditions"]] == ["FileSystemResizePending"]
    storage.reconcile(again := Server([claim], [volume]), node, waiting)
    assert again.patched == []
    assert waiting.mounted == [{"pvc-u-1"}] * 2


@needs_loop
def test_interrupted_creation_is_repeated_from_the_start(tmp_path):
    (tmp_path / "pvc-1.img.unfinished").write_text("half of a file system")
    code = f"them.create('pvc-1', {8 * MIB})\nprint(json.dumps(size()))"
    assert run_in_own_mounts(code, tmp_path) > 2 * MIB
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pvc-1", "pvc-1.img"]


@needs_loop
def test_size_too_small_for_a_filesystem_is_an_error_with_the_reason(tmp_path):
    code = """
try:
    them.create("pvc-1", 4096)
except Exception as error:
    print(json.dumps(str(error)))
"""
    assert run_in_own_mounts(code, tmp_path).startswith("mkfs.ext4 failed: ")


MACHINE = "mnt:[1]"


class Unmounts:
    """Records commands of `teardown` instead of running them."""

    def __init__(self, monkeypatch):
        self.commands = []
        monkeypatch.setattr(teardown.subprocess, "run", self.run)

    def run(self, command, **_):
        self.commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    """Return a function that simulates a mount from a device, in the machine's mount namespace or another."""

    def mount(place, device, namespace):
        line = f"36 35 7:0 / {place} rw shared:1 - ext4 {device} rw\n"
        (tmp_path / "mountinfo").write_text(line)
        monkeypatch.setattr(teardown, "MOUNTS", tmp_path / "mountinfo")
        (tmp_path / "namespace").symlink_to(namespace)
        monkeypatch.setattr(teardown, "MOUNT_NAMESPACE", tmp_path / "namespace")
        return Unmounts(monkeypatch)

    (tmp_path / "volumes/pvc-1").mkdir(parents=True)
    return mount


@pytest.mark.parametrize(
    ("path", "device", "namespace"),
    [
        ("volumes/pvc-1", "/dev/loop3", MACHINE),
        ("volumes/pvc-1", "/dev/sda1", "mnt:[2]"),
        ("volumes/pvc-2", "/dev/loop3", "mnt:[2]"),
        ("volumes/../other", "/dev/loop3", "mnt:[2]"),
        ("volumes", "/dev/loop3", "mnt:[2]"),
    ],
    ids=["in the machine's namespace", "a disk", "nothing mounted", "outside", "the folder itself"],
)
def test_teardown_refuses_to_unmount_what_is_no_volume_of_a_node(mounted, tmp_path, path, device, namespace):
    unmounts = mounted(tmp_path / path.replace("pvc-2", "pvc-1"), device, namespace)
    with pytest.raises(teardown.RefusedError):
        teardown.unmount(tmp_path / path, within=tmp_path / "volumes", machine=MACHINE)
    assert unmounts.commands == []


def test_teardown_unmounts_volume_of_a_node(mounted, tmp_path):
    place = tmp_path / "volumes/pvc-1"
    unmounts = mounted(place, "/dev/loop3", "mnt:[2]")
    teardown.unmount(place, within=tmp_path / "volumes", machine=MACHINE)
    assert unmounts.commands == [["umount", str(place)]]
