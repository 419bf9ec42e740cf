"""Reads the content of a support bundle with the permissions of the user.

No Secret is read, listed or watched. What cannot be read is recorded with the reason.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from quintet.apis.meta import JsonObject, Object, ObjectKey, ObjectMeta, Resource
from quintet.controllers.suite.decide.installation import CRDS, DEPLOYMENTS, WEBHOOKS
from quintet.inspect.error_messages import describe_error
from quintet.inspect.kinds import all_kinds
from quintet.inspect.relations.owned_objects import (
    TreeNode,
    attach_bodies,
    build_tree,
    child_types,
    group_by_owner,
)
from quintet.inspect.relations.tree import ASCII_LINES, render_tree
from quintet.inspect.states import has_state
from quintet.kube.client import PODS, Client
from quintet.kube.discovery import list_resources
from quintet.kube.errors import ApiError, KubeError, NotFound
from quintet.support.bundle import BundleContent, MissingItem, sort_events

OURS = "app.kubernetes.io/part-of=quintet"
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
LINES, BYTES = 5000, 2 << 20
"""The maximum of lines and bytes of each log."""
MAX_OBJECTS = 2000
"""The maximum of objects per kind, and of Events per namespace."""
_PLAIN_METRICS, _SECURE_METRICS = "metrics", "https-metrics"
_SECRETS = ("", "secrets")


class Collector:
    """Collects the content of a support bundle from one cluster."""

    def __init__(self, client: Client, operator_namespace: str, namespace: str) -> None:
        self._client = client
        self._home = operator_namespace
        self._namespace = namespace
        """The namespace of the objects of users; empty for all."""
        self.content = BundleContent()

    async def collect(self) -> BundleContent:
        """Return the whole content."""
        await self._installation()
        await self._controllers()
        objects = await self._objects()
        namespaces = sorted({meta["metadata"].get("namespace", "") for _, meta in objects} - {""})
        for namespace in namespaces:
            await self._trees(namespace, [each for each in objects if _is_in(each[1], namespace)])
        for namespace in dict.fromkeys((self._home, *namespaces)):
            await self._events(namespace)
        return self.content

    async def _installation(self) -> None:
        self.content.about |= {
            "installation": "CRDs, webhook registrations and leases of Quintet",
            "processes": "Deployments and pods of the operator and the controllers",
            "logs": "the ends of their logs; `previous` is the log before the last restart",
            "metrics": "their metrics in the Prometheus format",
            "objects": "objects of the kinds of Quintet",
            "trees": "the owned objects of each, with their state",
            "events": "Events, oldest first",
        }
        definitions = [each async for each in self._list(CRDS)]
        names = {kind.resource.qualified for kind in all_kinds()}
        self.content.documents["installation/definitions.json"] = [
            _summarize_crd(each) for each in definitions if each["metadata"]["name"] in names
        ]
        for resource in WEBHOOKS:
            hooks = [each async for each in self._list(resource, labels=OURS)]
            self.content.documents[f"installation/{resource.plural}.json"] = hooks
        leases = [each async for each in self._list(LEASES, namespace=self._home)]
        self.content.documents["installation/leases.json"] = leases

    async def _controllers(self) -> None:
        async for each in self._list(DEPLOYMENTS, namespace=self._home, labels=OURS):
            self._add(f"processes/deployments/{each['metadata']['name']}", each)
        async for pod in self._list(PODS, namespace=self._home, labels=OURS):
            self._add(f"processes/pods/{pod['metadata']['name']}", pod)
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
                    self._add_missing(place, error)
                    continue
                self.content.texts[place] = text.decode(errors="replace")

    async def _metrics(self, pod: JsonObject) -> None:
        meta = pod["metadata"]
        place = f"metrics/{meta['name']}.txt"
        ports = {
            each.get("name"): each["containerPort"]
            for container in pod["spec"]["containers"]
            for each in container.get("ports") or ()
        }
        if _SECURE_METRICS in ports:
            # The proxy of the API server does not pass on the token that the process asks for.
            self.content.missing.append(MissingItem(place, "they are secure: add them from Prometheus"))
            return
        # Earlier versions serve metrics at the port of the health checks.
        port = ports.get(_PLAIN_METRICS, ports.get("health", 8081))
        path = f"{PODS.path(meta['namespace'], meta['name'])}:{port}/proxy/metrics"
        try:
            self.content.texts[place] = (await self._client.raw(path)).decode(errors="replace")
        except KubeError as error:
            self._add_missing(place, error)

    async def _objects(self) -> list[tuple[Resource, JsonObject]]:
        found = []
        for kind in all_kinds():
            resource = kind.resource
            namespace = self._namespace if resource.namespaced else ""
            async for each in self._list(resource, namespace=namespace):
                found.append((resource, each))
                meta = each["metadata"]
                place = "/".join(filter(None, (resource.plural, meta.get("namespace"), meta["name"])))
                self._add(f"objects/{place}", each)
        return found

    async def _trees(self, namespace: str, objects: list[tuple[Resource, JsonObject]]) -> None:
        """Add the trees of all objects of a namespace; every type is listed only once."""
        try:
            served = child_types(await list_resources(self._client), DEPLOYMENTS)
        except KubeError as error:
            self._add_missing(f"trees/{namespace}", error)
            return
        types = [each for each in served if (each.group, each.plural) != _SECRETS]
        lists = await asyncio.gather(*(self._read_owned(each, namespace) for each in types))
        bodies = {uid: body for _, each in lists for uid, body in each.items()}
        owned = group_by_owner(found for each, _ in lists for found in each)
        lines: list[str] = []
        for resource, body in objects:
            meta = msgspec.convert(body["metadata"], ObjectMeta)
            root = attach_bodies(build_tree(TreeNode(resource, meta, body), owned), bodies)
            lines += [*render_tree(root, ASCII_LINES), ""]
        self.content.texts[f"trees/{namespace}.txt"] = "\n".join(lines)

    async def _read_owned(
        self, resource: Resource, namespace: str
    ) -> tuple[list[tuple[Resource, ObjectMeta]], dict[str, JsonObject]]:
        """Return owned objects, and the whole object of types that have a state."""
        whole, found, bodies = has_state(resource), [], {}
        async for each in self._list(resource, namespace=namespace, metadata_only=not whole):
            meta = msgspec.convert(each, Object).metadata
            if meta.owner_references:
                found.append((resource, meta))
                if whole:
                    bodies[meta.uid] = each
        return found, bodies

    async def _events(self, namespace: str) -> None:
        events = [each async for each in self._list(EVENTS, namespace=namespace)]
        self.content.documents[f"events/{namespace}.json"] = sort_events(events)

    async def _list(
        self, resource: Resource, *, namespace: str = "", labels: str = "", metadata_only: bool = False
    ) -> AsyncIterator[JsonObject]:
        """Yield the objects of a type, up to a maximum; errors are recorded."""
        where = f"{resource.qualified} in {namespace}" if namespace else resource.qualified
        count = 0
        try:
            async for page in self._client.pages(
                resource, namespace=namespace, labels=labels, metadata_only=metadata_only
            ):
                for item in page.items:
                    count += 1
                    if count > MAX_OBJECTS:
                        self.content.missing.append(
                            MissingItem(where, f"only the first {MAX_OBJECTS} are included")
                        )
                        return
                    yield msgspec.json.decode(item)
        except NotFound:
            self.content.missing.append(MissingItem(where, "the server does not serve it"))
        except KubeError as error:
            self._add_missing(where, error)

    def _add(self, place: str, body: JsonObject) -> None:
        self.content.documents[f"{place}.json"] = body

    def _add_missing(self, what: str, error: KubeError) -> None:
        why = error.message if isinstance(error, ApiError) and error.message else describe_error(error)[0]
        self.content.missing.append(MissingItem(what, " ".join(why.split())))


def _is_in(body: JsonObject, namespace: str) -> bool:
    return bool(body["metadata"].get("namespace", "") == namespace)


def _summarize_crd(body: JsonObject) -> JsonObject:
    """Return the versions and the status of a CRD; the schema follows from the version."""
    versions: Iterable[Any] = body["spec"]["versions"]
    return {
        "metadata": {key: value for key, value in body["metadata"].items() if key != "managedFields"},
        "versions": [{key: each[key] for key in ("name", "served", "storage")} for each in versions],
        "status": body.get("status") or {},
    }
