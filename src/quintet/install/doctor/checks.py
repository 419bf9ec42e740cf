"""Reads from the cluster what `preflight` and `health` check.

Everything is read, or sent as a dry run, with the permissions of the user; a check without permission is
unknown. A failed check does not hide the others.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from quintet import __version__
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.apis.suite import NAME, QUINTET, QUINTETS, Quintet, QuintetSpec
from quintet.clock import Clock
from quintet.components import COMPONENTS, Component
from quintet.controllers.decide.pods import PodView
from quintet.controllers.suite.decide.installation import (
    BY_KIND,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    OWNED,
    WEBHOOKS,
    key_of,
)
from quintet.controllers.suite.decide.leaders import LeaseView
from quintet.controllers.suite.decide.pods import reduce_pod
from quintet.controllers.suite.decide.scope import NamespaceInfo, namespace_of
from quintet.controllers.suite.user_objects import list_user_objects
from quintet.inspect.error_messages import describe_error
from quintet.install.doctor import health, preflight
from quintet.install.doctor.findings import FAILED, UNKNOWN, Finding
from quintet.install.doctor.probes import probe_object
from quintet.install.installer import MANAGER, resource_of
from quintet.install.user_objects import controller_of, without_controller
from quintet.kube.client import APPLY, PODS, Client
from quintet.kube.errors import ApiError, Conflict, Forbidden, KubeError, NotFound
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import FLAVOURS, Flavour, installer, objects
from quintet.manifests.operator import operator
from quintet.manifests.policy import policies
from quintet.runtime.leader import LEASES

OURS = "app.kubernetes.io/part-of=quintet"
_ALL = tuple(COMPONENTS.values())
_INSTANCE = "app.kubernetes.io/name"
_API_SERVICES = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", False)
_DNS = "/api/v1/namespaces/kube-system/services/kube-dns:metrics/proxy/metrics"
_PROCESSES = {name for flavour in FLAVOURS.values() for name in (flavour.operator, *flavour.instances(_ALL))}


@dataclass(frozen=True, slots=True)
class ClusterChecks:
    """The checks of one cluster with the permissions of one user."""

    client: Client
    clock: Clock
    flavour: Flavour
    namespace: str
    """The namespace of dry runs with objects of users."""

    async def preflight(self) -> AsyncIterator[Finding]:
        """Yield the findings of the checks before an installation."""
        checks: list[tuple[str, str, Callable[[], Awaitable[list[Finding]]]]] = [
            (preflight.SERVER, "types", self._check_types),
            (preflight.SERVER, "services", self._services),
            ("permissions", "grant", self._grants),
            (preflight.CLUSTER, "installation", self._other_installations),
            (preflight.CLUSTER, "definitions", self._crds_before),
            (preflight.CLUSTER, "names", self._names),
            (preflight.CLUSTER, "namespace", self._namespace),
        ]
        for group, check, look in checks:
            for finding in await _run_check(group, check, look):
                yield finding

    async def health(self) -> AsyncIterator[Finding]:
        """Yield the findings about the existing installation."""
        try:
            quintet, processes = await asyncio.gather(self._quintet(), self._processes())
        except KubeError as error:
            yield _error_finding(health.GROUP, "quintet", error)
            return
        for finding in health.check_quintet(quintet, processes, __version__):
            yield finding
        running = running_components(quintet, processes)
        for finding in await _run_check(health.GROUP, "deletions", lambda: self._deletions(quintet, running)):
            yield finding
        if quintet is None and not processes:
            return

        checks: list[tuple[str, str, Callable[[], Awaitable[list[Finding]]]]] = [
            (health.GROUP, "controllers", lambda: self._ready(processes)),
            (health.GROUP, "leaders", lambda: self._leaders(processes)),
            (health.GROUP, "definitions", lambda: self._crds_after(quintet, running)),
            (health.GROUP, "policies", lambda: self._policies(running)),
            (health.WEBHOOKS, "registered", lambda: self._registrations(running)),
            (health.WEBHOOKS, "answers", lambda: self._webhook_responses(running)),
        ]
        for group, check, look in checks:
            for finding in await _run_check(group, check, look):
                yield finding

    async def _ready(self, processes: Sequence[JsonObject]) -> list[Finding]:
        try:
            pods = [
                reduce_pod(msgspec.convert(each, PodView)) for each in await self._list(PODS, labels=OURS)
            ]
        except Forbidden:
            pods = []
        return health.check_processes(processes, pods, self.clock.now())

    async def _leaders(self, processes: Sequence[JsonObject]) -> list[Finding]:
        """Check the Leases of processes with ready pods; the others have a finding already."""
        keys = [
            ObjectKey(each["metadata"]["namespace"], each["metadata"]["name"])
            for each in processes
            if (each.get("status") or {}).get("readyReplicas")
        ]
        found = await asyncio.gather(*(self._get(LEASES, key) for key in keys))
        leases = [msgspec.convert(each, LeaseView) if each is not None else None for each in found]
        return health.check_leaders(dict(zip(keys, leases, strict=True)), self.clock.now())

    async def _check_types(self) -> list[Finding]:
        expected: dict[tuple[str, str], list[Resource]] = {}
        for each in (*OWNED, CRDS, NAMESPACES):
            expected.setdefault((each.group, each.version), []).append(each)
        missing = []
        for (group, version), resources in expected.items():
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            try:
                document = await self.client.read(path, dict[str, Any])
            except NotFound:
                document = {}
            served = {each["name"] for each in document.get("resources") or ()}
            missing += [each for each in resources if each.plural not in served]
        return [preflight.check_types(missing)]

    async def _services(self) -> list[Finding]:
        registered = await self._list(_API_SERVICES)
        return [preflight.check_service_access(registered, await self._reaches_dns())]

    async def _reaches_dns(self) -> bool | None:
        """Return whether the API server reaches the cluster DNS; None if that cannot be checked."""
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
        refusals = await asyncio.gather(*(self._dry_run_error(resource_of(body), body) for body in bodies))
        said = [
            f"{body['kind']} {key_of(body)} ({refusal})"
            for body, refusal in zip(bodies, refusals, strict=True)
            if refusal
        ]
        return [preflight.check_grants(said)]

    async def _dry_run_error(self, resource: Resource, body: JsonObject) -> str:
        """Return the error of a dry run with an object; empty if there is none."""
        try:
            await self._dry_run(resource, body)
        except Conflict:
            return ""  # another field manager; an installation takes the field over
        except ApiError as error:
            return error.message
        return ""

    async def _dry_run(self, resource: Resource, body: JsonObject) -> None:
        client = self.client.with_manager(MANAGER)
        await client.patch(resource, key_of(body), body, Object, content_type=APPLY, dry_run=True)

    async def _other_installations(self) -> list[Finding]:
        places: dict[str, list[str]] = {}
        for each in await self._processes():
            places.setdefault(each["metadata"]["namespace"], []).append(each["metadata"]["name"])
        quintet = await self._quintet()
        version = quintet.status.version if quintet is not None else None
        return [preflight.check_other_installations(places, self.flavour.namespace, version)]

    async def _crds_before(self) -> list[Finding]:
        kinds = [kind for component in self.flavour.offered_components(_ALL) for kind in component.kinds]
        return preflight.check_crds(await self._read_crds(map(custom_resource_definition, (QUINTET, *kinds))))

    async def _read_crds(self, expected: Iterable[JsonObject]) -> list[tuple[JsonObject | None, JsonObject]]:
        bodies = list(expected)
        live = await asyncio.gather(*(self._get(CRDS, key_of(body)) for body in bodies))
        return list(zip(live, bodies, strict=True))

    async def _names(self) -> list[Finding]:
        made = [*operator(_ALL, self.flavour), *objects(installer(_ALL, self.flavour)(QuintetSpec(), {}))]
        expected: dict[str, set[ObjectKey]] = {}
        for body in made:
            if body["kind"] in BY_KIND and body["kind"] != CRDS.kind:
                expected.setdefault(body["kind"], set()).add(key_of(body))
        taken = []
        for kind, keys in expected.items():
            resource = BY_KIND[kind]
            namespace = self.flavour.namespace if resource.namespaced else ""
            found = await self._list(resource, namespace=namespace, metadata_only=True)
            taken += [(resource, each["metadata"]) for each in found if key_of(each) in keys]
        return preflight.check_names(taken)

    async def _namespace(self) -> list[Finding]:
        name = self.flavour.namespace
        live = await self._get(NAMESPACES, ObjectKey("", name))
        refusal = ""
        if live is not None and not live["metadata"].get("deletionTimestamp"):
            refusal = await self._dry_run_error(PODS, probe_pod(self.flavour))
        return [preflight.check_namespace(name, live, refusal)]

    async def _deletions(self, quintet: Quintet | None, running: Sequence[Component]) -> list[Finding]:
        kinds = [kind for component in _ALL for kind in component.kinds]
        deleting = [each for each in await list_user_objects(self.client, kinds) if each.deleting]
        if quintet is None:
            names = {each.name for each in running}
            unserved = [each for each in deleting if controller_of(each) not in {"", *names}]
        else:
            namespaces = await self._namespaces() if deleting else []
            unserved = without_controller(deleting, quintet, namespaces)
        return health.check_deletions(deleting, unserved, self.clock.now())

    async def _namespaces(self) -> list[NamespaceInfo]:
        found = await self._list(NAMESPACES, metadata_only=True)
        return [namespace_of(msgspec.convert(each, Object)) for each in found]

    async def _crds_after(self, quintet: Quintet | None, running: Sequence[Component]) -> list[Finding]:
        kinds = [kind for component in running for kind in component.kinds]
        own = [QUINTET] if quintet is not None else []
        return health.check_crds(await self._read_crds(map(custom_resource_definition, (*own, *kinds))))

    async def _policies(self, running: Sequence[Component]) -> list[Finding]:
        requirements = [requirement for component in running for requirement in component.user_requirements]
        expected = [(body["kind"], body["metadata"]["name"]) for body in policies(requirements)]
        live: dict[str, set[str]] = {}
        for kind in {kind for kind, _ in expected}:
            found = await self._list(BY_KIND[kind], metadata_only=True)
            live[kind] = {each["metadata"]["name"] for each in found}
        return [health.check_policies(expected, live)]

    async def _registrations(self, running: Sequence[Component]) -> list[Finding]:
        found = [each for resource in WEBHOOKS for each in await self._list(resource, labels=OURS)]
        kinds = [kind.resource for component in running for kind in component.kinds]
        return health.check_registrations(found, kinds, self.clock.now())

    async def _webhook_responses(self, running: Sequence[Component]) -> list[Finding]:
        async def answer(resource: Resource) -> Finding:
            try:
                await self._dry_run(resource, probe_object(resource, self.namespace))
            except KubeError as error:
                return health.check_webhook_response(resource, error)
            return health.check_webhook_response(resource, None)

        kinds = [kind.resource for component in running for kind in component.kinds]
        return list(await asyncio.gather(*map(answer, kinds)))

    async def _quintet(self) -> Quintet | None:
        found = await self._list(QUINTETS)
        return next(
            (msgspec.convert(each, Quintet) for each in found if each["metadata"]["name"] == NAME), None
        )

    async def _processes(self) -> list[JsonObject]:
        """Return the Deployments of operators and controllers, without those of users' objects."""
        found = await self._list(DEPLOYMENTS, labels=OURS)
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

    async def _list(
        self, resource: Resource, *, namespace: str = "", labels: str = "", metadata_only: bool = False
    ) -> list[JsonObject]:
        found: list[JsonObject] = []
        try:
            async for page in self.client.pages(
                resource, namespace=namespace, labels=labels, metadata_only=metadata_only
            ):
                found += [msgspec.json.decode(item) for item in page.items]
        except NotFound:
            return []  # the cluster does not serve the kind
        return found


