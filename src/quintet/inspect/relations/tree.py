"""The tree below an object: its owned objects and those that it works with, each with its state.

Added to the owned objects are the targets of a CASConfig, the Subscriptions of an EventingBackend, and the
backend and sink of a Subscription.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quintet.inspect import kinds
from quintet.inspect.kinds import is_same_kind
from quintet.inspect.states import ChildState, child_state
from quintet.inspect.status import Rating, read_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quintet.apis.meta import JsonObject
    from quintet.inspect.relations.owned_objects import ObjectTree, TreeNode
    from quintet.kube.client import Client

UNICODE_LINES = ("├── ", "└── ", "│   ", "    ")
ASCII_LINES = ("|-- ", "`-- ", "|   ", "    ")
Paint = Callable[[ChildState], str]
"""Returns the text of a state, in colour where the output has colours."""


def no_colour(state: ChildState) -> str:
    """Return the text of a state."""
    return state.word


async def read_tree(client: Client, named: kinds.ObjectName, body: JsonObject) -> ObjectTree:
    """Return the tree of the objects that an object owns or works with."""
    from quintet.inspect.relations.owned_objects import find_owned_objects
    from quintet.inspect.relations.subscriptions import find_backend_and_sink, find_subscriptions

    found = await find_owned_objects(client, named.kind.resource, body)
    more: tuple[TreeNode, ...] = ()
    troubles: tuple[str, ...] = ()
    if named.kind.resource.kind == "CASConfig":
        more = casconfig_targets(body)
    if named.kind.resource.kind == "EventingBackend":
        more, troubles = await find_subscriptions(client, body)
    if named.kind.resource.kind == "Subscription":
        more = await find_backend_and_sink(client, body)
    root = replace(found.root, children=(*found.root.children, *more))
    return replace(found, root=root, failed_types=(*found.failed_types, *troubles))


def casconfig_targets(body: JsonObject) -> tuple[TreeNode, ...]:
    """Return the targets of a CASConfig, from its status."""
    import msgspec

    from quintet.apis.casconfig.types import Target
    from quintet.apis.meta import ObjectMeta, Resource
    from quintet.inspect.relations.owned_objects import TreeNode

    found = []
    for each in msgspec.convert((body.get("status") or {}).get("targets") or (), tuple[Target, ...]):
        *group, version, kind = ["", *each.kind.split("/")]
        meta = ObjectMeta(name=each.name, namespace=each.namespace)
        state = {"state": str(each.state), "reason": each.reason, "message": each.message}
        found.append(TreeNode(Resource("".join(group), version, kind, ""), meta, {"target": state}, "target"))
    return tuple(found)


def node_state(member: TreeNode) -> ChildState:
    """Return the state of a node, of any kind."""
    body = member.body
    if member.error:
        return ChildState(member.error, Rating.BAD, member.error)
    if body is not None and (target := body.get("target")) is not None:
        word = ", ".join(filter(None, (target.get("state"), target.get("reason"))))
        return ChildState(word, rate_target(target.get("state")), str(target.get("message") or ""))
    for kind in kinds.all_kinds():
        if body is not None and is_same_kind(kind.resource, member.resource):
            found = read_status(kind, body)
            return ChildState(f"{found.verdict} ({found.reason})", found.rating, found.message)
    return child_state(member.resource, body)


def rate_target(state: str | None) -> Rating:
    """Return whether a target of a CASConfig is as it should be."""
    return Rating.BAD if state in ("Failed", "Contested", "RolledBack") else Rating.NEUTRAL


def render_tree(
    member: TreeNode, style: Sequence[str], paint: Paint = no_colour, front: str = "", below: str = ""
) -> Iterator[str]:
    """Yield one line per node, with the branches of the tree."""
    found = node_state(member)
    relation = f" ({member.relation})" if member.relation else ""
    name = f"{member.resource.kind} {member.meta.name}{relation}"
    yield f"{front}{name}  {paint(found)}".rstrip()
    branch, last, through, space = style
    for number, child in enumerate(member.children, 1):
        ends = number == len(member.children)
        yield from render_tree(
            child, style, paint, below + (last if ends else branch), below + (space if ends else through)
        )


def tree_remarks(found: ObjectTree) -> list[str]:
    """Return remarks about types that could not be listed."""
    remarks = [f"cannot list {error}" for error in found.failed_types]
    if found.forbidden_types:
        remarks.append(f"not listed, because you have no permission: {', '.join(found.forbidden_types)}")
    return remarks


def tree_document(found: ObjectTree) -> dict[str, Any]:
    """Return the tree as JSON-ready data."""
    return {
        "root": _node_document(found.root),
        "notListed": list(found.forbidden_types),
        "troubles": list(found.failed_types),
    }


def _node_document(member: TreeNode) -> dict[str, Any]:
    found = node_state(member)
    return {
        "apiVersion": member.resource.api_version,
        "kind": member.resource.kind,
        "namespace": member.meta.namespace,
        "name": member.meta.name,
        "uid": member.meta.uid,
        "relation": member.relation or "owned",
        "state": found.word,
        "mark": str(found.rating),
        "detail": found.detail,
        "children": [_node_document(each) for each in member.children],
    }
