"""Reads everything from the cluster that explains an object's status."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from quintet.apis.meta import JsonObject
from quintet.components import COMPONENTS
from quintet.inspect.events import EventSummary, parse_event, sort_by_time
from quintet.inspect.explanation import Child, Explanation, build_explanation
from quintet.inspect.relations.tree import node_state, read_tree, tree_remarks
from quintet.inspect.status import read_status
from quintet.kube.errors import Forbidden
from quintet.runtime.events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.apis.resources import CustomResource
    from quintet.inspect.kinds import ObjectName
    from quintet.inspect.relations.owned_objects import ObjectTree
    from quintet.inspect.session import Session
    from quintet.inspect.status import ObjectStatus
    from quintet.kube.client import Client

_EVENTS_FORBIDDEN = "not listed, because you have no permission: events.events.k8s.io"


class ObjectDetails(NamedTuple):
    """Everything that is shown of one object."""

    status: ObjectStatus
    tree: ObjectTree
    explanation: Explanation
    events: tuple[EventSummary, ...]
    """The Events of the object and its children, oldest first."""
    can_list_events: bool
    remarks: tuple[str, ...]
    """What could not be read."""


async def read_explanation(session: Session, named: ObjectName) -> tuple[Explanation, list[str]]:
    """Return the explanation of an object's status, and what could not be read for it."""
    found = await read_details(session, named)
    return found.explanation, list(found.remarks)


async def read_details(session: Session, named: ObjectName) -> ObjectDetails:
    """Return the status, tree, Events and explanation of an object."""
    kind = named.kind
    body = await session.client.get(kind.resource, session.key(kind.resource, named.name), JsonObject)
    tree = await read_tree(session.client, named, body)
    events = await _list_events(session.client, tree)
    status = read_status(kind, body)
    explanation = build_explanation(
        status,
        list_children(tree),
        events or (),
        controller=find_controller(kind),
        waits=body["metadata"].get("finalizers") or (),
    )
    remarks = [*tree_remarks(tree), *([_EVENTS_FORBIDDEN] if events is None else [])]
    shown = tuple(sort_by_time(events or ()))
    return ObjectDetails(status, tree, explanation, shown, events is not None, tuple(remarks))


def list_children(tree: ObjectTree) -> Iterator[Child]:
    """Yield everything below an object, with its state."""
    for node in tree.root.walk():
        if node is not tree.root:
            yield Child(node.resource.kind, node.meta.name, node_state(node))


def find_controller(kind: CustomResource) -> str:
    """Return the name of the controller that reconciles a kind."""
    return next((name for name, each in COMPONENTS.items() if kind in each.kinds), "operator")


async def _list_events(client: Client, tree: ObjectTree) -> list[EventSummary] | None:
    """Return the Events about a tree; None if the user has no permission to list them."""
    uids = {node.meta.uid for node in tree.root.walk()} - {""}
    found: list[EventSummary] = []
    try:
        async for page in client.pages(EVENTS, namespace=tree.root.meta.namespace):
            bodies: list[JsonObject] = [msgspec.json.decode(item) for item in page.items]
            found += [each for each in map(parse_event, bodies) if each.uid in uids]
    except Forbidden:
        return None
    return found
