"""The objects of a namespace as comparable text: without what the API server assigns."""

import json
import re
from collections.abc import Iterable
from typing import Any

from kit.cluster.api import Api, JsonObject
from quintet.kinds import Kind, load

APPLIED = "quintet.dev/applied"
"""An annotation with the uid of the owner and a hash of all that was applied."""
REVISION = "deployment.kubernetes.io/revision"
"""An annotation in which the Deployment controller counts the changes of the pod template."""
# History of an object: it grows with each change of the spec.
HISTORY = frozenset({"controllerrevisions", "events"})
_ASSIGNED = re.compile(
    r"kube-api-access-[a-z0-9]{5}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_ASSIGNED_FIELDS = frozenset(
    {"uid", "resourceVersion", "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort", "volumeName"}
)


def created_collections(kinds: Iterable[Kind], namespace: str) -> list[str]:
    """Return the collections in which the controllers of these kinds may create objects, from their permissions."""
    made = {
        (permission.group, resource)
        for kind in kinds
        for permission in load(kind.rbac).PERMISSIONS
        for resource in permission.resources
        if {"create", "list"} <= {*permission.verbs} and "/" not in resource
    }
    return [
        f"/{'apis/' + group if group else 'api'}/v1/namespaces/{namespace}/{resource}"
        for group, resource in sorted(made)
        if resource not in HISTORY
    ]


async def read_objects(api: Api, paths: Iterable[str], names: Iterable[str], *, owner: str = "") -> list[str]:
    """Return the lines of all objects of these collections that are not being deleted, or those of one owner.

    `names` are patterns of names that differ from run to run.
    """
    found: list[str] = []
    patterns = [re.compile(each) for each in names]
    for path in paths:
        for item in (await api.get(path))["items"]:
            owners = {each["uid"] for each in item["metadata"].get("ownerReferences", ())}
            if "deletionTimestamp" not in item["metadata"] and (not owner or owner in owners):
                found.append(_as_text(path, item, patterns))
    return [line for each in sorted(found) for line in each.splitlines()]


async def list_owned(api: Api, paths: Iterable[str], owners: set[str]) -> list[str]:
    """Return the objects of these collections that one of the owners owns, as `type/name`."""
    return [
        f"{path.rpartition('/')[2]}/{item['metadata']['name']}"
        for path in paths
        for item in (await api.get(path))["items"]
        if any(each["uid"] in owners for each in item["metadata"].get("ownerReferences", ()))
    ]


def _as_text(path: str, item: JsonObject, names: Iterable[re.Pattern[str]]) -> str:
    metadata = item["metadata"]
    annotations = metadata.get("annotations", {})
    shown = {
        "type": path.rpartition("/")[2],
        "metadata": {
            "name": metadata["name"],
            "labels": metadata.get("labels", {}),
            "annotations": {
                key: value for key, value in annotations.items() if key not in (APPLIED, REVISION)
            },
            "finalizers": metadata.get("finalizers", []),
        },
        **{
            key: _without_assigned(value)
            for key, value in item.items()
            if key not in ("metadata", "status", "apiVersion", "kind")
        },
    }
    text = _ASSIGNED.sub("ASSIGNED", json.dumps(shown, indent=1, sort_keys=True))
    for pattern in names:
        text = pattern.sub("NAME", text)
    return text


def _without_assigned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_assigned(each) for key, each in value.items() if key not in _ASSIGNED_FIELDS}
    return [_without_assigned(each) for each in value] if isinstance(value, list) else value
