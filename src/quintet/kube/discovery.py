"""Which types an API server serves, and how each is shaped, for those who work on types of any sort.

`catalogue` asks once for everything (aggregated discovery, Kubernetes 1.30 and later). `document` reads
the OpenAPI v3 document of one group and version: a mebibyte for some, so callers keep what they looked
for and not the document. How long to remember is for callers to know.
"""

from quintet.apis.meta import JsonObject, ObjectMeta, Resource, Struct
from quintet.kube.client import Client

_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NEEDED = frozenset(("get", "list", "watch", "patch"))


class _Kind(Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Type(Struct, frozen=True):
    resource: str
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


async def catalogue(client: Client) -> tuple[Resource, ...]:
    """All types that can be listed, watched and patched; of each group the preferred version first.

    Two requests, however many types there are.
    """
    answers = [await client.read(path, _Groups, accept=_ACCEPT) for path in ("/api", "/apis")]
    return tuple(
        Resource(
            group.metadata.name,
            version.version,
            each.response_kind.kind,
            each.resource,
            each.scope == "Namespaced",
        )
        for answer in answers
        for group in answer.items
        for version in group.versions
        for each in version.resources
        if each.response_kind is not None and set(each.verbs) >= _NEEDED
    )


async def document(client: Client, resource: Resource) -> JsonObject:
    """The OpenAPI v3 document that describes a type."""
    path = f"apis/{resource.group}" if resource.group else "api"
    return await client.read(f"/openapi/v3/{path}/{resource.version}", JsonObject)
