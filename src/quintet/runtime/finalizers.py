"""Adds and removes finalizers.

Both functions fail on an outdated object (Conflict, which the queue retries), so that no finalizer of
somebody else is ever lost.
"""

from quintet.apis.meta import Object, Resource
from quintet.kube.client import Client
from quintet.kube.errors import NotFound


async def add(client: Client, resource: Resource, obj: Object, finalizer: str) -> bool:
    """Add the finalizer; False if the object has it already."""
    if finalizer in obj.metadata.finalizers:
        return False
    await _set(client, resource, obj, (*obj.metadata.finalizers, finalizer))
    return True


async def remove(client: Client, resource: Resource, obj: Object, finalizer: str) -> bool:
    """Remove the finalizer; False if the object does not have it, or is gone."""
    if finalizer not in obj.metadata.finalizers:
        return False
    others = tuple(name for name in obj.metadata.finalizers if name != finalizer)
    try:
        await _set(client, resource, obj, others)
    except NotFound:
        return False
    return True


async def _set(client: Client, resource: Resource, obj: Object, finalizers: tuple[str, ...]) -> None:
    metadata = {
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
        "finalizers": list(finalizers),
    }
    await client.patch(resource, obj.key, {"metadata": metadata}, Object)
