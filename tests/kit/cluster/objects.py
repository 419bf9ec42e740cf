"""Looking at objects: whether they are there, and whether they hold what is wanted."""

from typing import Any

from kit.eventually import eventually
from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.kube.client import Client
from quintet.kube.errors import NotFound


def a_configmap(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap that can be told from those that Kubernetes makes."""
    return {"metadata": {"name": name, "labels": {"made-by": "test"}}, "data": data}


async def exists(client: Client, resource: Resource, key: ObjectKey) -> bool:
    try:
        await client.get(resource, key, Object)
    except NotFound:
        return False
    return True


async def gone(client: Client, resource: Resource, key: ObjectKey, *, within: float = 60.0) -> None:
    """Wait until an object is no longer there: one that is being deleted still is."""

    async def probe() -> None:
        assert not await exists(client, resource, key), f"{resource.kind} {key} is still there"

    await eventually(probe, within=within)


def missing(wanted: Any, seen: Any, path: str = "") -> list[str]:
    """What of a wanted object is not there. Items that others added to a list do not matter."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return [
            gap for name, item in wanted.items() for gap in missing(item, seen.get(name), f"{path}/{name}")
        ]
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        return [
            f"{path}: no {item} in {seen}"
            for item in wanted
            if not any(missing(item, candidate) == [] for candidate in seen or ())
        ]
    return [] if wanted == seen else [f"{path}: {seen!r} instead of {wanted!r}"]