def running_components(quintet: Quintet | None, processes: Iterable[JsonObject]) -> list[Component]:
    """Return the installed components, from the Quintet or from the arguments of the Deployments."""
    names: set[str] = set()
    if quintet is not None:
        names = {each.name for each in quintet.status.components}
    for each in processes if quintet is None else ():
        for argument in each["spec"]["template"]["spec"]["containers"][0].get("args") or ():
            flag, _, value = argument.partition("=")
            names |= set(value.split(",")) if flag == "--controllers" else set()
        names = names or set(COMPONENTS)
    return [component for component in _ALL if component.name in names]


def probe_pod(flavour: Flavour) -> JsonObject:
    """Return a pod like the operator's, with the default ServiceAccount."""
    (deployment,) = (body for body in operator(_ALL, flavour) if body["kind"] == DEPLOYMENTS.kind)
    spec = deployment["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    metadata = {"name": f"{flavour.operator}-doctor", "namespace": flavour.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _run_check(group: str, check: str, look: Callable[[], Awaitable[list[Finding]]]) -> list[Finding]:
    try:
        return await look()
    except KubeError as error:
        return [_error_finding(group, check, error)]


def _error_finding(group: str, check: str, error: KubeError) -> Finding:
    message, step = describe_error(error)
    return Finding(group, check, UNKNOWN if isinstance(error, Forbidden) else FAILED, message, step)
