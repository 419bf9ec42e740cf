"""Reads what a support archive holds, with the rights of whoever calls. Called by `report`.

No Secret is read, listed or watched. What cannot be read is noted with the reason, and the rest goes on.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from quintet.apis.meta import JsonObject, Object, ObjectKey, ObjectMeta, Resource
from quintet.cli.explain import explain
from quintet.cli.family import Member, assembled, by_owner, candidates, mapped
from quintet.cli.kinds import known
from quintet.cli.states import has_state
from quintet.cli.support.archive import Gathered, Missing, in_order
from quintet.cli.tree import PLAIN, drawn
from quintet.controllers.suite.decide.installation import CRDS, DEPLOYMENTS, WEBHOOKS
from quintet.kube.client import PODS, Client
from quintet.kube.discovery import list_resources
from quintet.kube.errors import ApiError, KubeError, NotFound

OURS = "app.kubernetes.io/part-of=quintet"
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
LINES, BYTES = 5000, 2 << 20
"""So much of the end of each log."""
MOST = 2000
"""So many objects of a kind, and Events of a namespace."""
_HEALTH = 8081
_SECRETS = ("", "secrets")


class Gathering:
    """One cluster, read once."""

    def __init__(self, client: Client, operator_namespace: str, namespace: str) -> None:
        self._client = client
        self._home = operator_namespace
        self._namespace = namespace
        """Where objects of users are looked at; empty: everywhere."""
        self.found = Gathered()

    async def everything(self) -> Gathered:
        """All of it."""
        await self._installation()
        await self._controllers()
        objects = await self._objects()
        namespaces = sorted({meta["metadata"].get("namespace", "") for _, meta in objects} - {""})
        for namespace in namespaces:
            await self._trees(namespace, [each for each in objects if _in(each[1], namespace)])
        for namespace in dict.fromkeys((self._home, *namespaces)):
            await self._events(namespace)
        return self.found

    async def _installation(self) -> None:
        self.found.about |= {
            "installation": "definitions, webhook registrations and leases of ours",
            "processes": "Deployments and pods of the operator and the controllers",
            "logs": "the ends of their logs; `previous` is the log of a container's last life",
            "metrics": "their numbers, as Prometheus would get them",
            "objects": "objects of our kinds",
            "trees": "what each of these owns, and how that stands",
            "events": "Events, from the oldest to the newest",
        }
        definitions = [each async for each in self._each(CRDS)]
        names = {kind.resource.qualified for kind in known()}
        self.found.documents["installation/definitions.json"] = [
            _definition(each) for each in definitions if each["metadata"]["name"] in names
        ]
        for resource in WEBHOOKS:
            hooks = [each async for each in self._each(resource, labels=OURS)]
            self.found.documents[f"installation/{resource.plural}.json"] = hooks
        leases = [each async for each in self._each(LEASES, namespace=self._home)]
        self.found.documents["installation/leases.json"] = leases

    async def _controllers(self) -> None:
        async for each in self._each(DEPLOYMENTS, namespace=self._home, labels=OURS):
            self._keep(f"processes/deployments/{each['metadata']['name']}", each)
        async for pod in self._each(PODS, namespace=self._home, labels=OURS):
            self._keep(f"processes/pods/{pod['metadata']['name']}", pod)
            await self._logs(pod)
            await self._metrics(pod)

    async def _logs(self, pod: JsonObject) -> None:
        key = ObjectKey(pod["metadata"]["namespace"], pod["metadata"]["name"])
        lives = {
            each["name"]: each.get("restartCount", 0)
            for each in pod.get("status", {}).get("containerStatuses") or ()
        }
        for container in pod["spec"]["containers"]:
            name = container["name"]
            for previous in (False, True) if lives.get(name) else (False,):
                place = f"logs/{key.name}/{name}{'.previous' if previous else ''}.log"
                try:
                    text = await self._client.logs(key, name, lines=LINES, limit=BYTES, previous=previous)
                except KubeError as error:
                    self._missed(place, error)
                    continue
                self.found.texts[place] = text.decode(errors="replace")

    async def _metrics(self, pod: JsonObject) -> None:
        meta = pod["metadata"]
        place = f"metrics/{meta['name']}.txt"
        path = f"{PODS.path(meta['namespace'], meta['name'])}:{_HEALTH}/proxy/metrics"
        try:
            self.found.texts[place] = (await self._client.raw(path)).decode(errors="replace")
        except KubeError as error:
            self._missed(place, error)

    async def _objects(self) -> list[tuple[Resource, JsonObject]]:
        found = []
        for kind in known():
            resource = kind.resource
            namespace = self._namespace if resource.namespaced else ""
            async for each in self._each(resource, namespace=namespace):
                found.append((resource, each))
                meta = each["metadata"]
                place = "/".join(filter(None, (resource.plural, meta.get("namespace"), meta["name"])))
                self._keep(f"objects/{place}", each)
        return found

    async def _trees(self, namespace: str, objects: list[tuple[Resource, JsonObject]]) -> None:
        """What objects of a namespace own: every type is listed once, however many objects there are."""
        try:
            served = candidates(await list_resources(self._client), DEPLOYMENTS)
        except KubeError as error:
            self._missed(f"trees/{namespace}", error)
            return
        types = [each for each in served if (each.group, each.plural) != _SECRETS]
        lists = await asyncio.gather(*(self._members(each, namespace) for each in types))
        bodies = {uid: body for _, each in lists for uid, body in each.items()}
        owned = by_owner(found for each, _ in lists for found in each)
        lines: list[str] = []
        for resource, body in objects:
            meta = msgspec.convert(body["metadata"], ObjectMeta)
            root = mapped(assembled(Member(resource, meta, body), owned), bodies)
            lines += [*drawn(root, PLAIN), ""]
        self.found.texts[f"trees/{namespace}.txt"] = "\n".join(lines)

    async def _members(
        self, resource: Resource, namespace: str
    ) -> tuple[list[tuple[Resource, ObjectMeta]], dict[str, JsonObject]]:
        """Who is owned there; the whole object only where it tells a state."""
        whole, found, bodies = has_state(resource), [], {}
        async for each in self._each(resource, namespace=namespace, metadata_only=not whole):
            meta = msgspec.convert(each, Object).metadata
            if meta.owner_references:
                found.append((resource, meta))
                if whole:
                    bodies[meta.uid] = each
        return found, bodies

    async def _events(self, namespace: str) -> None:
        events = [each async for each in self._each(EVENTS, namespace=namespace)]
        self.found.documents[f"events/{namespace}.json"] = in_order(events)

    async def _each(
        self, resource: Resource, *, namespace: str = "", labels: str = "", metadata_only: bool = False
    ) -> AsyncIterator[JsonObject]:
        """Objects of a type, up to a bound; what hinders is noted."""
        where = f"{resource.qualified} in {namespace}" if namespace else resource.qualified
        count = 0
        try:
            async for page in self._client.pages(
                resource, namespace=namespace, labels=labels, metadata_only=metadata_only
            ):
                for item in page.items:
                    count += 1
                    if count > MOST:
                        self.found.missing.append(Missing(where, f"only the first {MOST} are here"))
                        return
                    yield msgspec.json.decode(item)
        except NotFound:
            self.found.missing.append(Missing(where, "the server does not serve it"))
        except KubeError as error:
            self._missed(where, error)

    def _keep(self, place: str, body: JsonObject) -> None:
        self.found.documents[f"{place}.json"] = body

    def _missed(self, what: str, error: KubeError) -> None:
        why = error.message if isinstance(error, ApiError) and error.message else explain(error)[0]
        self.found.missing.append(Missing(what, " ".join(why.split())))


def _in(body: JsonObject, namespace: str) -> bool:
    return bool(body["metadata"].get("namespace", "") == namespace)


def _definition(body: JsonObject) -> JsonObject:
    """Of a definition what tells its version and how it stands; the schema is known by its version."""
    versions: Iterable[Any] = body["spec"]["versions"]
    return {
        "metadata": {key: value for key, value in body["metadata"].items() if key != "managedFields"},
        "versions": [{key: each[key] for key in ("name", "served", "storage")} for each in versions],
        "status": body.get("status") or {},
    }
