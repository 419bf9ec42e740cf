"""Finds an object's owned objects in the cluster, down to pods and their volume claims.

An owned object has an ownerReference with the uid of its owner. Types are found by discovery and listed as
metadata only; types that the user has no permission to list are reported. Whole objects are read only if
they have a state.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from quintet.apis.meta import JsonObject, Object, ObjectKey, ObjectMeta, Resource
from quintet.inspect.states import has_state
from quintet.kube.discovery import list_resources
from quintet.kube.errors import ApiError, Forbidden, KubeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from quintet.kube.client import Client

CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
# Events have no owner; Endpoints repeat what EndpointSlices contain.
_NEVER_OWNED = frozenset((("", "events"), ("events.k8s.io", "events"), ("", "endpoints")))
# Up to this number, objects are read one by one; above, the whole list is read.
_MAX_SINGLE_READS = 50
_decode_metadata = msgspec.json.Decoder(Object).decode
_decode = msgspec.json.Decoder(JsonObject).decode


@dataclass(frozen=True, slots=True)
class TreeNode:
    """An object of a tree, and its children."""

    resource: Resource
    meta: ObjectMeta
    body: JsonObject | None = None
    """The whole object, if it has a state."""
    relation: str = ""
    """The relation to the parent, if the parent does not own it."""
    error: str = ""
    """Why the object could not be read."""
    children: tuple[TreeNode, ...] = ()

    def walk(self) -> Iterator[TreeNode]:
        """Yield this node and all nodes below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class ObjectTree:
    """An object with its owned objects, and the types that could not be listed."""

    root: TreeNode
    forbidden_types: tuple[str, ...] = ()
    """Types that the user has no permission to list."""
    failed_types: tuple[str, ...] = ()
    """Types that could not be listed for another reason, with that reason."""


@dataclass(frozen=True, slots=True)
class _ListResult:
    resource: Resource
    found: tuple[ObjectMeta, ...] = ()
    forbidden: bool = False
    error: str = ""


async def find_owned_objects(client: Client, resource: Resource, body: JsonObject) -> ObjectTree:
    """Return the tree of all objects that an object owns, directly or indirectly."""
    meta = msgspec.convert(body["metadata"], ObjectMeta)
    lists = await asyncio.gather(
        *(_list(client, each, meta.namespace) for each in child_types(await list_resources(client), resource))
    )
    found = [(each.resource, one) for each in lists for one in each.found]
    root = build_tree(TreeNode(resource, meta, body), group_by_owner(found))
    root = await _with_bodies(client, root)
    return ObjectTree(
        await _with_claims(client, root),
        tuple(each.resource.qualified for each in lists if each.forbidden),
        tuple(f"{each.resource.qualified}: {each.error}" for each in lists if each.error),
    )


def child_types(served: Iterable[Resource], owner: Resource) -> list[Resource]:
    """Return the types of possible children, each once; a namespaced owner has only namespaced children."""
    chosen: dict[tuple[str, str], Resource] = {}
    for each in served:
        key = (each.group, each.plural)
        if key not in _NEVER_OWNED and (each.namespaced or not owner.namespaced):
            chosen.setdefault(key, each)
    return list(chosen.values())


def group_by_owner(found: Iterable[tuple[Resource, ObjectMeta]]) -> dict[str, list[TreeNode]]:
    """Return nodes by the uid of their owner, sorted by kind and name."""
    result: dict[str, list[TreeNode]] = {}
    for resource, meta in sorted(found, key=lambda each: (each[0].kind, each[1].namespace, each[1].name)):
        for owner in meta.owner_references:
            result.setdefault(owner.uid, []).append(TreeNode(resource, meta))
    return result


def build_tree(
    member: TreeNode, owned: Mapping[str, Sequence[TreeNode]], above: tuple[str, ...] = ()
) -> TreeNode:
    """Return the node with everything below it; cycles of owners are cut."""
    line = (*above, member.meta.uid)
    children = [
        build_tree(each, owned, line) for each in owned.get(member.meta.uid, ()) if each.meta.uid not in line
    ]
    return replace(member, children=tuple(children))


