"""An object and everything that it owns, as it is in the cluster now, down to pods and their claims.

Called by `tree`, `explain`, `logs` and `report`. Owned is what has an ownerReference with the uid of its
owner. Candidates are found by discovery and by lists of metadata only; what the person may not list is
left out, and said. Only of those found, and only where it tells a state, the whole object is read.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from quintet.apis.meta import JsonObject, Object, ObjectKey, ObjectMeta, Resource
from quintet.cli.states import has_state
from quintet.kube.discovery import list_resources
from quintet.kube.errors import ApiError, Forbidden, KubeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from quintet.kube.client import Client

CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
# Events are about objects and belong to none; the copies of EndpointSlices are told by those.
_NO_CHILDREN = frozenset((("", "events"), ("events.k8s.io", "events"), ("", "endpoints")))
# So many are read one by one; of more the whole list is.
_FEW = 50
_decode_metadata = msgspec.json.Decoder(Object).decode
_decode = msgspec.json.Decoder(JsonObject).decode


@dataclass(frozen=True, slots=True)
class Member:
    """An object of a family, and those below it."""

    resource: Resource
    meta: ObjectMeta
    body: JsonObject | None = None
    """The whole object, where it tells a state."""
    relation: str = ""
    """What it is to the one above, if that does not own it."""
    children: tuple[Member, ...] = ()

    def all(self) -> Iterator[Member]:
        """Itself and all below."""
        yield self
        for child in self.children:
            yield from child.all()


@dataclass(frozen=True, slots=True)
class Family:
    """An object with all that belongs to it, and what could not be looked at."""

    root: Member
    unlisted: tuple[str, ...] = ()
    """Types that the person may not list."""
    troubles: tuple[str, ...] = ()
    """Types that could not be listed for another reason, with the reason."""


@dataclass(frozen=True, slots=True)
class _Listed:
    resource: Resource
    found: tuple[ObjectMeta, ...] = ()
    forbidden: bool = False
    trouble: str = ""


async def family(client: Client, resource: Resource, body: JsonObject) -> Family:
    """Look for all that an object owns."""
    meta = msgspec.convert(body["metadata"], ObjectMeta)
    lists = await asyncio.gather(
        *(_list(client, each, meta.namespace) for each in candidates(await list_resources(client), resource))
    )
    found = [(each.resource, one) for each in lists for one in each.found]
    root = assembled(Member(resource, meta, body), by_owner(found))
    root = await _with_bodies(client, root)
    return Family(
        await _with_claims(client, root),
        tuple(each.resource.qualified for each in lists if each.forbidden),
        tuple(f"{each.resource.qualified}: {each.trouble}" for each in lists if each.trouble),
    )


def candidates(served: Iterable[Resource], owner: Resource) -> list[Resource]:
    """Types that may hold children: each once; what is in a namespace owns only what is there, too."""
    chosen: dict[tuple[str, str], Resource] = {}
    for each in served:
        key = (each.group, each.plural)
        if key not in _NO_CHILDREN and (each.namespaced or not owner.namespaced):
            chosen.setdefault(key, each)
    return list(chosen.values())


def by_owner(found: Iterable[tuple[Resource, ObjectMeta]]) -> dict[str, list[Member]]:
    """Objects by the uid of those who own them, in the order of kind and name."""
    result: dict[str, list[Member]] = {}
    for resource, meta in sorted(found, key=lambda each: (each[0].kind, each[1].namespace, each[1].name)):
        for owner in meta.owner_references:
            result.setdefault(owner.uid, []).append(Member(resource, meta))
    return result


def assembled(member: Member, owned: Mapping[str, Sequence[Member]], above: tuple[str, ...] = ()) -> Member:
    """A member with all that is below it; a circle of owners is not followed twice."""
    line = (*above, member.meta.uid)
    children = [
        assembled(each, owned, line) for each in owned.get(member.meta.uid, ()) if each.meta.uid not in line
    ]
    return replace(member, children=tuple(children))


def claims_of(pod: JsonObject) -> list[str]:
    """The claims that a pod uses."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    claims = [(each.get("persistentVolumeClaim") or {}).get("claimName") for each in volumes]
    return [name for name in claims if name]


def mapped(member: Member, bodies: Mapping[str, JsonObject]) -> Member:
    """The same family with the whole objects, by their uid."""
    children = tuple(mapped(each, bodies) for each in member.children)
    return replace(member, body=bodies.get(member.meta.uid, member.body), children=children)


async def _list(client: Client, resource: Resource, namespace: str) -> _Listed:
    found: list[ObjectMeta] = []
    try:
        async for page in client.pages(resource, namespace=namespace, metadata_only=True):
            metas = (_decode_metadata(item).metadata for item in page.items)
            found += [meta for meta in metas if meta.owner_references]
    except Forbidden:
        return _Listed(resource, forbidden=True)
    except ApiError as error:
        return _Listed(resource, trouble=error.message or str(error))
    return _Listed(resource, tuple(found))


async def _with_bodies(client: Client, root: Member) -> Member:
    wanted: dict[Resource, list[Member]] = {}
    for each in root.all():
        if each.body is None and (has_state(each.resource) or _tells(each.resource)):
            wanted.setdefault(each.resource, []).append(each)
    answers = await asyncio.gather(*(_bodies(client, *each, root.meta.namespace) for each in wanted.items()))
    return mapped(root, {body["metadata"]["uid"]: body for answer in answers for body in answer})


def _tells(resource: Resource) -> bool:
    from quintet.cli.kinds import known, same_kind

    return any(same_kind(kind.resource, resource) for kind in known())


async def _bodies(
    client: Client, resource: Resource, members: Sequence[Member], namespace: str
) -> list[JsonObject]:
    if len(members) <= _FEW:
        found = await asyncio.gather(*(_get(client, resource, each.meta.key) for each in members))
        return [body for body in found if body is not None]
    uids = {each.meta.uid for each in members}
    bodies = []
    async for page in client.pages(resource, namespace=namespace):
        bodies += [body for item in page.items if (body := _decode(item))["metadata"]["uid"] in uids]
    return bodies


async def _get(client: Client, resource: Resource, key: ObjectKey) -> JsonObject | None:
    """An object; None if it went meanwhile, or if the person may not read it."""
    try:
        return await client.get(resource, key, JsonObject)
    except KubeError:
        return None


async def _with_claims(client: Client, root: Member) -> Member:
    """Pods with the claims that they use and that nobody here owns: data often outlives its owner."""
    owned = {each.meta.key for each in root.all() if each.resource == CLAIMS}
    pods = [each for each in root.all() if each.resource.kind == "Pod" and each.body is not None]
    names = {
        each.meta.uid: [
            name for name in claims_of(each.body or {}) if (each.meta.namespace, name) not in owned
        ]
        for each in pods
    }
    keys = sorted({ObjectKey(each.meta.namespace, name) for each in pods for name in names[each.meta.uid]})
    found = dict(zip(keys, await asyncio.gather(*(_get(client, CLAIMS, key) for key in keys)), strict=True))

    def used(member: Member) -> Member:
        claims = [
            found.get(ObjectKey(member.meta.namespace, name)) for name in names.get(member.meta.uid, ())
        ]
        added = tuple(
            Member(CLAIMS, msgspec.convert(body["metadata"], ObjectMeta), body, "used")
            for body in claims
            if body is not None
        )
        return replace(member, children=(*map(used, member.children), *added))

    return used(root)
