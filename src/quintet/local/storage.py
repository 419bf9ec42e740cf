"""Makes volumes for claims of the StorageClass `standard`: folders that any user may write to.

Started by `node` as `python -m quintet.local.storage`. Kubernetes' own host-path provisioner
makes folders for root only, where a pod that runs as another user could not write.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from quintet.local.api import Api

PROVISIONER = "quintet.dev/host-path"
CLASS = "standard"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/persistentvolumeclaims"
# Two small lists from the server's cache: cheaper to read than two watches are to explain.
EVERY = 0.5

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
    """Go on until ended; a server that does not answer is asked again."""
    api = Api(Path(directory), int(port))
    while True:
        try:
            reconcile(api, Path(directory) / "volumes")
        except OSError as error:
            sys.stderr.write(f"error: {error}\n")
            sys.stderr.flush()
        time.sleep(EVERY)


def reconcile(api: Api, folder: Path) -> None:
    """Make what claims wait for, remove what claims have released."""
    for claim in api.request("GET", f"{CLAIMS}?resourceVersion=0")["items"]:
        if _waiting(claim):
            volume = volume_for(claim, folder)
            place = Path(volume["spec"]["hostPath"]["path"])
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o777)
            api.create(VOLUMES, volume)
    for volume in api.request("GET", f"{VOLUMES}?resourceVersion=0")["items"]:
        if _released(volume):
            shutil.rmtree(volume["spec"]["hostPath"]["path"], ignore_errors=True)
            api.request("DELETE", f"{VOLUMES}/{volume['metadata']['name']}")


def _waiting(claim: Any) -> bool:
    spec, meta = claim["spec"], claim["metadata"]
    return (
        spec.get("storageClassName") == CLASS
        and claim["status"].get("phase") == "Pending"
        and not spec.get("volumeName")
        and not meta.get("deletionTimestamp")
    )


def _released(volume: Any) -> bool:
    meta, spec = volume["metadata"], volume["spec"]
    return (
        meta.get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
        and volume["status"].get("phase") == "Released"
        and spec.get("persistentVolumeReclaimPolicy") == "Delete"
        and not meta.get("deletionTimestamp")
    )


def volume_for(claim: Any, folder: Path) -> dict[str, Any]:
    """Return the volume that is bound to this claim, and to no later one of the same name."""
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
