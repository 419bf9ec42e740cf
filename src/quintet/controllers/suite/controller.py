"""Reconciles the Quintet, which describes an installation.

The phases: CRDs, without changes that could break stored objects → policies, RBAC and Services → delete
what the spec no longer names → Deployments, one at a time → status. A failure stops only the parts that
need what has failed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource, find_condition
from quintet.apis.suite import NAME, QUINTETS, Quintet, QuintetStatus
from quintet.clock import Clock
from quintet.controllers.child_results import is_transient
from quintet.controllers.suite.crds import (
    CrdView,
    CrdWriter,
    UnsafeCrdChange,
    is_established,
)
from quintet.controllers.suite.decide.installation import (
    CRDS,
    DEPLOYMENTS,
    IN_WATCHED_NAMESPACES,
    NAMESPACES,
    OWNED,
    SELECTOR,
    SERVICE_ACCOUNTS,
    VALIDATING,
    WEBHOOKS,
    Installation,
    Installer,
    Part,
    Scope,
    key_of,
    resource_of,
)
from quintet.controllers.suite.decide.pods import find_cause, recent_restarts
from quintet.controllers.suite.decide.rollout import Rollout, fallbacks
from quintet.controllers.suite.decide.scope import NamespaceInfo, find_scope, namespace_of
from quintet.controllers.suite.decide.status import DEGRADED, InstallationState, Problem, Reason, status_of
from quintet.controllers.suite.decide.user_objects import (
    ObjectsWithoutController,
    finishing_controllers,
    group_by_controller,
    with_controllers,
)
from quintet.controllers.suite.leaders import LeaderMonitor
from quintet.controllers.suite.pods import ProcessPods
from quintet.controllers.suite.user_objects import list_user_objects
from quintet.controllers.suite.views import PartDeploymentView, WebhooksView, has_webhooks, rollout_of
from quintet.kube.client import Client
from quintet.kube.errors import ApiError, KubeError, WriteFenced
from quintet.runtime import handlers
from quintet.runtime.apply import Children, ForeignObject
from quintet.runtime.builder import Builder
from quintet.runtime.cache import Store
from quintet.runtime.events import NORMAL, WARNING, Event
from quintet.runtime.manager import Manager
from quintet.runtime.ownership import Child
from quintet.runtime.reconcile import Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler

# No watch reports that a foreign object is gone, or that somebody changed a CRD by hand.
_POLL_SECONDS = 30.0
# No watch reports a deleted object of a kind whose controller does not run, or the end of a deletion.
_IDLE_POLL_SECONDS = 60.0
_DELETION_POLL_SECONDS = 3.0
_ONLY_KEY = ObjectKey("", NAME)


def _changes_scope(old: NamespaceInfo, new: NamespaceInfo) -> bool:
    return (old.labels, old.deleting) != (new.labels, new.deleting)


@dataclass(slots=True)
class _Scope:
    """What one reconcile has found so far."""

    quintet: Quintet
    namespaces: Scope
    made: Installation
    back: dict[str, str]
    failed_images: dict[str, str]
    consecutive_failures: int
    waiting_objects: ObjectsWithoutController
    finishing: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    """Names of CRDs and policies that are not as they should be."""
    blocked: set[str] = field(default_factory=set)
    """Names of the parts that are not rolled out, because something that they need is missing."""
    waiting: list[str] = field(default_factory=list)
    removing: list[str] = field(default_factory=list)
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    restarted: bool = False
    """Whether pods restarted lately, which is reported for some minutes."""
    accounts: dict[ObjectKey, str] = field(default_factory=dict)
    """The uids of ServiceAccounts."""
    failures: list[Exception] = field(default_factory=list)


class SuiteController(ObjectReconciler[Quintet]):
    """Reconciles the Quintet."""

    def __init__(
        self,
        client: Client,
        children: Children,
        definitions: CrdWriter,
        stores: dict[Resource, Store[Child[Any]]],
        namespaces: Store[NamespaceInfo],
        pods: ProcessPods,
        leaders: LeaderMonitor,
        clock: Clock,
        install: Installer,
        version: str,
    ) -> None:
        self._client = client
        self._children = children
        self._definitions = definitions
        self._stores = stores
        self._namespaces = namespaces
        self._pods = pods
        self._leaders = leaders
        self._clock = clock
        self._install = install
        self._version = version

    async def reconcile(self, quintet: Quintet, context: Context[Quintet]) -> Outcome:
        if quintet.key != _ONLY_KEY:
            return Outcome()
        scope = await self._observe(quintet, context.failures)
        await self._apply_crds(scope)
        await self._apply_policies(scope)
        for part in scope.made.parts:
            await self._prepare(scope, part)
        # Old Deployments stay while new ones, which may replace them, cannot be created.
        if all(part.name in scope.rollouts or part.name not in scope.blocked for part in scope.made.parts):
            await self._clean_up(scope)
        await self._roll_out(scope)
        status = self._status(scope, await self._leaders.follow(_leases(scope.made)))
        return Outcome(status, _poll_seconds(scope), tuple(scope.failures))

    def events(self, quintet: Quintet, before: QuintetStatus, after: QuintetStatus) -> Iterable[Event]:
        """Return an Event for each new problem and for its end."""
        old, new = (find_condition(status.conditions, DEGRADED) for status in (before, after))
        if new is None or (old is None and new.status == "False"):
            return ()
        if old is not None and (old.status, old.message) == (new.status, new.message):
            return ()
        return (Event(WARNING if new.status == "True" else NORMAL, new.reason, new.message),)

    async def _observe(self, quintet: Quintet, consecutive_failures: int) -> _Scope:
        namespaces = find_scope(quintet.spec, self._namespaces)
        waiting = await self._list_objects_without_controller(quintet)
        finishing = finishing_controllers(quintet, waiting)
        spec = with_controllers(quintet.spec, finishing)
        desired = self._install(spec, {}, namespaces)
        rollouts = {}
        for part in desired.parts:
            child = self._stores[DEPLOYMENTS].get(key_of(part.deployment))
            if child is not None:
                rollouts[part.name] = child.state
        back = fallbacks(quintet, desired.parts, rollouts)
        images = {name: part.image for part in desired.parts for name in part.controllers if name in back}
        made = self._install(spec, back, namespaces) if back else desired
        return _Scope(
            quintet,
            namespaces,
            made,
            back,
            images,
            consecutive_failures,
            waiting,
            finishing,
            rollouts=rollouts,
        )

    async def _list_objects_without_controller(self, quintet: Quintet) -> ObjectsWithoutController:
        idle = self._install(quintet.spec, {}).idle
        return group_by_controller(
            {name: await list_user_objects(self._client, kinds) for name, kinds in idle.items()}
        )

    async def _apply_crds(self, scope: _Scope) -> None:
        for body in scope.made.definitions:
            try:
                if not await self._definitions.ensure(scope.quintet.key, body):
                    scope.waiting.append(key_of(body).name)
                    scope.missing.add(key_of(body).name)
            except (KubeError, UnsafeCrdChange) as error:
                scope.missing.add(key_of(body).name)
                _note(scope, error)

    async def _apply_policies(self, scope: _Scope) -> None:
        for body in scope.made.policies:
            try:
                child = await self._ensure(scope.quintet, body)
            except (KubeError, ForeignObject) as error:
                scope.missing.add(key_of(body).name)
                _note(scope, error)
                continue
            if child.deleting:
                scope.missing.add(child.key.name)
                scope.removing.append(f"{body['kind']} {child.key}")

    async def _prepare(self, scope: _Scope, part: Part) -> None:
        """Apply the objects that the pods of a part need."""
        if part.is_blocked(scope.missing):
            scope.blocked.add(part.name)
            return
        for body in part.objects:
            try:
                if resource_of(body) in WEBHOOKS:
                    # The controller of the kind fills it in; the suite only creates and deletes it.
                    child = await self._children.create(scope.quintet, resource_of(body), body)
                else:
                    child = await self._ensure(scope.quintet, body)
                if resource_of(body) == SERVICE_ACCOUNTS:
                    scope.accounts[child.key] = child.uid
                if child.deleting:
                    scope.removing.append(f"{body['kind']} {child.key}")  # created again once it is gone
                    scope.blocked.add(part.name)
            except (KubeError, ForeignObject) as error:
                scope.blocked.add(part.name)
                _note(scope, error)

    async def _clean_up(self, scope: _Scope) -> None:
        """Delete what the spec no longer names: Deployments first, the rest once their pods are gone."""
        stale = list(self._stale(scope))
        workloads = [each for each in stale if each[0] == DEPLOYMENTS]
        how = "Foreground" if workloads else "Background"
        for resource, key in workloads or reversed(stale):
            try:
                gone = await self._children.remove(scope.quintet, resource, key, propagation=how)
            except KubeError as error:
                _note(scope, error)
                continue
            if not gone:
                scope.removing.append(f"{resource.kind} {key}")
        if workloads and not scope.removing:
            scope.removing += [f"{resource.kind} {key}" for resource, key in stale if resource != DEPLOYMENTS]

    def _stale(self, scope: _Scope) -> Iterable[tuple[Resource, ObjectKey]]:
        parts = [each for part in scope.made.parts for each in (*part.objects, part.deployment)]
        desired = {(resource_of(body), key_of(body)) for body in (*scope.made.policies, *parts)}
        for resource in OWNED:
            for child in self._stores[resource]:
                ours = child.owner_uid == scope.quintet.metadata.uid
                # What is in a namespace that is being deleted goes with it, after the objects of users.
                kept = child.key.namespace in scope.namespaces.missing
                if ours and not kept and (resource, child.key) not in desired:
                    yield resource, child.key

    async def _roll_out(self, scope: _Scope) -> None:
        """Update one Deployment at a time; create new ones at once, but never beside those they replace."""
        held = False
        for part in scope.made.parts:
            there = part.name in scope.rollouts
            if part.name in scope.blocked or (held if there else self._stale_workloads(scope)):
                continue
            try:
                child = await self._ensure(scope.quintet, part.bind_account(scope.accounts))
            except (KubeError, ForeignObject) as error:
                _note(scope, error)
                continue
            scope.rollouts[part.name] = child.state
            held = held or (there and child.state.moving)

    def _stale_workloads(self, scope: _Scope) -> bool:
        return any(resource == DEPLOYMENTS for resource, _ in self._stale(scope))

    async def _ensure(self, quintet: Quintet, body: JsonObject) -> Child[Any]:
        return await self._children.ensure(quintet, resource_of(body), body)

    def _status(self, scope: _Scope, leaderless: Mapping[str, str]) -> QuintetStatus:
        now, parts = self._clock.now(), [part.name for part in scope.made.parts]
        pods = {name: list(self._pods.of(name)) for name in parts}
        restarts = {name: recent_restarts(pods[name], now) for name in parts}
        scope.restarted = any(restarts.values())
        conditions = {name: each.status.conditions for name, each in scope.rollouts.items()}
        causes = {name: find_cause(pods[name], conditions.get(name, ())) for name in parts}
        seen = InstallationState(
            scope.rollouts,
            tuple(scope.problems),
            tuple(scope.waiting),
            tuple(scope.removing),
            self._unregistered_parts(scope.made),
            scope.back,
            scope.failed_images,
            scope.namespaces,
            scope.waiting_objects,
            scope.finishing,
            self._definitions.wider,
            frozenset(scope.blocked),
            leaderless,
            {name: cause for name, cause in causes.items() if cause},
            restarts,
        )
        return status_of(scope.quintet, scope.made, seen, self._version)

    def _unregistered_parts(self, made: Installation) -> frozenset[str]:
        store = self._stores[VALIDATING]
        awaited = ((part.name, store.get(part.webhooks)) for part in made.parts if part.webhooks)
        return frozenset(name for name, child in awaited if child is None or not child.state)


def _leases(made: Installation) -> Iterable[ObjectKey]:
    """Return the Leases of the parts, which have the names of their Deployments."""
    return [key_of(part.deployment) for part in made.parts]


def _poll_seconds(scope: _Scope) -> float | None:
    if scope.finishing:
        return _DELETION_POLL_SECONDS
    if scope.problems or scope.restarted:
        return _POLL_SECONDS
    return _IDLE_POLL_SECONDS if scope.made.idle else None


def _note(scope: _Scope, error: Exception) -> None:
    """Record an error; one that somebody else has to fix is not retried at once."""
    if isinstance(error, WriteFenced) or is_transient(error, scope.consecutive_failures):
        raise error
    if isinstance(error, UnsafeCrdChange):
        scope.problems.append(Problem(Reason.UNSAFE_DEFINITION, str(error)))
    elif isinstance(error, ForeignObject):
        scope.problems.append(Problem(Reason.FOREIGN_OBJECT, str(error)))
    else:
        text = error.message if isinstance(error, ApiError) else str(error)
        scope.problems.append(Problem(Reason.APPLY_FAILED, text))
        scope.failures.append(error)


def build(manager: Manager, *, install: Installer, version: str) -> SuiteController:
    """Add the Quintet controller to a manager; `install` renders the objects of an installation."""
    builder = Builder(manager, "suite", QUINTETS, Quintet)
    definitions = builder.owns(CRDS, CrdView, state=is_established, labels=SELECTOR)
    # CRDs have no owner, but every change of one concerns the only Quintet.
    definitions.subscribe(handlers.enqueue(builder.queue, _to_only_key))
    stores: dict[Resource, Store[Child[Any]]] = {
        DEPLOYMENTS: builder.owns(DEPLOYMENTS, PartDeploymentView, state=rollout_of, labels=SELECTOR),
        VALIDATING: builder.owns(VALIDATING, WebhooksView, state=has_webhooks, labels=SELECTOR),
    }
    for each in OWNED:
        if each not in stores:
            stores[each] = builder.owns(each, labels=SELECTOR, everywhere=each.kind in IN_WATCHED_NAMESPACES)
    namespaces = builder.watches_reduced(
        NAMESPACES, Object, namespace_of, lambda _: (_ONLY_KEY,), is_relevant=_changes_scope
    )
    leaders = LeaderMonitor(builder.client, manager.clock, lambda: builder.queue.add(_ONLY_KEY))
    manager.add_background(leaders.run)
    controller = SuiteController(
        builder.client,
        builder.children,
        CrdWriter(builder.client, definitions, builder.writes),
        stores,
        namespaces,
        ProcessPods(builder),
        leaders,
        manager.clock,
        install,
        version,
    )
    builder.build(controller, workers=1)
    return controller


def _to_only_key(child: Child[Any]) -> Iterable[ObjectKey]:
    return (_ONLY_KEY,)
