"""Keeps one cache equal to the API server: list, watch, resume, list again.

The states, and what leads from one to the next:

    starting ── WatchList, or pages if the server does not support it ──▶ streaming
    streaming ── server's timeout, broken or silent connection ─────────▶ streaming, from the last version
    streaming or starting ── 410: that version is too old ──────────────▶ starting
    streaming ── three errors in a row without progress ────────────────▶ starting
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from quintet.apis.decoding import DECODE_ERRORS, cut_nesting
from quintet.apis.meta import Object, ObjectKey, ObjectMeta, Resource, Struct
from quintet.clock import Clock
from quintet.kube.client import Client, decode_watch_event, watch_error
from quintet.kube.errors import (
    TRANSIENT,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerFault,
    Unauthorized,
    Unreachable,
    Unsupported,
)
from quintet.kube.versions import Versions
from quintet.observe import metrics
from quintet.runtime.cache import Cached, Store, Undecodable

C = TypeVar("C", bound=Cached)

log = logging.getLogger(__name__)

# Errors in a row without progress after which a watch lists again.
_MAX_FRUITLESS = 3
# Errors that do not go away by themselves: no permission, no such type.
_REFUSALS = (Forbidden, NotFound, Unsupported)
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_TOO_DEEP = "its JSON is nested too deeply"
_decode_bookmark = msgspec.json.Decoder(Object).decode


class _Identity(Struct, frozen=True):
    """An object of which only the metadata is decoded."""

    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class Selection(Generic[C]):
    """The objects to watch, and how to decode them."""

    resource: Resource
    decode: Callable[[msgspec.Raw], C]
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    everywhere: bool = False
    """Whether to watch all namespaces, whichever the process watches."""
    metadata_only: bool = False
    """Whether the server sends only metadata: a ConfigMap may hold a mebibyte that nobody reads."""
    versions: Versions = field(default_factory=Versions)
    """The order of the resourceVersions; `decode` needs it only for types whose versions are no numbers."""


@dataclass(frozen=True, slots=True)
class WatchTimeouts:
    """Timeouts and retry delays of a watch, in seconds."""

    server_timeout: float = 300.0
    # The server sends a bookmark every minute: a longer silence means a dead connection.
    stall: float = 90.0
    first_retry: float = 1.0
    last_retry: float = 30.0
    # Retries cost an unreachable server nothing, and users wait for its return.
    unreachable_retry: float = 5.0
    # A watch without contact for this long fails the readiness check.
    dead: float = 300.0


class Watch(Generic[C]):
    """One watch, which runs as long as the process."""

    def __init__(
        self,
        client: Client,
        selection: Selection[C],
        store: Store[C],
        clock: Clock,
        timeouts: WatchTimeouts | None = None,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._on_error = on_error
        self._client = client
        self._selection = selection
        self._store = store
        # A cluster-scoped type has one source.
        self._source = selection.namespace if selection.resource.namespaced else ""
        store.add_source(self._source)
        self._clock = clock
        self._timeouts = timeouts or WatchTimeouts()
        self._resume_from = ""
        self._watch_list = True
        self._ended_by_error = False
        """Whether an ERROR event ended the last stream."""
        self._last_contact = clock.monotonic()
        self.name = selection.resource.qualified
        self.refusal: str | None = None
        """Why the server refuses this watch: no permission, or no such type. None if it does not."""
        self.settled = asyncio.Event()
        """Set once there is a first list or a refusal."""

    @property
    def alive(self) -> bool:
        """Return whether the server has sent anything lately."""
        return self._clock.monotonic() - self._last_contact < self._timeouts.dead

    @property
    def _version(self) -> int:
        return self._store.version_of(self._source)

    async def run(self) -> None:
        """Watch for ever: retry after every error of the server or the network."""
        failures = fruitless = 0
        while True:
            before, max_delay = self._version, self._timeouts.last_retry
            try:
                await self._list_or_watch()
                cause = "ended"
            except Gone:
                self._resume_from, cause = "", "gone"
            except (KubeError, *DECODE_ERRORS) as error:
                cause = type(error).__name__
                log.warning("Watch interrupted", extra={"resource": self.name, "error": str(error)})
                self._on_error(error)
                if isinstance(error, _REFUSALS):
                    self._record_refusal(error)
                if isinstance(error, Unreachable | Unauthorized):
                    max_delay = self._timeouts.unreachable_retry
                elif self._ended_by_error or not isinstance(error, TRANSIENT):
                    fruitless += 1
            metrics.watch_restarts.labels(self.name, cause).inc()
            # A stream that made progress is resumed at once; one that did not must not spin.
            if self._version > before:
                failures = fruitless = 0
                continue
            if fruitless >= _MAX_FRUITLESS:
                # The version to resume from may be the cause; only a list ensures that nothing is missed.
                self._resume_from, fruitless = "", 0
            ceiling = min(max_delay, self._timeouts.first_retry * 2.0 ** min(failures, 16))
            failures += 1
            await self._clock.sleep(ceiling * random.uniform(0.5, 1.0))

    async def _list_or_watch(self) -> None:
        if self._resume_from:
            await self._stream(None)
        elif self._watch_list:
            try:
                await self._stream(set())
            except (Invalid, BadRequest, ServerFault) as error:
                if self._resume_from:
                    raise  # the list was complete: the watch failed
                # WatchList is off by default in 1.33 and needs a recent etcd. Pages always work.
                log.info("Listing by pages", extra={"resource": self.name, "error": str(error)})
                self._watch_list = isinstance(error, ServerFault)
                await self._list_pages()
        else:
            await self._list_pages()

    async def _list_pages(self) -> None:
        chosen, seen, version = self._selection, set[ObjectKey](), ""
        pages = self._client.pages(
            chosen.resource,
            namespace=chosen.namespace,
            labels=chosen.labels,
            fields=chosen.fields,
            metadata_only=chosen.metadata_only,
        )
        async for page in pages:
            self._record_contact()
            version = page.metadata.resource_version
            stored = [self._store_object(item) for item in page.items]
            stored += [self._store_undecodable(item, _TOO_DEEP) for item in page.too_deep]
            seen |= {key for key, _ in stored if key is not None}
        self._resume_from = version
        self._finish_list(seen, chosen.versions.number(version))

    async def _stream(self, listed: set[ObjectKey] | None) -> None:
        """Read one connection; `listed` collects the keys of the initial events of a WatchList."""
        contact, self._ended_by_error = self._last_contact, False
        async with self._open(initial=listed is not None) as batches:
            self._record_contact()
            try:
                async for lines in batches:
                    self._record_contact()
                    for line in lines:
                        try:
                            event, cut = decode_watch_event(line), False
                        except RecursionError:
                            event, cut = decode_watch_event(cut_nesting(line)), True
                        if event.type == "BOOKMARK":
                            listed = self._bookmark(event.object, listed)
                        elif event.type == "ERROR":
                            # An ERROR event is no contact: with only those, the watch must become not ready.
                            self._last_contact, self._ended_by_error = contact, True
                            raise watch_error(f"WATCH {self.name}", event.object)
                        else:
                            self._change(event.type, event.object, listed, cut)
                    contact = self._last_contact
            finally:
                if listed is None:
                    self._resume_from = self._selection.versions.text(self._version)

    def _open(self, *, initial: bool) -> contextlib.AbstractAsyncContextManager[AsyncIterator[list[bytes]]]:
        chosen = self._selection
        return self._client.watch(
            chosen.resource,
            namespace=chosen.namespace,
            labels=chosen.labels,
            fields=chosen.fields,
            resource_version=self._resume_from,
            initial_events=initial,
            metadata_only=chosen.metadata_only,
            # Random, so that not all watches of a process reconnect in the same second.
            timeout=self._timeouts.server_timeout * random.uniform(1.0, 1.5),
            idle_timeout=self._timeouts.stall,
        )

    def _bookmark(self, raw: msgspec.Raw, listed: set[ObjectKey] | None) -> set[ObjectKey] | None:
        metadata = _decode_bookmark(raw).metadata
        if listed is not None and metadata.annotations.get(_INITIAL_EVENTS_END) == "true":
            self._finish_list(listed, self._selection.versions.number(metadata.resource_version))
            return None
        if listed is None:
            version = self._selection.versions.number(metadata.resource_version)
            self._store.advance(version, self._source)
        return listed

    def _finish_list(self, listed: set[ObjectKey], version: int) -> None:
        self._store.finish_list(listed, version, self._source)
        self.settled.set()

    def _change(self, kind: str, raw: msgspec.Raw, listed: set[ObjectKey] | None, cut: bool) -> None:
        if kind == "DELETED":
            gone = msgspec.json.decode(raw, type=_Identity).metadata
            version = self._selection.versions.number(gone.resource_version)
            self._store.remove(gone.key, version)
        else:
            key, version = self._store_undecodable(raw, _TOO_DEEP) if cut else self._store_object(raw)
            if listed is not None and key is not None:
                listed.add(key)
        if listed is None:
            # Changes arrive in the order of their versions; the objects of a list in any order.
            self._store.advance(version, self._source)

    def _store_object(self, raw: msgspec.Raw) -> tuple[ObjectKey | None, int]:
        """Decode an object into the cache; one that does not decode must not stop the others."""
        try:
            obj = self._selection.decode(raw)
        except Exception as error:
            # The projection of a kind may raise any exception.
            return self._store_undecodable(raw, str(error) or type(error).__name__)
        self._store.put(obj)
        return obj.key, obj.version

    def _store_undecodable(self, raw: msgspec.Raw, problem: str) -> tuple[ObjectKey | None, int]:
        metrics.undecodable_objects.labels(self.name).inc()
        try:
            identity = msgspec.json.decode(raw, type=_Identity).metadata
        except DECODE_ERRORS:
            log.error(
                "Object without usable metadata skipped", extra={"resource": self.name, "error": problem}
            )
            return None, 0
        version = self._selection.versions.number(identity.resource_version)
        self._store.put_undecodable(Undecodable(identity.key, version, identity.uid, problem))
        return identity.key, version

    def _record_contact(self) -> None:
        self._last_contact = self._clock.monotonic()
        if self.refusal is not None:
            self.refusal = None
            log.info("Watch allowed again", extra={"resource": self.name, "namespace": self._source})

    def _record_refusal(self, error: KubeError) -> None:
        if self.refusal is None:
            log.error(
                "Watch refused: its controller waits for the permission or the CRD",
                extra={"resource": self.name, "namespace": self._source, "error": str(error)},
            )
        self.refusal = str(error)
        self.settled.set()
