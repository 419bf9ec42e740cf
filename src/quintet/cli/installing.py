"""Puts the suite operator into a cluster and takes it out again. Called by `install`.

Everything is done by server-side apply under one name, so doing it twice is the same as doing it once.
A definition is compared with the one that is there before anything is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource, find_condition
from quintet.apis.suite import NAME, QUINTET, QUINTETS, Quintet
from quintet.controllers.suite.decide.installation import BY_KIND, CRDS, DEPLOYMENTS, SELECTOR, key_of
from quintet.controllers.suite.decide.safety import unsafe_changes
from quintet.controllers.suite.decide.status import Reason
from quintet.kube.errors import NotFound
from quintet.local.errors import LocalError
from quintet.manifests.crd import custom_resource_definition

if TYPE_CHECKING:
    from quintet.apis.resources import CustomResource
    from quintet.clock import Clock
    from quintet.kube.client import Client
    from quintet.manifests.installation import Flavour

MANAGER = "quintet-install"
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", False)
THE_ONE = ObjectKey("", NAME)
_PAUSE = 0.5
_PATIENCE = 15.0
_PEOPLE = ("-viewer", "-editor", "-admin")

Progress = Callable[[str], None]


class NotDone(LocalError):
    """What was asked for did not come about."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What a user would lose."""

    kind: Resource
    keys: tuple[ObjectKey, ...]


