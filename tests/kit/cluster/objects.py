"""ConfigMaps for tests, and checks whether objects exist and have the desired fields."""

from typing import Any

from kit.eventually import eventually
from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.kube.client import Client
from quintet.kube.errors import NotFound


def a_configmap(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap with a label that distinguishes it from those of Kubernetes."""
    return {"metadata": {"name": name, "labels": {"made-by": "test"}}, "data": data}


async def exists(client: Client, resource: Resource, key: ObjectKey) -> bool:
    try:
        await client.get(resource, key, Object)
    except NotFound:
        return False
    return True


async def wait_until_gone(
    client: Client, resource: Resource, key: ObjectKey, *, within: float = 60.0
) -> None:
    """Wait until an object is removed; a terminating object still exists."""

    async def probe() -> None:
        assert not await exists(client, resource, key), f"{resource.kind} {key} is still there"

    await eventually(probe, within=within)


def find_differences(wanted: Any, seen: Any, path: str = "") -> list[str]:
    """Return the desired fields that an object lacks. Extra list items are ignored."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return [
            gap
            for name, item in wanted.items()
            for gap in find_differences(item, seen.get(name), f"{path}/{name}")
        ]
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        return [
            f"{path}: no {item} in {seen}"
            for item in wanted
            if not any(find_differences(item, candidate) == [] for candidate in seen or ())
        ]
    return [] if wanted == seen else [f"{path}: {seen!r} instead of {wanted!r}"]
