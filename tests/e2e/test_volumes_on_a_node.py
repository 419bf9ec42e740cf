"""The StorageClass `exact` on a node: the size, growth and removal of its volumes."""

import json

import pytest

from e2e.commands import eventually, kubectl
from e2e.machine_state import loop_devices
from quintet.local.cluster import Cluster
from quintet.local.node.filesystems import can_grow_in_use

pytestmark = pytest.mark.node

IMAGE = "quintet.local/json-server:0.17.4"
MIB = 2**20
PENDING = "jsonpath={.status.conditions[?(@.type=='FileSystemResizePending')].status}"


def claim(name: str, size: str) -> dict[str, object]:
    requests = {"storage": size}
    spec = {
        "storageClassName": "exact",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": requests},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def pod(name: str) -> dict[str, object]:
    """Return a pod that is not root and uses the claim of the same name."""
    mount = {"name": "data", "mountPath": "/data"}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "infinity"], "volumeMounts": [mount]}
    spec = {
        "securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 2000},
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        "terminationGracePeriodSeconds": 0,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def apply(node: Cluster, *objects: object) -> None:
    kubectl(
        node, "apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    )


def in_pod(node: Cluster, script: str) -> str:
    """Run a shell script in the pod `sized`; return its output, whatever its exit code."""
    done = node.kubectl("exec", "sized", "--", "sh", "-c", script)
    return done.stdout + done.stderr


def size_of_volume(node: Cluster) -> int:
    return int(in_pod(node, "df --block-size=1 --output=size /data").split()[-1])


def test_exact_volume_has_requested_size_grows_and_is_removed(node: Cluster) -> None:
    state = node.directory.parents[2]
    apply(node, claim("sized", "64Mi"), pod("sized"))
    kubectl(node, "wait", "pod/sized", "--for=condition=Ready", "--timeout=120s")
    assert "No space left on device" in in_pod(
        node, "echo kept >/data/file; dd if=/dev/zero of=/data/full bs=1M"
    )
    assert 50 * MIB < int(in_pod(node, "stat --format=%s /data/full")) < 64 * MIB
    assert in_pod(node, "stat --format=%g /data/file").strip() == "2000"
    (image,) = (node.list_nodes()[0].directory / "volumes").glob("*.img")
    assert image.stat().st_size == 64 * MIB
    kubectl(node, "patch", "pvc", "sized", "-p", json.dumps({"spec": claim("sized", "128Mi")["spec"]}))
    if not can_grow_in_use():
        kubectl(node, "wait", "pvc/sized", f"--for={PENDING}=True", "--timeout=60s")
        kubectl(node, "delete", "pod", "sized")
        # At once, as a controller does: it must not start before the volume has grown.
        apply(node, pod("sized"))
    kubectl(node, "wait", "pvc/sized", "--for=jsonpath={.status.capacity.storage}=128Mi", "--timeout=60s")
    kubectl(node, "wait", "pod/sized", "--for=condition=Ready", "--timeout=120s")
    assert 110 * MIB < size_of_volume(node) < 128 * MIB
    assert in_pod(node, "cat /data/file; dd if=/dev/zero of=/data/more bs=1M count=40").startswith("kept\n")
    assert int(in_pod(node, "stat --format=%s /data/more")) == 40 * MIB
    assert kubectl(node, "get", "pvc", "sized", "-o", PENDING) == ""
    assert loop_devices(state) == {str(image)}
    kubectl(node, "delete", "pod/sized", "pvc/sized")
    eventually(lambda: not list(image.parent.glob(f"{image.stem}*")), "the volume is removed")
    eventually(
        lambda: not loop_devices(state), "the loop device is released", lambda: str(loop_devices(state))
    )
    eventually(lambda: node.kubectl("get", "pv", image.stem).returncode != 0, "the PersistentVolume is gone")


def test_claim_too_small_for_a_filesystem_gets_an_event_with_the_reason(node: Cluster) -> None:
    apply(node, claim("tiny", "4Ki"), pod("tiny"))
    query = (
        "get",
        "events",
        "--field-selector=involvedObject.name=tiny,reason=ProvisioningFailed",
        "-o",
        "json",
    )

    def messages() -> list[str]:
        return [each["message"] for each in json.loads(kubectl(node, *query))["items"]]

    eventually(lambda: bool(messages()), "an Event")
    (message,) = messages()
    assert message.startswith("mkfs.ext4 failed: ")
    kubectl(node, "delete", "pod/tiny", "pvc/tiny", "--wait=false")
