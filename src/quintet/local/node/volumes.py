"""The StorageClasses, and the decisions of a node's volume provisioner. Pure.

`standard` gives a folder. `exact` gives a file system of exactly the requested size, which can grow.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from quintet.apis.quantity import amount

if TYPE_CHECKING:
    from pathlib import Path

    from quintet.local.node.layout import Node

STANDARD, EXACT = "standard", "exact"
PROVISIONERS = {STANDARD: "quintet.dev/host-path", EXACT: "quintet.dev/loop-device"}
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
# The folder for files of pods. It exists only while the file system is mounted: pods cannot write below it.
DATA = "data"
PENDING = "FileSystemResizePending"
NAME = re.compile(r"pvc-[0-9a-z][-0-9a-z]*")


def storage_classes() -> list[dict[str, Any]]:
    """Return the StorageClasses of a cluster with nodes; `standard` is the default."""
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": {IS_DEFAULT: "true"} if name == STANDARD else {}},
            "provisioner": provisioner,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": name == EXACT,
        }
        for name, provisioner in PROVISIONERS.items()
    ]


def volumes_folder(node: Node) -> Path:
    """Return the folder of the volumes of a node."""
    return node.directory / "volumes"


def is_pending(claim: Any, node: Node) -> bool:
    """Return whether the claim waits for a volume on this node, where the scheduler has placed its pod."""
    spec, meta = claim["spec"], claim["metadata"]
    return (
        spec.get("storageClassName") in PROVISIONERS
        and meta.get("annotations", {}).get(SELECTED_NODE) == node.name
        and claim["status"].get("phase") == "Pending"
        and not spec.get("volumeName")
        and not meta.get("deletionTimestamp")
    )


def find_unsupported(claim: Any) -> str | None:
    """Return what the claim requests that its volume would not have; None if it can be created."""
    spec = claim["spec"]
    if spec.get("volumeMode", "Filesystem") != "Filesystem":
        return f"volumeMode {spec['volumeMode']} is not supported: use Filesystem"
    for each in ("dataSource", "dataSourceRef", "selector"):
        if spec.get(each):
            return f"{each} is not supported: volumes are created empty"
    return None


def is_ours(volume: Any, node: Node) -> bool:
    """Return whether this node's provisioner created the volume: users can set annotation, path and claim."""
    meta, spec = volume["metadata"], volume["spec"]
    name, storage_class = meta["name"], spec.get("storageClassName")
    return (
        NAME.fullmatch(name) is not None
        and name == f"pvc-{spec.get('claimRef', {}).get('uid')}"
        and storage_class in PROVISIONERS
        and meta.get("annotations", {}).get(PROVISIONED_BY) == PROVISIONERS[storage_class]
        and _source(storage_class, node, name).items() <= spec.items()
    )


def is_released(volume: Any) -> bool:
    """Return whether the claim of the volume is deleted, and the volume must be deleted too."""
    return (
        volume["status"].get("phase") == "Released"
        and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        and not volume["metadata"].get("deletionTimestamp")
    )


def must_grow(claim: Any, volume: Any) -> bool:
    """Return whether the claim requests more than its volume offers, and the volume can grow."""
    status = claim["status"]
    offered = status.get("capacity", {}).get("storage")
    return (
        volume["spec"]["storageClassName"] == EXACT
        and status.get("phase") == "Bound"
        and claim["spec"].get("volumeName") == volume["metadata"]["name"]
        and offered is not None
        and requested_bytes(claim) > _to_bytes(offered)
    )


def capacity_patch(claim: Any) -> dict[str, Any]:
    """Return the patch of a status after the volume has the requested size."""
    # With the UID, it cannot change a later claim of the same name.
    uid = {"uid": claim["metadata"]["uid"]}
    return {"metadata": uid, "status": {"capacity": {"storage": requested_size(claim)}, "conditions": None}}


def pending_patch(claim: Any, now: str) -> dict[str, Any] | None:
    """Return the patch of a status that says that pods must end first; None if the status says so."""
    if any(each["type"] == PENDING for each in claim["status"].get("conditions") or ()):
        return None
    message = "Delete the pods that use the volume: it grows before the next pod starts"
    condition = {"type": PENDING, "status": "True", "lastTransitionTime": now, "message": message}
    return {"metadata": {"uid": claim["metadata"]["uid"]}, "status": {"conditions": [condition]}}


def requested_bytes(claim: Any) -> int:
    """Return the requested size in bytes, rounded up."""
    return _to_bytes(requested_size(claim))


def requested_size(claim: Any) -> str:
    """Return the requested size."""
    return str(claim["spec"]["resources"]["requests"]["storage"])


def volume_for(claim: Any, node: Node) -> dict[str, Any]:
    """Return the volume for this claim on the node, bound by UID, not to a later claim of the same name."""
    meta, spec = claim["metadata"], claim["spec"]
    name, storage_class = f"pvc-{meta['uid']}", spec["storageClassName"]
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONERS[storage_class]}},
        "spec": {
            "capacity": {"storage": requested_size(claim)},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": storage_class,
            **_source(storage_class, node, name),
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
        },
    }


def failure_event(claim: Any, reason: str, message: str, now: str, name: str) -> dict[str, Any]:
    """Return a Warning about a claim; `name` makes it unique."""
    meta = claim["metadata"]
    about = {key: meta[key] for key in ("namespace", "name", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": meta["namespace"]},
        "involvedObject": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **about},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": PROVISIONERS[claim["spec"]["storageClassName"]]},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _source(storage_class: str, node: Node, name: str) -> dict[str, Any]:
    path = volumes_folder(node) / name
    if storage_class == EXACT:
        # Kubernetes sets the group of a `local` volume (fsGroup) and measures its use, as with a CSI driver.
        return {"local": {"path": str(path / DATA)}}
    return {"hostPath": {"path": str(path), "type": "Directory"}}


def _to_bytes(quantity: str) -> int:
    found = amount(quantity)
    return 0 if found is None else math.ceil(found)
