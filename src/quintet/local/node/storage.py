"""The volume provisioner of the StorageClasses `standard` and `exact`.

The node runs it as `python -m quintet.local.node.storage` in its own namespaces. `volumes` decides,
`filesystems` creates the volumes of `exact`. Kubernetes' own host-path provisioner creates folders that only
root can write to, of any size.
"""

from __future__ import annotations

import datetime
import hashlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quintet.local import teardown
from quintet.local.api import Api
from quintet.local.errors import LocalError
from quintet.local.node.filesystems import Filesystems, can_grow_in_use
from quintet.local.node.layout import Node
from quintet.local.node.namespace import refuse_namespaces_of_machine
from quintet.local.node.volumes import (
    EXACT,
    capacity_patch,
    failure_event,
    find_unsupported,
    is_ours,
    is_pending,
    is_released,
    must_grow,
    pending_patch,
    requested_bytes,
    requested_size,
    volume_for,
    volumes_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/persistentvolumeclaims"
# Polling two small lists from the API server's cache is simpler than two watches.
EVERY = 0.5


def main(directory: str, number: str, host: str, port: str, outside: str) -> None:
    """Reconcile forever; log a failed round and go on. `outside` names the namespaces of the machine."""
    refuse_namespaces_of_machine(outside.split(","), "node")
    api, node = Api(Path(directory), int(port), host), Node(Path(directory), int(number))
    filesystems = Filesystems(volumes_folder(node), machine=outside.split(",")[1])
    while True:
        try_step(reconcile, api, node, filesystems)
        time.sleep(EVERY)


def reconcile(api: Api, node: Node, filesystems: Filesystems) -> None:
    """Create volumes for claims whose first pod is scheduled to the node; grow and delete its volumes."""
    claims = {claim["metadata"]["uid"]: claim for claim in _list(api, CLAIMS)}
    for claim in claims.values():
        if is_pending(claim, node):
            _report(api, claim, "ProvisioningFailed", try_step(_create, api, node, filesystems, claim))
    growing = set()
    for volume in _list(api, VOLUMES):
        if not is_ours(volume, node):
            continue
        claim = claims.get(volume["spec"]["claimRef"]["uid"])
        if is_released(volume):
            try_step(_delete, api, node, filesystems, volume)
        elif claim is not None and must_grow(claim, volume):
            growing.add(volume["metadata"]["name"])
            _report(api, claim, "VolumeResizeFailed", try_step(_grow, api, filesystems, claim, volume))
    # After a start of the node, or if a growth was cancelled.
    try_step(filesystems.mount_all, growing)


def try_step(action: Callable[..., None], *arguments: Any) -> str | None:
    """Run one step; log and return its failure, so that one bad object does not block the others."""
    try:
        action(*arguments)
    except Exception as error:
        sys.stderr.write(f"error: {action.__name__.strip('_')}: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        return str(error) or type(error).__name__
    return None


def _report(api: Api, claim: Any, reason: str, failure: str | None) -> None:
    """Create an Event about a failure; the same failure of a claim is one Event."""
    if failure is not None:
        meta = claim["metadata"]
        same = hashlib.sha256(f"{meta['uid']} {reason} {failure}".encode()).hexdigest()[:16]
        event = failure_event(claim, reason, failure, _now(), f"{meta['name']}.{same}")
        try_step(api.create, f"/api/v1/namespaces/{meta['namespace']}/events", event)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _list(api: Api, path: str) -> list[Any]:
    found: list[Any] = api.request("GET", f"{path}?resourceVersion=0")["items"]
    return found


def _create(api: Api, node: Node, filesystems: Filesystems, claim: Any) -> None:
    if unsupported := find_unsupported(claim):
        raise LocalError(unsupported, "change the claim")
    volume = volume_for(claim, node)
    folder, name = volumes_folder(node), volume["metadata"]["name"]
    folder.mkdir(parents=True, exist_ok=True)
    if claim["spec"]["storageClassName"] == EXACT:
        filesystems.create(name, requested_bytes(claim))
    else:
        (folder / name).mkdir(exist_ok=True)
        (folder / name).chmod(0o777)
    api.create(VOLUMES, volume)


def _grow(api: Api, filesystems: Filesystems, listed: Any, volume: Any) -> None:
    """Grow the file system, then report the new size, first on the volume: each step can be repeated."""
    meta, name = listed["metadata"], volume["metadata"]["name"]
    path = f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{meta['name']}"
    # The list can be old, and growing twice would unmount the file system twice.
    claim = api.request("GET", path)
    if claim["metadata"]["uid"] != meta["uid"] or not must_grow(claim, volume):
        return
    if filesystems.grow(name, requested_bytes(claim), in_use=can_grow_in_use()):
        capacity = {"capacity": {"storage": requested_size(claim)}}
        api.request("PATCH", f"{VOLUMES}/{name}", {"spec": capacity})
        api.request("PATCH", f"{path}/status", capacity_patch(claim))
    elif patch := pending_patch(claim, _now()):
        api.request("PATCH", f"{path}/status", patch)


def _delete(api: Api, node: Node, filesystems: Filesystems, volume: Any) -> None:
    folder, name = volumes_folder(node), volume["metadata"]["name"]
    if volume["spec"]["storageClassName"] == EXACT:
        filesystems.delete(name)
    else:
        teardown.remove_tree(folder / name, within=node.directory)
    api.request("DELETE", f"{VOLUMES}/{name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
