"""Whether a namespace is being deleted."""

from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.kube.client import Client
from quintet.kube.errors import Forbidden, NotFound

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)


async def is_namespace_deleted(client: Client, name: str) -> bool:
    """Return whether the namespace is gone or being deleted; False without permission to read it."""
    if not name:
        return False
    try:
        return (await client.get(NAMESPACES, ObjectKey("", name), Object)).metadata.deleting
    except NotFound:
        return True
    except Forbidden:
        return False