def claims_of(pod: JsonObject) -> list[str]:
    """Return the names of the volume claims that a pod uses."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    claims = [(each.get("persistentVolumeClaim") or {}).get("claimName") for each in volumes]
    return [name for name in claims if name]


def attach_bodies(member: TreeNode, bodies: Mapping[str, JsonObject]) -> TreeNode:
    """Return the tree with whole objects, given by uid."""
    children = tuple(attach_bodies(each, bodies) for each in member.children)
    return replace(member, body=bodies.get(member.meta.uid, member.body), children=children)


async def _list(client: Client, resource: Resource, namespace: str) -> _ListResult:
    found: list[ObjectMeta] = []
    try:
        async for page in client.pages(resource, namespace=namespace, metadata_only=True):
            metas = (_decode_metadata(item).metadata for item in page.items)
            found += [meta for meta in metas if meta.owner_references]
    except Forbidden:
        return _ListResult(resource, forbidden=True)
    except ApiError as error:
        return _ListResult(resource, error=error.message or str(error))
    return _ListResult(resource, tuple(found))


async def _with_bodies(client: Client, root: TreeNode) -> TreeNode:
    missing: dict[Resource, list[TreeNode]] = {}
    for each in root.walk():
        if each.body is None and (has_state(each.resource) or _is_quintet_kind(each.resource)):
            missing.setdefault(each.resource, []).append(each)
    answers = await asyncio.gather(
        *(_read_bodies(client, *each, root.meta.namespace) for each in missing.items())
    )
    return attach_bodies(root, {body["metadata"]["uid"]: body for answer in answers for body in answer})


def _is_quintet_kind(resource: Resource) -> bool:
    from quintet.inspect.kinds import all_kinds, is_same_kind

    return any(is_same_kind(kind.resource, resource) for kind in all_kinds())


async def _read_bodies(
    client: Client, resource: Resource, members: Sequence[TreeNode], namespace: str
) -> list[JsonObject]:
    if len(members) <= _MAX_SINGLE_READS:
        found = await asyncio.gather(*(_get(client, resource, each.meta.key) for each in members))
        return [body for body in found if body is not None]
    uids = {each.meta.uid for each in members}
    bodies = []
    async for page in client.pages(resource, namespace=namespace):
        bodies += [body for item in page.items if (body := _decode(item))["metadata"]["uid"] in uids]
    return bodies


async def _get(client: Client, resource: Resource, key: ObjectKey) -> JsonObject | None:
    """Return an object; None if it was deleted or the user has no permission to read it."""
    try:
        return await client.get(resource, key, JsonObject)
    except KubeError:
        return None


async def _with_claims(client: Client, root: TreeNode) -> TreeNode:
    """Add the claims that pods use but that nothing in the tree owns: data often outlives its owner."""
    owned = {each.meta.key for each in root.walk() if each.resource == CLAIMS}
    pods = [each for each in root.walk() if each.resource.kind == "Pod" and each.body is not None]
    names = {
        each.meta.uid: [
            name for name in claims_of(each.body or {}) if (each.meta.namespace, name) not in owned
        ]
        for each in pods
    }
    keys = sorted({ObjectKey(each.meta.namespace, name) for each in pods for name in names[each.meta.uid]})
    found = dict(zip(keys, await asyncio.gather(*(_get(client, CLAIMS, key) for key in keys)), strict=True))

    def add_claims(member: TreeNode) -> TreeNode:
        claims = [
            found.get(ObjectKey(member.meta.namespace, name)) for name in names.get(member.meta.uid, ())
        ]
        added = tuple(
            TreeNode(CLAIMS, msgspec.convert(body["metadata"], ObjectMeta), body, "used")
            for body in claims
            if body is not None
        )
        return replace(member, children=(*map(add_claims, member.children), *added))

    return add_claims(root)
