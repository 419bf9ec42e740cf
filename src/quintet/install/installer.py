"""Installs the operator with server-side apply and removes it again.

Repeating an operation is safe. CRDs are compared with the existing ones before anything is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource, find_condition
from quintet.apis.suite import NAME, QUINTET, QUINTETS, Quintet
from quintet.apis.text import shorten_list
from quintet.controllers.decide.pods import PodView
from quintet.controllers.suite.crds import is_served
from quintet.controllers.suite.decide.installation import (
    BY_KIND,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    SELECTOR,
    key_of,
)
from quintet.controllers.suite.decide.pods import PROCESS, reduce_pod
from quintet.controllers.suite.decide.safety import describe_unused, is_wider, unsafe_changes
from quintet.controllers.suite.decide.scope import NamespaceInfo, namespace_of
from quintet.controllers.suite.decide.status import Reason
from quintet.controllers.suite.user_objects import list_user_objects
from quintet.install.progress import (
    ProgressLines,
    describe_components,
    describe_operator,
    has_observed,
)
from quintet.install.user_objects import describe_remaining, without_finalizer
from quintet.kube.client import PODS
from quintet.kube.errors import Forbidden, NotFound
from quintet.local.errors import LocalError
from quintet.manifests.crd import custom_resource_definition

if TYPE_CHECKING:
    from quintet.apis.resources import CustomResource
    from quintet.clock import Clock
    from quintet.controllers.suite.decide.user_objects import UserObject
    from quintet.kube.client import Client
    from quintet.manifests.installation import Flavour

MANAGER = "quintet-install"
QUINTET_KEY = ObjectKey("", NAME)
_PAUSE = 0.5
_RETRY_SECONDS = 15.0
FORMER_IMAGE = "quintet.dev/former-operator-image"
"""Annotation of the operator's namespace, which stays when the operator is removed."""
_USER_ROLES = ("-viewer", "-editor", "-admin")

_PASSING = (Reason.PODS_FAIL, Reason.PODS_RESTART)
"""Reasons that the kubelet may overcome; a rollout that fails has another one."""

Progress = Callable[[str], None]


class InstallError(LocalError):
    """An installation step failed."""


