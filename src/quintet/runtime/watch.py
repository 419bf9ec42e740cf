"""Keeps one `cache.Store` equal to the API server: list, watch, resume, list again.

Started by `manager`, one task per watched type; `handlers` hear of changes through the
store. The states, and what leads from one to the next:

    starting ── WatchList, or pages where the server has none ──▶ streaming
    streaming ── server's timeout, cut or silent connection ────▶ streaming, from the last version
    streaming or starting ── 410: that version is too old ──────▶ starting
    streaming ── three errors in a row without any news ────────▶ starting
"""

import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from quintet.apis.decoding import DECODE_ERRORS, cut_nesting
from quintet.apis.meta import Object, ObjectKey, ObjectMeta, Resource, Struct
from quintet.clock import Clock
from quintet.kube.client import Client, decode_watch_event, failure
from quintet.kube.errors import PASSING, BadRequest, Gone, Invalid, KubeError, ServerFault, Unreachable
from quintet.observe import metrics
from quintet.runtime.cache import Cached, Store, Undecodable

C = TypeVar("C", bound=Cached)

log = logging.getLogger(__name__)

# Errors in a row without news after which a watch lists again.
_FRUITLESS = 3
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_TOO_DEEP = "its JSON is nested too deeply"
_decode_bookmark = msgspec.json.Decoder(Object).decode


class _Identity(Struct, frozen=True):
    """The least that an object must have to be spoken about."""

    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class Selection(Generic[C]):
    """What to watch, and how its bytes become a cached object."""

    resource: Resource
    decode: Callable[[msgspec.Raw], C]
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False
    """Whether the rest, which nobody reads, is not even sent: a ConfigMap may hold a mebibyte."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to put up with what (seconds)."""

    server_timeout: float = 300.0
    # The server sends a bookmark every minute: more silence than this means a dead connection.
    stall: float = 90.0
    first_retry: float = 1.0
    last_retry: float = 30.0
    # Trying to reach a server that is away costs it nothing, and users wait for its return.
    unreachable_retry: float = 5.0
    # A watch that has had no contact for this long fails the readiness check.
    dead: float = 300.0


