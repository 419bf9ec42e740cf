"""Reads and builds the panels of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from quintet.apis.casconfig import CASCONFIGS
from quintet.apis.checkup import CHECKUPS
from quintet.apis.statefulcluster import REPLICA_LABEL, STATEFULCLUSTERS
from quintet.inspect.panels.casconfig import casconfig_panels
from quintet.inspect.panels.checkup import checkup_panels
from quintet.inspect.panels.statefulcluster import statefulcluster_panels
from quintet.kube.client import PODS
from quintet.kube.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quintet.apis.meta import JsonObject, Resource
    from quintet.inspect.panels.panel import Panel
    from quintet.inspect.relations.owned_objects import ObjectTree
    from quintet.kube.client import Client


async def read_panels(client: Client, resource: Resource, body: JsonObject) -> tuple[Panel, ...]:
    """Return the panels of an object; only those of a StatefulCluster need a request, for its pods."""
    pods = await _list_own_pods(client, body) if resource == STATEFULCLUSTERS else []
    return build_panels(resource, body, pods)


def build_panels(
    resource: Resource, body: JsonObject, pods: Sequence[JsonObject] | None
) -> tuple[Panel, ...]:
    """Return the panels of an object; `pods` are those that it owns, None if unknown."""
    if resource == STATEFULCLUSTERS:
        return statefulcluster_panels(body, pods)
    if resource == CHECKUPS:
        return checkup_panels(body)
    if resource == CASCONFIGS:
        return casconfig_panels(body)
    return ()


def panels_of_tree(tree: ObjectTree) -> tuple[Panel, ...]:
    """Return the panels of the root of a tree."""
    root = tree.root
    if root.body is None:
        return ()
    pods = [each.body for each in root.children if each.resource.kind == "Pod" and each.body]
    return build_panels(root.resource, root.body, None if PODS.qualified in tree.forbidden_types else pods)


async def _list_own_pods(client: Client, body: JsonObject) -> list[JsonObject] | None:
    meta, found = body["metadata"], []
    try:
        async for page in client.pages(PODS, namespace=meta["namespace"], labels=REPLICA_LABEL):
            found += [msgspec.json.decode(item) for item in page.items]
    except Forbidden:
        return None
    return [
        pod
        for pod in found
        if any(each.get("uid") == meta["uid"] for each in pod["metadata"].get("ownerReferences") or ())
    ]
