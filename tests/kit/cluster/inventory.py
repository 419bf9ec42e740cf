"""A list of all objects of a cluster, to compare before and after."""

from typing import Any

from kit.cluster.api import Api, RefusedError

# Types whose objects change by themselves or with other objects.
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
    """Return each object as `type namespace/name`."""
    found: set[str] = set()
    looked_at: set[str] = set()
    for path, group in await _groups(api):
        for resource in await _get(api, path, "resources"):
            qualified = f"{resource['name']}.{group}" if group else resource["name"]
            skipped = resource["name"] in _FLEETING or qualified in looked_at
            if "list" in resource["verbs"] and not skipped:
                looked_at.add(qualified)
                listed = await _get(api, f"{path}/{resource['name']}", "items")
                found |= {f"{qualified} {_key(item)}" for item in listed}
    return found


async def _get(api: Api, path: str, field: str) -> list[dict[str, Any]]:
    """Return the listed items, or nothing if the CRD was deleted in the meantime."""
    try:
        return (await api.get(path))[field] or []
    except RefusedError as error:
        if error.code != 404:
            raise
        return []


async def _groups(api: Api) -> list[tuple[str, str]]:
    """Return path and name of every version of every API group."""
    groups = (await api.get("/apis"))["groups"]
    versions = [(each, version) for each in groups for version in each["versions"]]
    return [
        ("/api/v1", ""),
        *((f"/apis/{version['groupVersion']}", each["name"]) for each, version in versions),
    ]


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
