"""Compares manifests with the cluster: a dry-run apply per object, and a preview of its children."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from quintet.apis.meta import JsonObject
from quintet.authoring.annotated_yaml import dump_yaml
from quintet.authoring.preview import preview_children
from quintet.kube.discovery import list_resources
from quintet.kube.errors import NotFound
from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from quintet.apis.meta import ObjectKey, Resource
    from quintet.inspect.session import Session
    from quintet.kube.client import Client

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Fields that only the server sets.
_SERVER_FIELDS = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")


async def diff_objects(session: Session, objects: Sequence[JsonObject], *, children: bool) -> list[str]:
    """Return the unified diffs of all objects and, if asked, of the children that controllers create."""
    served, found = await list_resources(session.client), list[str]()
    for obj in objects:
        resource = find_resource(obj, served)
        name = obj["metadata"].get("name", "")
        if not name:
            raise LocalError(
                f"a {obj['kind']} has no name", "set metadata.name, which is needed to compare it"
            )
        namespace = obj["metadata"].get("namespace") or session.namespace
        key = session.key(resource, name)._replace(namespace=namespace if resource.namespaced else "")
        before, after = await dry_run_apply(session.client, resource, key, obj)
        found += differences(before, after)
        if children:
            found += child_differences(before, after)
    return found


def find_resource(obj: JsonObject, served: Iterable[Resource]) -> Resource:
    """Return the resource of an object, among those that the cluster serves."""
    kind = obj["apiVersion"], obj["kind"]
    found = next((each for each in served if (each.api_version, each.kind) == kind), None)
    if found is None:
        message = f"the cluster does not serve {obj['kind']} of {obj['apiVersion']}"
        raise LocalError(
            message, "check apiVersion and kind, and run `quintet doctor` to check the installation"
        )
    return found


async def dry_run_apply(
    client: Client, resource: Resource, key: ObjectKey, obj: JsonObject
) -> tuple[JsonObject | None, JsonObject]:
    """Return the live object, if it exists, and the object after a dry-run apply."""
    body = {**obj, "metadata": {**obj["metadata"], **({"namespace": key.namespace} if key.namespace else {})}}
    # Like `kubectl apply`: take over fields of other managers.
    client = client.with_manager("kubectl")
    try:
        before = await client.get(resource, key, JsonObject)
    except NotFound:
        return None, await client.apply(resource, key, body, JsonObject, dry_run=True)
    applied = (before["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if applied is None:
        return before, await client.apply(resource, key, body, JsonObject, dry_run=True)
    # kubectl records empty annotations, although its own annotation is always set.
    body["metadata"].setdefault("annotations", {})
    change = three_way(json.loads(applied), body)
    return before, await client.patch(resource, key, change, JsonObject, dry_run=True)


def three_way(applied: Any, desired: JsonObject) -> JsonObject:
    """Return a merge patch to the desired object that also removes fields which were applied before."""
    patch: JsonObject = {}
    for name, value in desired.items():
        before = applied.get(name) if isinstance(applied, dict) else None
        patch[name] = three_way(before, value) if isinstance(value, dict) else value
    if isinstance(applied, dict):
        patch |= {name: None for name in applied if name not in desired and name != "status"}
    return patch


def differences(before: JsonObject | None, after: JsonObject) -> list[str]:
    """Return a unified diff of one object, without fields that only the server sets."""
    return _unified_diff(_visible_lines(before), _visible_lines(after), _title(after))


def child_differences(before: JsonObject | None, after: JsonObject) -> list[str]:
    """Return a unified diff of the objects that the controller creates for an object."""
    old = preview_children(before) if before is not None else None
    new = preview_children(after)
    if new is None:
        return []
    live = {_title(each): each for each in (old.children if old is not None else ())}
    desired = {_title(each): each for each in new.children}
    lines: list[str] = []
    for title in {**live, **desired}:
        lines += _unified_diff(_visible_lines(live.get(title)), _visible_lines(desired.get(title)), title)
    return lines


def _title(obj: JsonObject) -> str:
    metadata = obj["metadata"]
    where = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return f"{obj['kind']} {where}"


def _visible_lines(obj: JsonObject | None) -> list[str]:
    if obj is None:
        return []
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVER_FIELDS}
    notes = {
        key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LAST_APPLIED
    }
    if notes:
        metadata["annotations"] = notes
    return dump_yaml(
        {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}
    )


def _unified_diff(before: list[str], after: list[str], title: str) -> list[str]:
    lines: Iterator[str] = difflib.unified_diff(before, after, f"live/{title}", f"new/{title}", lineterm="")
    return list(lines)
