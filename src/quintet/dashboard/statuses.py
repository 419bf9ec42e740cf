"""The status of all Quintet objects, kept up to date by one watch per kind."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from quintet.apis.meta import JsonObject, ObjectKey
from quintet.inspect.status import ObjectStatus, read_status
from quintet.kube.errors import Forbidden, KubeError, NotFound
from quintet.runtime.cache import Store
from quintet.runtime.watch import Selection, Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quintet.apis.resources import CustomResource
    from quintet.clock import Clock
    from quintet.inspect.session import Session

_decode = msgspec.json.Decoder(JsonObject).decode


class _Cached(NamedTuple):
    key: ObjectKey
    version: int
    status: ObjectStatus


@dataclass(slots=True)
class _Watched:
    kind: CustomResource
    namespace: str
    """The watched namespace; empty for all, or for objects without a namespace."""
    store: Store[_Cached]
    watch: Watch[_Cached]
    error: Exception | None = None
    """The last error of the watch."""


class Statuses:
    """The objects that the viewer may list: of all namespaces, or of that of the session."""

    def __init__(
        self, session: Session, kinds: Sequence[CustomResource], clock: Clock, *, one_namespace: bool
    ) -> None:
        self._session = session
        self._kinds = kinds
        self._clock = clock
        self._one_namespace = one_namespace
        self._watched: list[_Watched] = []
        self._changed = asyncio.Event()
        self.version = 0
        """Grows with every change."""

    async def run(self) -> None:
        """Watch until cancelled."""
        logging.getLogger("quintet").addHandler(logging.NullHandler())
        namespaces = await asyncio.gather(*map(self._choose_namespace, self._kinds))
        self._watched = [self._watch(*each) for each in zip(self._kinds, namespaces, strict=True)]
        async with asyncio.TaskGroup() as group:
            for each in self._watched:
                group.create_task(each.watch.run())
                group.create_task(self._report_settled(each.watch))

    @property
    def loading(self) -> bool:
        """Whether the first list of a kind is missing."""
        return not self._watched or not all(each.watch.settled.is_set() for each in self._watched)

    def statuses(self) -> list[ObjectStatus]:
        """Return the status of all objects."""
        return [each.status for watched in self._watched for each in watched.store]

    def kinds(self) -> list[str]:
        """Return the kinds that the viewer may list."""
        return [each.kind.resource.kind for each in self._watched if each.watch.refusal is None]

    def remarks(self) -> list[str]:
        """Return what is not shown, and why."""
        refused = [each for each in self._watched if each.watch.refusal is not None]
        limited = [each.kind.resource.kind for each in self._watched if each.namespace]
        remarks = []
        if limited and not self._one_namespace:
            remarks.append(
                f"Only namespace {self._session.namespace} is shown, because you have no permission to list "
                f"the objects of all namespaces: {', '.join(limited)}."
            )
        if refused and len(refused) == len(self._watched):
            remarks.append(
                "You have no permission to list any Quintet objects, or Quintet is not installed. "
                "`quintet dashboard -n NAMESPACE` shows another namespace; `quintet doctor` finds the cause."
            )
        return [*remarks, *(_describe_refusal(each) for each in refused)]

    async def wait_for_change(self, version: int) -> None:
        """Wait until something has changed since a version."""
        while self.version == version:
            await self._changed.wait()

    async def _choose_namespace(self, kind: CustomResource) -> str:
        """Return the namespace to watch: that of the session if the viewer chose it or may not list all."""
        if not kind.resource.namespaced:
            return ""
        if self._one_namespace:
            return self._session.namespace
        try:
            async for _ in self._session.client.pages(kind.resource, page_size=1, metadata_only=True):
                break
        except Forbidden:
            return self._session.namespace
        except KubeError:
            pass  # The watch reports it, and tries again.
        return ""

    def _watch(self, kind: CustomResource, namespace: str) -> _Watched:
        store: Store[_Cached] = Store()
        store.subscribe(lambda old, new, initial: self._notify())

        def decode(raw: msgspec.Raw) -> _Cached:
            body = _decode(raw)
            meta = body["metadata"]
            key = ObjectKey(meta.get("namespace", ""), meta["name"])
            return _Cached(key, int(meta["resourceVersion"]), read_status(kind, body))

        def on_error(error: Exception) -> None:
            watched.error = error
            self._notify()

        selection = Selection(kind.resource, decode, namespace)
        watch = Watch(self._session.client, selection, store, self._clock, on_error=on_error)
        watched = _Watched(kind, namespace, store, watch)
        return watched

    async def _report_settled(self, watch: Watch[_Cached]) -> None:
        await watch.settled.wait()
        self._notify()

    def _notify(self) -> None:
        self.version += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _describe_refusal(watched: _Watched) -> str:
    kind = watched.kind.resource.kind
    match watched.error:
        case NotFound():
            return f"{kind} is not shown: the cluster does not serve this kind."
        case Forbidden():
            scope = f" in namespace {watched.namespace}" if watched.namespace else ""
            return f"{kind} is not shown: you have no permission to list and watch them{scope}."
    return f"{kind} is not shown: {watched.watch.refusal}"
