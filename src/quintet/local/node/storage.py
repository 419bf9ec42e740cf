"""The volume provisioner of the StorageClass `standard`: folders that any user can write to.

The node runs it as `python -m quintet.local.node.storage`. Kubernetes' own host-path provisioner creates
folders that only root can write to.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quintet.local import teardown
from quintet.local.api import Api
from quintet.local.node.layout import Node

if TYPE_CHECKING:
    from collections.abc import Callable

PROVISIONER = "quintet.dev/host-path"
CLASS = "standard"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/persistentvolumeclaims"
# Polling two small lists from the API server's cache is simpler than two watches.
EVERY = 0.5
NAME = re.compile(r"pvc-[0-9a-z][-0-9a-z]*")

STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": CLASS,
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def main(directory: str, number: str, host: str, port: str) -> None:
    """Reconcile forever; log a failed round and go on."""
    api, node = Api(Path(directory), int(port), host), Node(Path(directory), int(number))
    while True:
        _log_failure(reconcile, api, node)
        time.sleep(EVERY)


def reconcile(api: Api, node: Node) -> None:
    """Create volumes for claims whose first pod is scheduled to the node; delete its released volumes."""
    for claim in _list(api, CLAIMS):
        if _is_pending(claim) and _selected_node(claim) == node.name:
            _log_failure(_create, api, node, claim)
    for volume in _list(api, VOLUMES):
        if _is_released(volume) and _is_ours(volume, node):
            _log_failure(_delete, api, node, volume["metadata"]["name"])


def _log_failure(action: Callable[..., None], *arguments: Any) -> None:
    """Run one step; log its failure, so that one bad object does not block the others."""
    try:
        action(*arguments)
    except Exception as error:
        sys.stderr.write(f"error: {action.__name__.strip('_')}: {type(error).__name__}: {error}\n")
        sys.stderr.flush()


def _list(api: Api, path: str) -> list[Any]:
    found: list[Any] = api.request("GET", f"{path}?resourceVersion=0")["items"]
    return found


def _create(api: Api, node: Node, claim: Any) -> None:
    volume = volume_for(claim, node)
    path = _folder(node) / volume["metadata"]["name"]
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    api.create(VOLUMES, volume)


def _delete(api: Api, node: Node, name: str) -> None:
    teardown.remove_tree(_folder(node) / name, within=node.directory)
    api.request("DELETE", f"{VOLUMES}/{name}")


def _folder(node: Node) -> Path:
    return node.directory / "volumes"


def _selected_node(claim: Any) -> str:
    """Return the node that the scheduler has chosen for the first pod of a claim; empty if it has not yet."""
    return str(claim["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


def _is_pending(claim: Any) -> bool:
    spec, meta = claim["spec"], claim["metadata"]
    return (
        spec.get("storageClassName") == CLASS
        and claim["status"].get("phase") == "Pending"
        and not spec.get("volumeName")
        and not meta.get("deletionTimestamp")
    )


def _is_released(volume: Any) -> bool:
    meta, spec = volume["metadata"], volume["spec"]
    return (
        meta.get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
        and volume["status"].get("phase") == "Released"
        and spec.get("persistentVolumeReclaimPolicy") == "Delete"
        and not meta.get("deletionTimestamp")
    )


def _is_ours(volume: Any, node: Node) -> bool:
    """Return whether this node's provisioner created the volume: users can set annotation, path and claim."""
    name, spec = volume["metadata"]["name"], volume["spec"]
    return (
        NAME.fullmatch(name) is not None
        and name == f"pvc-{spec.get('claimRef', {}).get('uid')}"
        and spec.get("hostPath", {}).get("path") == str(_folder(node) / name)
    )


def volume_for(claim: Any, node: Node) -> dict[str, Any]:
    """Return the volume for this claim on the node, bound by UID, not to a later claim of the same name."""
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{meta['uid']}"
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": CLASS,
            "hostPath": {"path": str(_folder(node) / name), "type": "Directory"},
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


if __name__ == "__main__":
    main(*sys.argv[1:])
