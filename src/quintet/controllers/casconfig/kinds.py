"""Resolves the kinds that configs name, and where their objects hold a pod spec.

The answers come from API discovery and are cached for some minutes. Unknown kinds are looked up again soon,
because a CRD may be installed after the config.
"""

from math import inf

from quintet.apis.casconfig import template
from quintet.apis.casconfig.kinds import Resolution, find_recorded, forbidden_reason, resolve_kind
from quintet.apis.casconfig.places import Path
from quintet.apis.meta import Resource
from quintet.clock import Clock
from quintet.kube import discovery
from quintet.kube.client import Client
from quintet.kube.errors import NotFound

CACHE_SECONDS = 600.0
RETRY_SECONDS = 10.0
PUBLISH_SECONDS = 30.0
ABSENT_SECONDS = 30.0


class NotPublishedError(Exception):
    """The API server has not published the schema of a new CRD yet."""


class Kinds:
    """The types that the API server serves."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._types: tuple[Resource, ...] = ()
        self._since = 0.0
        self._pods: dict[Resource, Path | None] = {}
        self._missing: dict[Resource, float] = {}
        self._absent: dict[str, float] = {}

    async def resolve(self, text: str) -> Resolution:
        """Return the resource of a kind, or why there is none."""
        found = resolve_kind(text, await self._current(CACHE_SECONDS))
        return found if found.resource is not None else resolve_kind(text, await self._current(RETRY_SECONDS))

    async def find_recorded(self, text: str) -> Resource | None:
        """Return the resource of a kind recorded in the status; None if it is not served now."""
        return find_recorded(text, await self._current(CACHE_SECONDS))

    async def is_gone(self, text: str) -> bool:
        """Return whether a kind, and with it all of its objects, is gone.

        It must be absent for a while: a starting API server, or one without its aggregated APIs, omits types.
        """
        if find_recorded(text, await self._current(RETRY_SECONDS)) is not None:
            return False
        return self._since - self._absent.setdefault(text, self._since) >= ABSENT_SECONDS

    def invalidate(self) -> bool:
        """Drop the cached types, because one of them is not served; return False if they are fresh."""
        if self._clock.monotonic() - self._since < RETRY_SECONDS:
            return False
        self._since = -inf
        return True

    async def pod(self, resource: Resource) -> Path | None:
        """Return the path of the pod spec in objects of a type. Raises `NotPublishedError`."""
        await self._current(CACHE_SECONDS)
        if resource not in self._pods:
            await self._read(resource)
        return self._pods[resource]

    def is_unpublished(self, resource: Resource) -> bool:
        """Return whether the API server publishes no schema for a type, or not yet."""
        return resource in self._missing

    async def with_templates(self) -> list[Resource]:
        """Return every type with a pod template, except pods."""
        seen = set[tuple[str, str]]()
        found = []
        for each in await self._current(CACHE_SECONDS):
            # The preferred version comes first, and one version per type is enough.
            if (
                (each.group, each.kind) in seen
                or not each.namespaced
                or forbidden_reason(each.group, each.kind)
            ):
                continue
            seen.add((each.group, each.kind))
            if await self.pod(each) not in (None, template.POD):
                found.append(each)
        return found

    async def _read(self, resource: Resource) -> None:
        """Read the OpenAPI document of a group once for all of its types."""
        try:
            document = await discovery.read_openapi(self._client, resource)
        except NotFound:
            document = {}
        for each in (*(each for each in self._types if each[:2] == resource[:2]), resource):
            if template.describes(document, each):
                self._pods[each] = template.pod_place(document, each)
                self._missing.pop(each, None)
        if resource in self._pods:
            return
        now = self._clock.monotonic()
        if now - self._missing.setdefault(resource, now) < PUBLISH_SECONDS:
            raise NotPublishedError(f"the API server has not published the schema of {resource.kind} yet")
        # Some types never publish a schema; they have metadata all the same.
        self._pods[resource] = None

    async def _current(self, age: float) -> tuple[Resource, ...]:
        now = self._clock.monotonic()
        if not self._types or now - self._since >= age:
            self._types, self._since = await discovery.list_resources(self._client), now
            self._pods.clear()
            for text in [each for each in self._absent if find_recorded(each, self._types) is not None]:
                del self._absent[text]
        return self._types
