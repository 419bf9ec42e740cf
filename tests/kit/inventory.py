"""Everything that a cluster holds, of every type that can be listed: to compare before and after."""

from typing import Any

from kit.api import Api

# They come and go by themselves, or with others that are looked at.
_FLEETING = {
    "apiservices",
    "componentstatuses",
    "endpoints",
    "endpointslices",
    "events",
    "ipaddresses",
    "persistentvolumes",
}


async def inventory(api: Api) -> set[str]:
    """Each object as `type namespace/name`."""
    found: set[str] = set()
    for path, group in await _groups(api):
        for resource in (await api.get(path))["resources"]:
            if "list" in resource["verbs"] and resource["name"] not in _FLEETING:
                qualified = f"{resource['name']}.{group}" if group else resource["name"]
                listed = (await api.get(f"{path}/{resource['name']}"))["items"] or []
                found |= {f"{qualified} {_key(item)}" for item in listed}
    return found


async def _groups(api: Api) -> list[tuple[str, str]]:
    groups = (await api.get("/apis"))["groups"]
    preferred = [(f"/apis/{each['preferredVersion']['groupVersion']}", each["name"]) for each in groups]
    return [("/api/v1", ""), *preferred]


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