class Watch(Generic[C]):
    """One watch, for as long as the process runs."""

    def __init__(
        self,
        client: Client,
        selection: Selection[C],
        store: Store[C],
        clock: Clock,
        patience: Patience | None = None,
        on_trouble: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._on_trouble = on_trouble
        self._client = client
        self._selection = selection
        self._store = store
        self._clock = clock
        self._patience = patience or Patience()
        self._resume_from = ""
        self._watch_list = True
        self._refused = False
        """Whether the last stream was opened, and then ended by an ERROR event."""
        self._last_contact = clock.monotonic()
        self.name = selection.resource.qualified

    @property
    def alive(self) -> bool:
        """Whether the server was heard of lately."""
        return self._clock.monotonic() - self._last_contact < self._patience.dead

    async def run(self) -> None:
        """Never returns; every fault of server or network ends in another try."""
        failures = fruitless = 0
        while True:
            before, longest = self._store.version, self._patience.last_retry
            try:
                await self._follow()
                cause = "ended"
            except Gone:
                self._resume_from, cause = "", "gone"
            except (KubeError, *DECODE_ERRORS) as error:
                cause = type(error).__name__
                log.warning("Watch interrupted", extra={"resource": self.name, "error": str(error)})
                self._on_trouble(error)
                if isinstance(error, Unreachable):
                    longest = self._patience.unreachable_retry
                elif self._refused or not isinstance(error, PASSING):
                    fruitless += 1
            metrics.watch_restarts.labels(self.name, cause).inc()
            # A stream that brought news may be resumed at once; one that did not must not spin.
            if self._store.version > before:
                failures = fruitless = 0
                continue
            if fruitless >= _FRUITLESS:
                # What we resume from may be the reason; only a list makes sure that nothing is missed.
                self._resume_from, fruitless = "", 0
            ceiling = min(longest, self._patience.first_retry * 2.0 ** min(failures, 16))
            failures += 1
            await self._clock.sleep(ceiling * random.uniform(0.5, 1.0))

    async def _follow(self) -> None:
        if self._resume_from:
            await self._stream(None)
        elif self._watch_list:
            try:
                await self._stream(set())
            except (Invalid, BadRequest, ServerFault) as error:
                if self._resume_from:
                    raise  # the list was there already: what failed is the watch
                # Off by default in 1.33; needs a recent etcd. Pages always work.
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
            self._heard()
            version = page.metadata.resource_version
            taken = [self._take(item) for item in page.items]
            taken += [self._take_broken(item, _TOO_DEEP) for item in page.too_deep]
            seen |= {key for key, _ in taken if key is not None}
        self._resume_from = version
        self._store.replaced(seen, int(version))

    async def _stream(self, listed: set[ObjectKey] | None) -> None:
        """Follow one connection; `listed` collects the initial events of a WatchList."""
        contact, self._refused = self._last_contact, False
        async with self._open(initial=listed is not None) as batches:
            self._heard()
            try:
                async for lines in batches:
                    self._heard()
                    for line in lines:
                        try:
                            event, cut = decode_watch_event(line), False
                        except RecursionError:
                            event, cut = decode_watch_event(cut_nesting(line)), True
                        if event.type == "BOOKMARK":
                            listed = self._bookmark(event.object, listed)
                        elif event.type == "ERROR":
                            # An answer, but not what was asked for: a watch that gets nothing else is dead.
                            self._last_contact, self._refused = contact, True
                            raise failure(f"WATCH {self.name}", event.object)
                        else:
                            self._change(event.type, event.object, listed, cut)
                    contact = self._last_contact
            finally:
                if listed is None:
                    self._resume_from = str(self._store.version)

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
            # Spread out, so that not all watches of a process come back in the same second.
            timeout=self._patience.server_timeout * random.uniform(1.0, 1.5),
            idle_timeout=self._patience.stall,
        )

    def _bookmark(self, raw: msgspec.Raw, listed: set[ObjectKey] | None) -> set[ObjectKey] | None:
        mark = _decode_bookmark(raw)
        if listed is not None and mark.metadata.annotations.get(_INITIAL_EVENTS_END) == "true":
            self._store.replaced(listed, mark.version)
            return None
        if listed is None:
            self._store.advance(mark.version)
        return listed

    def _change(self, kind: str, raw: msgspec.Raw, listed: set[ObjectKey] | None, cut: bool) -> None:
        if kind == "DELETED":
            gone = msgspec.json.decode(raw, type=_Identity).metadata
            version = int(gone.resource_version)
            self._store.remove(gone.key, version)
        else:
            key, version = self._take_broken(raw, _TOO_DEEP) if cut else self._take(raw)
            if listed is not None and key is not None:
                listed.add(key)
        if listed is None:
            # Changes come in the order of their versions; the objects of a list come in any order.
            self._store.advance(version)

    def _take(self, raw: msgspec.Raw) -> tuple[ObjectKey | None, int]:
        """Decode into the store; an object that does not decode must not stop the others."""
        try:
            obj = self._selection.decode(raw)
        except Exception as error:
            # A kind's own projection may raise anything.
            return self._take_broken(raw, str(error) or type(error).__name__)
        self._store.put(obj)
        return obj.key, obj.version

    def _take_broken(self, raw: msgspec.Raw, problem: str) -> tuple[ObjectKey | None, int]:
        metrics.undecodable_objects.labels(self.name).inc()
        try:
            identity = msgspec.json.decode(raw, type=_Identity).metadata
        except DECODE_ERRORS:
            log.error(
                "Object without usable metadata skipped", extra={"resource": self.name, "error": problem}
            )
            return None, 0
        version = int(identity.resource_version)
        self._store.put_broken(Undecodable(identity.key, version, identity.uid, problem))
        return identity.key, version

    def _heard(self) -> None:
        self._last_contact = self._clock.monotonic()
