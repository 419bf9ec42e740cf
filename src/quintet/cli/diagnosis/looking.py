"""Looks at a cluster for `doctor` and has what it sees judged: `before` and `after` an installation.

Called by `doctor`. Everything is read, or sent as a dry run, with the rights of whoever calls; what these
do not allow is said to be unknown. Each check stands for itself, so one that fails hides no other.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from quintet import __version__
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.apis.suite import NAME, QUINTET, QUINTETS, Quintet, QuintetSpec
from quintet.cli.diagnosis import after, before
from quintet.cli.diagnosis.findings import FAILED, UNKNOWN, Finding
from quintet.cli.diagnosis.probes import probe
from quintet.cli.explain import explain
from quintet.cli.installing import MANAGER, NAMESPACES, resource_of
from quintet.clock import Clock
from quintet.components import COMPONENTS, Component
from quintet.controllers.suite.decide.installation import BY_KIND, CRDS, DEPLOYMENTS, OWNED, WEBHOOKS, key_of
from quintet.kube.client import APPLY, PODS, Client
from quintet.kube.errors import ApiError, Conflict, Forbidden, KubeError, NotFound
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import FLAVOURS, Flavour, installer, objects
from quintet.manifests.operator import operator
from quintet.manifests.policy import policies

OURS = "app.kubernetes.io/part-of=quintet"
_ALL = tuple(COMPONENTS.values())
_INSTANCE = "app.kubernetes.io/name"
_API_SERVICES = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", False)
_DNS = "/api/v1/namespaces/kube-system/services/kube-dns:metrics/proxy/metrics"
_PROCESSES = {name for flavour in FLAVOURS.values() for name in (flavour.operator, *flavour.instances(_ALL))}


@dataclass(frozen=True, slots=True)
class Looking:
    """One cluster, as one person sees it."""

    client: Client
    clock: Clock
    flavour: Flavour
    namespace: str
    """Where objects of users are tried."""

    async def before(self) -> AsyncIterator[Finding]:
        """What has to be so before an installation."""
        checks: list[tuple[str, str, Callable[[], Awaitable[list[Finding]]]]] = [
            (before.SERVER, "types", self._types),
            (before.SERVER, "services", self._services),
            ("permissions", "grant", self._grants),
            (before.CLUSTER, "installation", self._others),
            (before.CLUSTER, "definitions", self._definitions_before),
            (before.CLUSTER, "names", self._names),
            (before.CLUSTER, "namespace", self._namespace),
        ]
        for group, check, look in checks:
            for finding in await _guarded(group, check, look):
                yield finding

    async def after(self) -> AsyncIterator[Finding]:
        """What is installed, and whether it works."""
        try:
            quintet, processes = await asyncio.gather(self._quintet(), self._processes())
        except KubeError as error:
            yield _unseen(after.GROUP, "quintet", error)
            return
        for finding in after.judge_quintet(quintet, processes, __version__):
            yield finding
        if quintet is None and not processes:
            return
        running = components_of(quintet, processes)

        async def ready() -> list[Finding]:
            return after.judge_processes(processes)

        checks: list[tuple[str, str, Callable[[], Awaitable[list[Finding]]]]] = [
            (after.GROUP, "controllers", ready),
            (after.GROUP, "definitions", lambda: self._definitions_after(quintet, running)),
            (after.GROUP, "policies", lambda: self._policies(running)),
            (after.WEBHOOKS, "registered", lambda: self._registrations(running)),
            (after.WEBHOOKS, "answers", lambda: self._answers(running)),
        ]
        for group, check, look in checks:
            for finding in await _guarded(group, check, look):
                yield finding

    async def _types(self) -> list[Finding]:
        wanted: dict[tuple[str, str], list[Resource]] = {}
        for each in (*OWNED, CRDS, NAMESPACES):
            wanted.setdefault((each.group, each.version), []).append(each)
        missing = []
        for (group, version), resources in wanted.items():
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            try:
                document = await self.client.read(path, dict[str, Any])
            except NotFound:
                document = {}
            served = {each["name"] for each in document.get("resources") or ()}
            missing += [each for each in resources if each.plural not in served]
        return [before.judge_kinds(missing)]

    async def _services(self) -> list[Finding]:
        registered = await self._listed(_API_SERVICES)
        return [before.judge_services(registered, await self._dns_answers())]

    async def _dns_answers(self) -> bool | None:
        """Whether the API server gets something from the cluster's DNS; None if that cannot be asked."""
        try:
            await self.client.raw(_DNS)
        except (Forbidden, NotFound):
            return None
        except KubeError:
            return False
        return True

    async def _grants(self) -> list[Finding]:
        there = await self._get(NAMESPACES, ObjectKey("", self.flavour.namespace)) is not None
        bodies = [body for body in operator(_ALL, self.flavour) if there or not resource_of(body).namespaced]
        refusals = await asyncio.gather(*(self._refusal(resource_of(body), body) for body in bodies))
        said = [
            f"{body['kind']} {key_of(body)} ({refusal})"
            for body, refusal in zip(bodies, refusals, strict=True)
            if refusal
        ]
        return [before.judge_grants(said)]

    async def _refusal(self, resource: Resource, body: JsonObject) -> str:
        """What the server has against an object; nothing is written."""
        try:
            await self._tried(resource, body)
        except Conflict:
            return ""  # somebody else set a field: an installation takes it over
        except ApiError as error:
            return error.message
        return ""

    async def _tried(self, resource: Resource, body: JsonObject) -> None:
        client = self.client.with_manager(MANAGER)
        await client.patch(resource, key_of(body), body, Object, content_type=APPLY, dry_run=True)

    async def _others(self) -> list[Finding]:
        places: dict[str, list[str]] = {}
        for each in await self._processes():
            places.setdefault(each["metadata"]["namespace"], []).append(each["metadata"]["name"])
        quintet = await self._quintet()
        version = quintet.status.version if quintet is not None else None
        return [before.judge_others(places, self.flavour.namespace, version)]

    async def _definitions_before(self) -> list[Finding]:
        kinds = [kind for component in self.flavour.offered(_ALL) for kind in component.kinds]
        return before.judge_definitions(
            await self._definitions(map(custom_resource_definition, (QUINTET, *kinds)))
        )

    async def _definitions(self, wanted: Iterable[JsonObject]) -> list[tuple[JsonObject | None, JsonObject]]:
        bodies = list(wanted)
        live = await asyncio.gather(*(self._get(CRDS, key_of(body)) for body in bodies))
        return list(zip(live, bodies, strict=True))

    async def _names(self) -> list[Finding]:
        made = [*operator(_ALL, self.flavour), *objects(installer(_ALL, self.flavour)(QuintetSpec(), {}))]
        wanted: dict[str, set[ObjectKey]] = {}
        for body in made:
            if body["kind"] in BY_KIND and body["kind"] != CRDS.kind:
                wanted.setdefault(body["kind"], set()).add(key_of(body))
        taken = []
        for kind, keys in wanted.items():
            resource = BY_KIND[kind]
            namespace = self.flavour.namespace if resource.namespaced else ""
            found = await self._listed(resource, namespace=namespace, metadata_only=True)
            taken += [(resource, each["metadata"]) for each in found if key_of(each) in keys]
        return before.judge_names(taken)

    async def _namespace(self) -> list[Finding]:
        name = self.flavour.namespace
        live = await self._get(NAMESPACES, ObjectKey("", name))
        refusal = ""
        if live is not None and not live["metadata"].get("deletionTimestamp"):
            refusal = await self._refusal(PODS, a_pod(self.flavour))
        return [before.judge_namespace(name, live, refusal)]

    async def _definitions_after(
        self, quintet: Quintet | None, running: Sequence[Component]
    ) -> list[Finding]:
        kinds = [kind for component in running for kind in component.kinds]
        own = [QUINTET] if quintet is not None else []
        return after.judge_definitions(
            await self._definitions(map(custom_resource_definition, (*own, *kinds)))
        )

    async def _policies(self, running: Sequence[Component]) -> list[Finding]:
        requirements = [requirement for component in running for requirement in component.user_requirements]
        wanted = [(body["kind"], body["metadata"]["name"]) for body in policies(requirements)]
        live: dict[str, set[str]] = {}
        for kind in {kind for kind, _ in wanted}:
            found = await self._listed(BY_KIND[kind], metadata_only=True)
            live[kind] = {each["metadata"]["name"] for each in found}
        return [after.judge_policies(wanted, live)]

    async def _registrations(self, running: Sequence[Component]) -> list[Finding]:
        found = [each for resource in WEBHOOKS for each in await self._listed(resource, labels=OURS)]
        kinds = [kind.resource for component in running for kind in component.kinds]
        return after.judge_registrations(found, kinds, self.clock.now())

    async def _answers(self, running: Sequence[Component]) -> list[Finding]:
        async def answer(resource: Resource) -> Finding:
            try:
                await self._tried(resource, probe(resource, self.namespace))
            except KubeError as error:
                return after.judge_answer(resource, error)
            return after.judge_answer(resource, None)

        kinds = [kind.resource for component in running for kind in component.kinds]
        return list(await asyncio.gather(*map(answer, kinds)))

    async def _quintet(self) -> Quintet | None:
        found = await self._listed(QUINTETS)
        return next(
            (msgspec.convert(each, Quintet) for each in found if each["metadata"]["name"] == NAME), None
        )

    async def _processes(self) -> list[JsonObject]:
        """The Deployments of an operator, or of controllers; children of users' objects are none of these."""
        found = await self._listed(DEPLOYMENTS, labels=OURS)
        return [
            each
            for each in found
            if each["metadata"]["name"] in _PROCESSES
            and each["metadata"]["labels"].get(_INSTANCE) == each["metadata"]["name"]
        ]

    async def _get(self, resource: Resource, key: ObjectKey) -> JsonObject | None:
        try:
            return await self.client.get(resource, key, dict[str, Any])
        except NotFound:
            return None

    async def _listed(
        self, resource: Resource, *, namespace: str = "", labels: str = "", metadata_only: bool = False
    ) -> list[JsonObject]:
        found: list[JsonObject] = []
        try:
            async for page in self.client.pages(
                resource, namespace=namespace, labels=labels, metadata_only=metadata_only
            ):
                found += [msgspec.json.decode(item) for item in page.items]
        except NotFound:
            return []  # the kind is not served here
        return found


