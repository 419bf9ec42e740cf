"""Wires one controller: what it is for, what it owns, what else it watches.

Read a kind's wiring as one sentence:

    builder = Builder(manager, "jsonserver", JSONSERVERS, JsonServer)
    builder.owns(DEPLOYMENTS, DeploymentView, state=lambda view: view.status, labels=SELECTOR)
    builder.watches(SECRETS, SecretView, to=owners_of_secret)
    builder.build(JsonServerController(builder).reconcile)

`manager` runs the result.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.runtime import handlers
from quintet.runtime.apply import Children
from quintet.runtime.cache import Cached, Handler, Indexer, Store, Undecodable
from quintet.runtime.controller import Controller
from quintet.runtime.events import WARNING, Recorder
from quintet.runtime.manager import Manager
from quintet.runtime.ownership import Child, View, project
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.queue import INITIAL, LIVE, WorkQueue
from quintet.runtime.reconcile import Reconcile
from quintet.runtime.status import StatusWriter
from quintet.runtime.watch import Selection

T = TypeVar("T", bound=Object)
W = TypeVar("W", bound=Object)
V = TypeVar("V", bound=View)
C = TypeVar("C", bound=Cached)
S = TypeVar("S")


def decoder(kind: type[W]) -> Callable[[msgspec.Raw], W]:
    """Bytes to a typed object."""
    return msgspec.json.Decoder(kind).decode


class Builder(Generic[T]):
    """The parts of one controller; a kind's code takes what it needs from here."""

    def __init__(
        self,
        manager: Manager,
        name: str,
        resource: Resource,
        kind: type[T],
        *,
        indexes: dict[str, Indexer[T]] | None = None,
        labels: str = "",
    ) -> None:
        self.name = name
        self.resource = resource
        self.clock = manager.clock
        self.client = manager.client.with_manager(f"quintet-{name}")
        self.queue = WorkQueue(name, manager.clock)
        self.primary: Store[T] = Store(indexes)
        self.events = Recorder(manager.client, name, manager.identity, manager.clock)
        self._manager = manager
        self.writes = OwnWrites(self.queue.add)
        self.children = Children(self.client, resource, self.writes, manager.clock)
        self.status = StatusWriter(self.client, resource, self.primary, self.writes)
        self.primary.subscribe(handlers.enqueue(self.queue, handlers.itself, handlers.asked_for))
        self.primary.on_broken.append(lambda key, initial: self.queue.add(key, INITIAL if initial else LIVE))
        manager.add_watch(Selection(resource, decoder(kind), manager.namespace, labels), self.primary)

    def owns(
        self,
        resource: Resource,
        view: type[V] = View,  # type: ignore[assignment]  # the plainest view serves every V
        *,
        state: Callable[[V], S] = lambda view: None,  # type: ignore[assignment, return-value]
        labels: str = "",
    ) -> Store[Child[S]]:
        """Children of this type are kept as wanted; any change to one brings its owner back."""
        decode = decoder(view)
        shrink = project(self.resource, self.client.field_manager, state)
        selection = Selection(
            resource,
            lambda raw: shrink(decode(raw)),
            self._manager.namespace,
            labels,
            metadata_only=view is View,
        )
        store: Store[Child[S]] = Store()
        store.subscribe(self._unless_echo(store, handlers.enqueue(self.queue, self._owner)))
        self._manager.add_watch(selection, store)
        self.children.add_source(selection, store)
        return store

    def watches(
        self,
        resource: Resource,
        kind: type[W],
        to: Callable[[W], Iterable[ObjectKey]],
        *,
        labels: str = "",
        indexes: dict[str, Indexer[W]] | None = None,
    ) -> Store[W]:
        """Other objects that matter: a change brings back the keys that it maps to."""
        return self.keeps(resource, kind, lambda obj: obj, to, labels=labels, indexes=indexes)

    def keeps(
        self,
        resource: Resource,
        kind: type[W],
        shrink: Callable[[W], C],
        to: Callable[[C], Iterable[ObjectKey]],
        *,
        labels: str = "",
        indexes: dict[str, Indexer[C]] | None = None,
    ) -> Store[C]:
        """The same, of which only what `shrink` leaves is kept: where there may be very many."""
        store: Store[C] = Store(indexes)
        store.subscribe(handlers.enqueue(self.queue, to))
        decode = decoder(kind)
        selection = Selection(resource, lambda raw: shrink(decode(raw)), self._manager.namespace, labels)
        self._manager.add_watch(selection, store)
        return store

    def build(self, reconcile: Reconcile, *, workers: int = 8) -> Controller:
        """Hand the finished controller to the manager."""
        controller = Controller(
            self.name,
            reconcile,
            self.queue,
            self.primary,
            self.writes,
            self.clock,
            workers=workers,
            on_undecodable=self._report_undecodable,
        )
        self._manager.add_controller(controller, self.events)
        return controller

    def _unless_echo(self, store: Store[Child[S]], handler: Handler[Child[S]]) -> Handler[Child[S]]:
        def handle(old: Child[S] | None, new: Child[S] | None, initial: bool) -> None:
            if new is None or not self.writes.is_echo(store, new):
                handler(old, new, initial)

        return handle

    def _report_undecodable(self, item: Undecodable) -> None:
        note = f"This object does not fit its type and is left alone: {item.problem}. Correct it to go on."
        self.events.record(self.resource, item.key, item.uid, WARNING, "DecodeFailed", note)

    def _owner(self, child: Child[Any]) -> Iterable[ObjectKey]:
        namespace = child.key.namespace if self.resource.namespaced else ""
        return (ObjectKey(namespace, child.owner_name),) if child.owner_name else ()
