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

if TYPE_CHECKING:
    from collections.abc import Callable

PROVISIONER = "quintet.dev/host-path"
CLASS = "standard"
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
    "volumeBindingMode": "Immediate",
}


def main(directory: str, port: str) -> None:
    """Reconcile forever; log a failed round and go on."""
    api = Api(Path(directory), int(port))
    while True:
        _log_failure(reconcile, api, Path(directory) / "volumes")
        time.sleep(EVERY)


def reconcile(api: Api, folder: Path) -> None:
    """Create volumes for pending claims and delete released volumes."""
    for claim in _list(api, CLAIMS):
        if _is_pending(claim):
            _log_failure(_create, api, folder, claim)
    for volume in _list(api, VOLUMES):
        if _is_released(volume) and _is_ours(volume, folder):
            _log_failure(_delete, api, folder, volume["metadata"]["name"])


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


def _create(api: Api, folder: Path, claim: Any) -> None:
    volume = volume_for(claim, folder)
    path = folder / volume["metadata"]["name"]
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    api.create(VOLUMES, volume)


def _delete(api: Api, folder: Path, name: str) -> None:
    teardown.remove_tree(folder / name, within=folder.parent)
    api.request("DELETE", f"{VOLUMES}/{name}")


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


def _is_ours(volume: Any, folder: Path) -> bool:
    """Return whether this provisioner created the volume: users can set annotation, path and claim."""
    name, spec = volume["metadata"]["name"], volume["spec"]
    return (
        NAME.fullmatch(name) is not None
        and name == f"pvc-{spec.get('claimRef', {}).get('uid')}"
        and spec.get("hostPath", {}).get("path") == str(folder / name)
    )


def volume_for(claim: Any, folder: Path) -> dict[str, Any]:
    """Return the volume for this claim, bound by UID and not to a later claim of the same name."""
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{meta['uid']}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": CLASS,
            "hostPath": {"path": str(folder / name), "type": "Directory"},
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