def components_of(quintet: Quintet | None, processes: Iterable[JsonObject]) -> list[Component]:
    """Which controllers are there, as the Quintet says, or else the processes that were started."""
    names: set[str] = set()
    if quintet is not None:
        names = {each.name for each in quintet.status.components}
    for each in processes if quintet is None else ():
        for argument in each["spec"]["template"]["spec"]["containers"][0].get("args") or ():
            flag, _, value = argument.partition("=")
            names |= set(value.split(",")) if flag == "--controllers" else set()
        names = names or set(COMPONENTS)
    return [component for component in _ALL if component.name in names]


def a_pod(flavour: Flavour) -> JsonObject:
    """A pod like the operator's, of an account that every namespace has."""
    (deployment,) = (body for body in operator(_ALL, flavour) if body["kind"] == DEPLOYMENTS.kind)
    spec = deployment["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    metadata = {"name": f"{flavour.operator}-doctor", "namespace": flavour.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _guarded(group: str, check: str, look: Callable[[], Awaitable[list[Finding]]]) -> list[Finding]:
    try:
        return await look()
    except KubeError as error:
        return [_unseen(group, check, error)]


def _unseen(group: str, check: str, error: KubeError) -> Finding:
    message, step = explain(error)
    return Finding(group, check, UNKNOWN if isinstance(error, Forbidden) else FAILED, message, step)
