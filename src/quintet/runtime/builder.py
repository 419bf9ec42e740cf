"""Builds one controller: its kind, the types that it owns, and what else it watches.

builder = Builder(manager, "jsonserver", JSONSERVERS, JsonServer)
builder.owns(DEPLOYMENTS, DeploymentView, state=lambda view: view.status, labels=SELECTOR)
builder.watches(SECRETS, SecretView, to=owners_of_secret)
builder.build(JsonServerController(builder.children, builder.clock))
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.runtime import handlers
from quintet.runtime.apply import Children
from quintet.runtime.cache import Cached, Handler, Indexer, Store, Undecodable
from quintet.runtime.controller import TIMEOUT, Controller
from quintet.runtime.events import WARNING, Recorder
from quintet.runtime.handlers import Predicate
from quintet.runtime.manager import Manager
from quintet.runtime.ownership import Child, View, project
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.queue import INITIAL, LIVE, WorkQueue
from quintet.runtime.reconcile import Reconcile
from quintet.runtime.reconciler import ObjectReconciler, Reconciler
from quintet.runtime.status import StatusWriter
from quintet.runtime.watch import Selection

T = TypeVar("T", bound=Object)
W = TypeVar("W", bound=Object)
V = TypeVar("V", bound=View)
C = TypeVar("C", bound=Cached)
S = TypeVar("S")


def decoder(kind: type[W]) -> Callable[[msgspec.Raw], W]:
    """Return a function that decodes JSON into a typed object."""
    return msgspec.json.Decoder(kind).decode


class Builder(Generic[T]):
    """The parts of one controller: its cache, queue, clients and writers."""

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
        self._caches: list[Store[Any]] = []
        self.writes = OwnWrites(self.queue.add)
        self.children = Children(self.client, resource, self.writes, manager.clock, self.events)
        self.status = StatusWriter(self.client, resource, self.primary, self.writes)
        self.primary.subscribe(handlers.enqueue(self.queue, handlers.own_key, handlers.changes_desired_state))
        self.primary.on_undecodable.append(
            lambda key, initial: self.queue.add(key, INITIAL if initial else LIVE)
        )
        self._add_watch(Selection(resource, decoder(kind), labels=labels), self.primary)

    def owns(
        self,
        resource: Resource,
        view: type[V] = View,  # type: ignore[assignment]  # the plainest view serves every V
        *,
        state: Callable[[V], S] = lambda view: None,  # type: ignore[assignment, return-value]
        labels: str = "",
        is_relevant: Predicate[Child[S]] | None = None,
        everywhere: bool = False,
    ) -> Store[Child[S]]:
        """Watch children of this type; a change to one requeues its owner.

        With `is_relevant`, only changes for which it returns True: it takes the old and the new state. With
        `everywhere`, in all namespaces, whichever the process watches.
        """
        decode = decoder(view)
        shrink = project(self.resource, self.client.field_manager, state)
        selection = Selection(
            resource,
            lambda raw: shrink(decode(raw)),
            labels=labels,
            everywhere=everywhere,
            metadata_only=view is View,
        )
        store: Store[Child[S]] = Store()
        store.subscribe(self._unless_echo(store, handlers.enqueue(self.queue, self._owner, is_relevant)))
        self._add_watch(selection, store)
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
        is_relevant: Predicate[W] | None = None,
    ) -> Store[W]:
        """Watch other objects; a change (for which `is_relevant`) requeues the keys that `to` returns."""
        return self.watches_reduced(
            resource, kind, lambda obj: obj, to, labels=labels, indexes=indexes, is_relevant=is_relevant
        )

    def watches_reduced(
        self,
        resource: Resource,
        kind: type[W],
        shrink: Callable[[W], C],
        to: Callable[[C], Iterable[ObjectKey]],
        *,
        labels: str = "",
        indexes: dict[str, Indexer[C]] | None = None,
        is_relevant: Predicate[C] | None = None,
    ) -> Store[C]:
        """Watch other objects, but cache only what `shrink` returns: there may be very many."""
        store: Store[C] = Store(indexes)
        store.subscribe(handlers.enqueue(self.queue, to, is_relevant))
        decode = decoder(kind)
        selection = Selection(resource, lambda raw: shrink(decode(raw)), labels=labels)
        self._add_watch(selection, store)
        return store

    def build(self, kind: ObjectReconciler[T] | Reconcile, *, workers: int = 8) -> Controller:
        """Add the controller to the manager; a plain function gets none of the shared steps."""
        shared = isinstance(kind, ObjectReconciler)
        controller = Controller(
            self.name,
            self._reconciler(kind).reconcile if isinstance(kind, ObjectReconciler) else kind,
            self.queue,
            self.primary,
            self.writes,
            self.clock,
            workers=workers,
            timeout=None if shared else TIMEOUT,  # the shared steps report their own timeout
            on_undecodable=self._report_undecodable,
            caches=self._caches,
        )
        self._manager.add_controller(controller, self.events)
        return controller

    def _add_watch(self, selection: Selection[Any], store: Store[Any]) -> None:
        self._caches.append(store)
        self._manager.add_watch(selection, store, self.name)

    def _reconciler(self, kind: ObjectReconciler[T]) -> Reconciler[T]:
        return Reconciler(
            kind,
            self.resource,
            self.client,
            self.primary,
            self.queue,
            self.status,
            self.events,
            self.clock,
        )

    def _unless_echo(self, store: Store[Child[S]], handler: Handler[Child[S]]) -> Handler[Child[S]]:
        def handle(old: Child[S] | None, new: Child[S] | None, initial: bool) -> None:
            if new is None or not self.writes.is_echo(store, new):
                handler(old, new, initial)

        return handle

    def _report_undecodable(self, item: Undecodable) -> None:
        note = f"The controller skips this object because it does not fit its schema: {item.problem}. Fix it."
        self.events.record(self.resource, item.key, item.uid, WARNING, "DecodeFailed", note)

    def _owner(self, child: Child[Any]) -> Iterable[ObjectKey]:
        namespace = child.key.namespace if self.resource.namespaced else ""
        return (ObjectKey(namespace, child.owner_name),) if child.owner_name else ()