class Installing:
    """One installation on one cluster."""

    def __init__(self, client: Client, clock: Clock, progress: Progress, timeout: float) -> None:
        self._client = client.with_manager(MANAGER)
        self._clock = clock
        self._progress = progress
        self._timeout = timeout

    async def refuse_unsafe(self, kinds: Iterable[CustomResource]) -> None:
        """Stop before anything is written if a definition that is there could not be replaced."""
        for kind in kinds:
            live = await self._live(CRDS, ObjectKey("", kind.resource.qualified))
            if live is not None and (changes := unsafe_changes(live, custom_resource_definition(kind))):
                raise NotDone(
                    f"the definition of {kind.resource.qualified} cannot be replaced, because objects could "
                    f"break: {'; '.join(changes[:5])}",
                    "install the version that made it, or make your objects fit and apply the definition by "
                    "hand",
                )

    async def apply(self, bodies: Sequence[JsonObject]) -> None:
        """Make every object be as it should."""
        for body in bodies:
            resource = resource_of(body)
            self._progress(f"applying {resource.kind} {key_of(body)}")
            await self._client.apply(resource, key_of(body), body, Object)
            if resource == CRDS:
                await self._until(f"{key_of(body).name} is served", partial(self._established, key_of(body)))

    async def ask(self, body: JsonObject, *, changed: bool) -> None:
        """Make the Quintet if there is none; one that is there is changed only by what was said now."""
        if await self._live(QUINTETS, THE_ONE) is None:
            self._progress(f"creating Quintet {NAME}")
            await self._client.create(QUINTETS, body, Object)
        elif changed:
            self._progress(f"changing Quintet {NAME}")
            await self._client.patch(QUINTETS, THE_ONE, {"spec": body["spec"]}, Object)

    async def installed(self) -> Quintet | None:
        """The Quintet, if there is one."""
        # By a list, because the operator's account may not get it, and `helm test` waits as that.
        with suppress(NotFound):  # the kind is not served here
            async for page in self._client.pages(QUINTETS, fields=f"metadata.name={NAME}"):
                for item in page.items:
                    return msgspec.json.decode(item, type=Quintet)
        return None

    async def image_of(self, flavour: Flavour) -> str | None:
        """What the operator runs, if there is one."""
        live = await self._live(DEPLOYMENTS, ObjectKey(flavour.namespace, flavour.operator))
        return live["spec"]["template"]["spec"]["containers"][0]["image"] if live is not None else None

    async def until_available(self, version: str) -> Quintet:
        """Wait until every controller of this version serves, or of any; trouble that stays ends the wait."""
        found: list[Quintet] = []
        trouble = Trouble(self._clock)

        async def available() -> bool:
            quintet = await self.installed()
            if quintet is None or version not in ("", quintet.status.version):
                return False
            if quintet.status.observed_generation != quintet.metadata.generation:
                return False
            if reported := trouble.that_stays(quintet):
                raise NotDone(f"the operator reports: {reported}", f"kubectl describe quintets {NAME}")
            found[:] = [quintet]
            self._progress(f"{quintet.status.ready} controllers are ready")
            settled = find_condition(quintet.status.conditions, "Progressing")
            ready = all(each.ready for each in quintet.status.components)
            return ready and settled is not None and settled.status == "False"

        await self._until("every controller is ready", available)
        return found[0]

    async def losses(self, kinds: Iterable[CustomResource]) -> list[Lost]:
        """The objects of users, by kind."""
        found = []
        for kind in kinds:
            keys: list[ObjectKey] = []
            try:
                async for page in self._client.pages(kind.resource):
                    keys += [msgspec.json.decode(item, type=Object).key for item in page.items]
            except NotFound:
                continue  # the kind is not served here
            if keys:
                found.append(Lost(kind.resource, tuple(keys)))
        return found

    async def delete_data(self, losses: Sequence[Lost]) -> None:
        """Delete objects of users while their controllers are there to put things away."""
        for lost in losses:
            for key in lost.keys:
                self._progress(f"deleting {lost.kind.kind} {key}")
                await self._delete(lost.kind, key)
        for lost in losses:
            for key in lost.keys:
                await self._until(f"{lost.kind.kind} {key} is gone", partial(self._gone, lost.kind, key))

    async def delete_quintet(self, namespace: str) -> None:
        """Delete the Quintet and wait until no controller is left."""
        self._progress(f"deleting Quintet {NAME}")
        await self._delete(QUINTETS, THE_ONE)
        await self._until("no controller is left", partial(self._no_workloads, namespace))

    async def delete(self, bodies: Sequence[JsonObject]) -> None:
        """Delete objects in the order opposite to that of making."""
        for body in reversed(bodies):
            self._progress(f"deleting {body['kind']} {key_of(body)}")
            await self._delete(resource_of(body), key_of(body))

    async def delete_definitions(self, kinds: Iterable[CustomResource]) -> None:
        """Delete definitions; with them goes every object that is left."""
        for kind in (*kinds, QUINTET):
            self._progress(f"deleting CustomResourceDefinition {kind.resource.qualified}")
            await self._delete(CRDS, ObjectKey("", kind.resource.qualified))

    async def delete_namespace(self, name: str) -> None:
        """Delete the namespace of the operator."""
        self._progress(f"deleting Namespace {name}")
        await self._delete(NAMESPACES, ObjectKey("", name))

    async def _established(self, key: ObjectKey) -> bool:
        live = await self._live(CRDS, key)
        # Of a definition that was made just now they are null.
        conditions = (live or {}).get("status", {}).get("conditions") or ()
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    async def _no_workloads(self, namespace: str) -> bool:
        pods = Resource("", "v1", "Pod", "pods")
        for resource in (BY_KIND["Deployment"], pods):
            async for page in self._client.pages(resource, namespace=namespace, labels=SELECTOR):
                if page.items:
                    return False
        return True

    async def _gone(self, resource: Resource, key: ObjectKey) -> bool:
        return await self._live(resource, key) is None

    async def _live(self, resource: Resource, key: ObjectKey) -> JsonObject | None:
        try:
            return await self._client.get(resource, key, dict[str, Any])
        except NotFound:
            return None

    async def _delete(self, resource: Resource, key: ObjectKey) -> None:
        try:
            await self._client.delete(resource, key, propagation="Background")
        except NotFound:
            return

    async def _until(self, what: str, probe: Callable[[], Any]) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                while not await probe():
                    await self._clock.sleep(_PAUSE)
        except TimeoutError as error:
            raise NotDone(
                f"not within {self._timeout:g} s: {what}",
                f"kubectl describe quintets {NAME}; the same command again goes on where this one ended",
            ) from error


class Trouble:
    """What an operator reports, once that is worth a word: what it tries again may work the next time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    def that_stays(self, quintet: Quintet) -> str | None:
        """What has been wrong for some time, or will not get right by itself."""
        degraded, now = find_condition(quintet.status.conditions, "Degraded"), self._clock.monotonic()
        if degraded is None or degraded.status != "True":
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        passing = degraded.reason == Reason.APPLY_FAILED and now - self._since < _PATIENCE
        return None if passing else degraded.message


def resource_of(body: JsonObject) -> Resource:
    """The type of an object of an installation."""
    return NAMESPACES if body["kind"] == NAMESPACES.kind else BY_KIND[body["kind"]]


def own(bodies: Iterable[JsonObject]) -> list[JsonObject]:
    """What goes with the operator; definitions, the namespace and roles of people stay with the objects."""
    stays = (NAMESPACES.kind, CRDS.kind)
    return [
        body
        for body in bodies
        if body["kind"] not in stays and not body["metadata"]["name"].endswith(_PEOPLE)
    ]