class Installer:
    """Installs and removes the operator on one cluster."""

    def __init__(self, client: Client, clock: Clock, progress: Progress, timeout: float) -> None:
        self._client = client.with_manager(MANAGER)
        self._clock = clock
        self.progress = progress
        self._timeout = timeout
        self._reported = ""

    async def check_crd_changes(self, kinds: Iterable[CustomResource]) -> None:
        """Raise an error if an existing CRD cannot be replaced safely."""
        for kind in kinds:
            ours = custom_resource_definition(kind)
            live = await self._get(CRDS, key_of(ours))
            changes = unsafe_changes(live, ours) if live is not None else []
            if live is not None and changes and is_wider(live, ours):
                unused = describe_unused(kind.resource.qualified, changes)
                self.progress(f"the CRD of a later version stays: {unused}")
            elif changes:
                raise InstallError(
                    f"CRD {kind.resource.qualified} cannot be replaced, because existing objects could "
                    f"break: {'; '.join(changes[:5])}",
                    "`quintet uninstall` keeps the objects: then change the CRD so that it can be replaced, "
                    "and install again",
                )

    async def apply(self, bodies: Sequence[JsonObject]) -> None:
        """Apply all objects; wait until CRDs are established."""
        self.progress(f"operator: applying {len(bodies)} objects")
        for body in bodies:
            resource = resource_of(body)
            if resource == CRDS and await self._has_wider_crd(body):
                continue
            await self._client.apply(resource, key_of(body), body, Object)
            if resource == CRDS:
                await self._wait_until(
                    f"{key_of(body).name} is served", partial(self._is_established, key_of(body))
                )

    async def apply_quintet(self, body: JsonObject, *, changed: bool) -> None:
        """Create the Quintet; an existing one is changed only if `changed`."""
        if await self._get(QUINTETS, QUINTET_KEY) is None:
            self.progress(f"creating Quintet {NAME}")
            await self._client.create(QUINTETS, body, Object)
        elif changed:
            self.progress(f"changing Quintet {NAME}")
            await self._client.patch(QUINTETS, QUINTET_KEY, {"spec": body["spec"]}, Object)

    async def find_quintet(self) -> Quintet | None:
        """Return the Quintet; None if there is none."""
        # Listed, because the ServiceAccount with which `helm test` waits may do no more.
        with suppress(NotFound):  # the cluster does not serve the kind
            async for page in self._client.pages(QUINTETS, fields=f"metadata.name={NAME}"):
                for item in page.items:
                    return msgspec.json.decode(item, type=Quintet)
        return None

    async def operator_image(self, flavour: Flavour) -> str | None:
        """Return the image of the installed operator; None if there is none."""
        live = await self._get(DEPLOYMENTS, ObjectKey(flavour.namespace, flavour.operator))
        return live["spec"]["template"]["spec"]["containers"][0]["image"] if live is not None else None

    async def former_image(self, flavour: Flavour) -> str | None:
        """Return the image of the operator that was removed from the namespace; None if it is unknown."""
        live = await self._get(NAMESPACES, ObjectKey("", flavour.namespace))
        found: str | None = (live or {}).get("metadata", {}).get("annotations", {}).get(FORMER_IMAGE)
        return found

    async def record_former_image(self, flavour: Flavour, image: str) -> None:
        """Record on the namespace which operator ran there, for a later installation."""
        body = {"metadata": {"annotations": {FORMER_IMAGE: image}}}
        with suppress(NotFound):
            await self._client.patch(NAMESPACES, ObjectKey("", flavour.namespace), body, Object)

    async def wait_until_available(self, flavour: Flavour, version: str) -> Quintet:
        """Wait until all controllers of a version are ready; an empty version matches any.

        Reports changes of the operator and of controllers. Raises an error if the operator stays degraded.
        """
        found: list[Quintet] = []
        trouble, lines = DegradedTimer(self._clock), ProgressLines()

        async def available() -> bool:
            quintet = await self.find_quintet()
            states = await self._operator_state(flavour, quintet, version)
            if quintet is not None and has_observed(quintet, version):
                states |= describe_components(quintet)
            for line in lines.update(states):
                self.progress(line)
            if quintet is None or not has_observed(quintet, version):
                return False
            if reported := trouble.persistent_problem(quintet):
                raise InstallError(f"the operator reports: {reported}", f"kubectl describe quintets {NAME}")
            found[:] = [quintet]
            progressing = find_condition(quintet.status.conditions, "Progressing")
            ready = all(each.ready for each in quintet.status.components)
            return ready and progressing is not None and progressing.status == "False"

        await self._wait_until("every controller is ready", available, lambda: lines.remaining)
        return found[0]

    async def _operator_state(
        self, flavour: Flavour, quintet: Quintet | None, version: str
    ) -> dict[str, str]:
        """Return the state of the operator; nothing if the user may not read it."""
        key = ObjectKey(flavour.namespace, flavour.operator)
        try:
            deployment = await self._get(DEPLOYMENTS, key)
            pods = [
                reduce_pod(msgspec.json.decode(item, type=PodView))
                async for page in self._client.pages(
                    PODS, namespace=key.namespace, labels=f"{PROCESS}={key.name}"
                )
                for item in page.items
            ]
        except Forbidden:
            return {}
        if deployment is None:
            return {}
        return {"operator": describe_operator(deployment, pods, quintet, version)}

    async def list_user_objects(self, kinds: Iterable[CustomResource]) -> list[UserObject]:
        """Return the objects of users."""
        return await list_user_objects(self._client, kinds)

    async def list_namespaces(self) -> list[NamespaceInfo]:
        """Return the namespaces of the cluster."""
        return [
            namespace_of(msgspec.json.decode(item, type=Object))
            async for page in self._client.pages(NAMESPACES, metadata_only=True)
            for item in page.items
        ]

    async def delete_objects(self, objects: Sequence[UserObject]) -> None:
        """Delete objects of users while their controllers run, which handle the finalizers."""
        for each in objects:
            if not each.deleting:
                self.progress(f"deleting {each}")
                await self._delete(each.kind.resource, each.key)
        await self.wait_until_deleted(objects)

    async def wait_until_deleted(self, objects: Sequence[UserObject]) -> None:
        """Wait until objects that are being deleted are gone; an error names the remaining ones."""
        left, known = list(objects), {(each.kind.resource, each.metadata.uid) for each in objects}

        async def are_deleted() -> bool:
            found = await self.list_user_objects({each.kind.resource: each.kind for each in left}.values())
            left[:] = [each for each in found if (each.kind.resource, each.metadata.uid) in known]
            if left:
                self._report(f"waiting for the deletion of {shorten_list(map(str, left))}")
            return not left

        try:
            await self._wait_until("deleted", are_deleted)
        except InstallError as error:
            raise InstallError(*describe_remaining(left, self._timeout)) from error

    async def delete_quintet(self, namespace: str) -> None:
        """Delete the Quintet and wait until all controllers are deleted."""
        self.progress(f"deleting Quintet {NAME}")
        await self._delete(QUINTETS, QUINTET_KEY)
        await self._wait_until("all controllers are deleted", partial(self._has_no_workloads, namespace))

    async def delete_without_controllers(self, kinds: Sequence[CustomResource]) -> None:
        """Delete all objects of these kinds and remove our finalizers from them."""
        for each in await self.list_user_objects(kinds):
            self.progress(f"deleting {each} without its controller")
            await self._delete(each.kind.resource, each.key)
        for each in await self.list_user_objects(kinds):
            if each.needs_controller:
                with suppress(NotFound):
                    await self._client.patch(each.kind.resource, each.key, without_finalizer(each), Object)

    async def delete(self, bodies: Sequence[JsonObject]) -> None:
        """Delete objects in reverse order of creation."""
        for body in reversed(bodies):
            self.progress(f"deleting {body['kind']} {key_of(body)}")
            await self._delete(resource_of(body), key_of(body))

    async def delete_crds(self, kinds: Iterable[CustomResource]) -> None:
        """Delete the CRDs, and with them all remaining objects."""
        for kind in (*kinds, QUINTET):
            self.progress(f"deleting CustomResourceDefinition {kind.resource.qualified}")
            await self._delete(CRDS, ObjectKey("", kind.resource.qualified))

    async def delete_namespace(self, name: str) -> None:
        """Delete the namespace of the operator."""
        self.progress(f"deleting Namespace {name}")
        await self._delete(NAMESPACES, ObjectKey("", name))

    def _report(self, state: str) -> None:
        """Report what is waited for, when it has changed."""
        if state != self._reported:
            self._reported = state
            self.progress(state)

    async def _has_wider_crd(self, body: JsonObject) -> bool:
        """Return whether a CRD exists that a later version left: this one would remove fields."""
        live = await self._get(CRDS, key_of(body))
        return live is not None and bool(unsafe_changes(live, body)) and is_wider(live, body)

    async def _is_established(self, key: ObjectKey) -> bool:
        return is_served(await self._get(CRDS, key) or {})

    async def _has_no_workloads(self, namespace: str) -> bool:
        for resource in (DEPLOYMENTS, PODS):
            async for page in self._client.pages(resource, namespace=namespace, labels=SELECTOR):
                if page.items:
                    return False
        return True

    async def _is_deleted(self, resource: Resource, key: ObjectKey) -> bool:
        return await self._get(resource, key) is None

    async def _get(self, resource: Resource, key: ObjectKey) -> JsonObject | None:
        try:
            return await self._client.get(resource, key, dict[str, Any])
        except NotFound:
            return None

    async def _delete(self, resource: Resource, key: ObjectKey) -> None:
        try:
            await self._client.delete(resource, key, propagation="Background")
        except NotFound:
            return

    async def _wait_until(
        self, what: str, probe: Callable[[], Any], unfinished: Callable[[], str] = lambda: ""
    ) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                while not await probe():
                    await self._clock.sleep(_PAUSE)
        except TimeoutError as error:
            raise InstallError(
                f"timed out after {self._timeout:g} s waiting until {what}"
                + (f" ({unfinished()})" if unfinished() else ""),
                f"kubectl describe quintets {NAME}; repeat the command to continue",
            ) from error


class DegradedTimer:
    """Ignores a degraded condition for a while, because the operator retries failed steps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    def persistent_problem(self, quintet: Quintet) -> str | None:
        """Return the message of a condition Degraded that persists; None otherwise."""
        degraded, now = find_condition(quintet.status.conditions, "Degraded"), self._clock.monotonic()
        if degraded is None or degraded.status != "True" or degraded.reason in _PASSING:
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        passing = degraded.reason == Reason.APPLY_FAILED and now - self._since < _RETRY_SECONDS
        return None if passing else degraded.message


def resource_of(body: JsonObject) -> Resource:
    """Return the resource of an object of an installation."""
    return NAMESPACES if body["kind"] == NAMESPACES.kind else BY_KIND[body["kind"]]


def operator_objects(bodies: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the objects that are removed with the operator: no CRDs, namespace or roles of users."""
    stays = (NAMESPACES.kind, CRDS.kind)
    return [
        body
        for body in bodies
        if body["kind"] not in stays and not body["metadata"]["name"].endswith(_USER_ROLES)
    ]
