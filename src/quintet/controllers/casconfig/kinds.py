"""The types that configs speak of: which resource a kind means, and where its pods are described.

Asked by `controller`; the answers come from the API server and are remembered for some minutes. A kind
that is not known yet is looked for again soon, because its definition may have come after the config.
"""

from math import inf

from quintet.apis.casconfig import template
from quintet.apis.casconfig.kinds import Resolution, forbidden, noted, resolved
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
    """The schema of a type is not there yet; its definition is some seconds old."""


class Kinds:
    """What the API server serves."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._types: tuple[Resource, ...] = ()
        self._since = 0.0
        self._pods: dict[Resource, Path | None] = {}
        self._missing: dict[Resource, float] = {}
        self._absent: dict[str, float] = {}

    async def resolve(self, text: str) -> Resolution:
        """The resource that a kind means, or why there is none."""
        found = resolved(text, await self._current(CACHE_SECONDS))
        return found if found.resource is not None else resolved(text, await self._current(RETRY_SECONDS))

    async def noted(self, text: str) -> Resource | None:
        """The resource of a kind that was written down before; None if it is not served now."""
        return noted(text, await self._current(CACHE_SECONDS))

    async def gone(self, text: str) -> bool:
        """Whether a kind, and with it all of its objects, is no more.

        One look is not enough: a server that is starting, or whose extension is away, leaves out what it has.
        """
        if noted(text, await self._current(RETRY_SECONDS)) is not None:
            return False
        return self._since - self._absent.setdefault(text, self._since) >= ABSENT_SECONDS

    def invalidate(self) -> bool:
        """A type that was said to be served is not: look anew. False if that was done just now."""
        if self._clock.monotonic() - self._since < RETRY_SECONDS:
            return False
        self._since = -inf
        return True

    async def pod(self, resource: Resource) -> Path | None:
        """Where objects of a type have the spec of their pods. Raises `NotPublishedError`."""
        await self._current(CACHE_SECONDS)
        if resource not in self._pods:
            await self._read(resource)
        return self._pods[resource]

    def is_unpublished(self, resource: Resource) -> bool:
        """Whether the server says nothing about a type, or does not yet."""
        return resource in self._missing

    async def with_templates(self) -> list[Resource]:
        """Every type whose objects describe pods, and are none themselves."""
        seen = set[tuple[str, str]]()
        found = []
        for each in await self._current(CACHE_SECONDS):
            # Of a type with several versions the preferred one, which comes first, is enough.
            if (each.group, each.kind) in seen or not each.namespaced or forbidden(each.group, each.kind):
                continue
            seen.add((each.group, each.kind))
            if await self.pod(each) not in (None, template.POD):
                found.append(each)
        return found

    async def _read(self, resource: Resource) -> None:
        """Look into the document of a group, once for all of its types."""
        try:
            document = await discovery.document(self._client, resource)
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
            raise NotPublishedError(f"the API server has not published yet how a {resource.kind} looks")
        # A server may never say anything about its types: they have metadata all the same.
        self._pods[resource] = None

    async def _current(self, age: float) -> tuple[Resource, ...]:
        now = self._clock.monotonic()
        if not self._types or now - self._since >= age:
            self._types, self._since = await discovery.catalogue(self._client), now
            self._pods.clear()
            for text in [each for each in self._absent if noted(each, self._types) is not None]:
                del self._absent[text]
        return self._types
