"""API discovery: which types the server serves, and their schemas.

Nothing is cached here. An OpenAPI document can have a mebibyte, so callers keep only the parts they need.
"""

from typing import NamedTuple

from quintet.apis.meta import JsonObject, ObjectMeta, Resource, Struct
from quintet.kube.client import Client

_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_REQUIRED_VERBS = frozenset(("get", "list", "watch", "patch"))


class _Kind(Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Type(Struct, frozen=True):
    resource: str
    singular_resource: str = ""
    short_names: tuple[str, ...] = ()
    response_kind: _Kind | None = None
    scope: str = ""
    verbs: tuple[str, ...] = ()


class _Version(Struct, frozen=True):
    version: str
    resources: tuple[_Type, ...] = ()


class _Group(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    versions: tuple[_Version, ...] = ()


class _Groups(Struct, frozen=True):
    items: tuple[_Group, ...] = ()


class ServedType(NamedTuple):
    """A type that the server serves, and the names in lower case that kubectl accepts for it."""

    resource: Resource
    names: frozenset[str]


async def list_resources(client: Client) -> tuple[Resource, ...]:
    """Return all types that can be listed, watched and patched, with the preferred version of a group first.

    Sends two requests (aggregated discovery, Kubernetes 1.30 and later).
    """
    return tuple(each.resource for each in await list_types(client))


async def list_types(client: Client) -> tuple[ServedType, ...]:
    """Return the types of `list_resources` with their names."""
    responses = [await client.read(path, _Groups, accept=_ACCEPT) for path in ("/api", "/apis")]
    return tuple(
        _served_type(group.metadata.name, version.version, each.response_kind.kind, each)
        for response in responses
        for group in response.items
        for version in group.versions
        for each in version.resources
        if each.response_kind is not None and set(each.verbs) >= _REQUIRED_VERBS
    )


def _served_type(group: str, version: str, kind: str, found: _Type) -> ServedType:
    resource = Resource(group, version, kind, found.resource, found.scope == "Namespaced")
    names = {kind, found.resource, found.singular_resource, *found.short_names, resource.qualified} - {""}
    return ServedType(resource, frozenset(name.lower() for name in names))


async def read_openapi(client: Client, resource: Resource) -> JsonObject:
    """Return the OpenAPI v3 document of the group and version of a type."""
    path = f"apis/{resource.group}" if resource.group else "api"
    return await client.read(f"/openapi/v3/{path}/{resource.version}", JsonObject)
