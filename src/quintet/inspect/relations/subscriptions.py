"""The objects that a Subscription works with: its backend, its sink, and the pods that deliver its events."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from quintet.apis.eventingbackend import EVENTINGBACKENDS
from quintet.apis.meta import JsonObject, ObjectKey, ObjectMeta, Resource
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.controllers.eventingbackend.decide.desired import BACKEND_LABEL, SERVICES
from quintet.eventing.children import DISPATCHER, child_name
from quintet.inspect.relations.owned_objects import TreeNode
from quintet.kube.errors import ApiError, KubeError, NotFound

if TYPE_CHECKING:
    from quintet.kube.client import Client


async def find_subscriptions(
    client: Client, backend: JsonObject
) -> tuple[tuple[TreeNode, ...], tuple[str, ...]]:
    """Return the Subscriptions of a backend, and why they could not be listed."""
    meta, found = backend["metadata"], []
    try:
        async for page in client.pages(SUBSCRIPTIONS, namespace=meta["namespace"]):
            found += [msgspec.json.decode(item) for item in page.items]
    except ApiError as error:
        return (), (f"its Subscriptions: {error.message or error}",)
    return tuple(
        _node(SUBSCRIPTIONS, each, "uses it") for each in found if backend_name(each) == meta["name"]
    ), ()


async def find_backend_and_sink(client: Client, subscription: JsonObject) -> tuple[TreeNode, ...]:
    """Return the backend of a Subscription, and its sink if that is a Service of the cluster."""
    namespace, name = subscription["metadata"]["namespace"], backend_name(subscription)
    sink = sink_service(str((subscription.get("spec") or {}).get("sink") or ""))
    related = [(EVENTINGBACKENDS, ObjectKey(namespace, name), "its backend")] if name else []
    related += [(SERVICES, sink, "its sink")] if sink else []
    return tuple([await _read(client, *each) for each in related])


def backend_name(subscription: JsonObject) -> str:
    """Return the name of the backend that a Subscription uses, or else of the one that it asks for."""
    spec, status = subscription.get("spec") or {}, subscription.get("status") or {}
    return str((status.get("backend") or {}).get("name") or spec.get("backend") or "")


def sink_service(url: str) -> ObjectKey | None:
    """Return the Service at a URL such as `http://orders.shop.svc.cluster.local/`; None for other hosts."""
    match (urlsplit(url).hostname or "").split("."):
        case [name, namespace, "svc", *_]:
            return ObjectKey(namespace, name)
    return None


def dispatcher_selector(subscription: JsonObject) -> str:
    """Return the label selector of the pods that deliver the events of a Subscription."""
    return f"{BACKEND_LABEL}={child_name(backend_name(subscription), DISPATCHER)}"


async def _read(client: Client, resource: Resource, key: ObjectKey, relation: str) -> TreeNode:
    try:
        return _node(resource, await client.get(resource, key, JsonObject), relation)
    except NotFound:
        error = "does not exist"
    except KubeError as failure:
        error = f"cannot be read: {failure}"
    return TreeNode(resource, ObjectMeta(name=key.name, namespace=key.namespace), None, relation, error)


def _node(resource: Resource, body: JsonObject, relation: str) -> TreeNode:
    return TreeNode(resource, msgspec.convert(body["metadata"], ObjectMeta), body, relation)
