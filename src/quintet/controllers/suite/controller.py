"""Brings the parts of an installation to what the Quintet says, and writes down how that went.

Called by `runtime.controller`. The phases: definitions first, and a change that could harm objects is
refused → policies, rights and addresses → what is no longer wanted goes → Deployments, one at a time →
status. Nothing is rolled out while a phase before it has failed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from quintet.apis.meta import JsonObject, ObjectKey, Resource, Struct
from quintet.apis.suite import NAME, QUINTETS, Quintet, QuintetStatus
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
    OWNED,
    SELECTOR,
    VALIDATING,
    WEBHOOKS,
    Installation,
    Installer,
    key_of,
    resource_of,
)
from quintet.controllers.suite.decide.rollout import DeploymentStatus, Rollout, fallbacks
from quintet.controllers.suite.decide.status import DEGRADED, InstallationState, Problem, Reason, status_of
from quintet.controllers.suspension import unless_suspended
from quintet.kube.errors import ApiError, KubeError, WriteFenced
from quintet.runtime import conditions, handlers
from quintet.runtime.apply import ForeignObject
from quintet.runtime.builder import Builder
from quintet.runtime.cache import Store
from quintet.runtime.events import NORMAL, WARNING
from quintet.runtime.manager import Manager
from quintet.runtime.ownership import Child, View
from quintet.runtime.reconcile import Result

# Nobody tells us when a foreign object goes away, or that a definition was made to fit by hand.
_LOOK_AGAIN = 30.0
_THE_ONE = ObjectKey("", NAME)


class _Container(Struct, frozen=True):
    image: str = ""


class _PodSpec(Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Template(Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _DeploymentSpec(Struct, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class DeploymentView(View, frozen=True):
    """What is read of a Deployment."""

    spec: _DeploymentSpec = _DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class WebhooksView(View, frozen=True):
    """What is read of a webhook configuration."""

    webhooks: tuple[Struct, ...] = ()


def rollout_of(view: DeploymentView) -> Rollout:
    """How a Deployment is doing."""
    containers = view.spec.template.spec.containers
    image = containers[0].image if containers else ""
    return Rollout(view.metadata.generation, image, view.spec.replicas, view.status)


def is_registered(view: WebhooksView) -> bool:
    """Whether the API server asks anybody."""
    return bool(view.webhooks)


@dataclass(slots=True)
class _Scope:
    """What one reconciliation finds out on its way."""

    quintet: Quintet
    made: Installation
    back: dict[str, str]
    failed_images: dict[str, str]
    tried: int
    """How often in a row this has failed before."""
    problems: list[Problem] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    removing: list[str] = field(default_factory=list)
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)


class SuiteController:
    """Reconciles the Quintet."""

    def __init__(
        self,
        builder: Builder[Quintet],
        definitions: CrdWriter,
        stores: dict[Resource, Store[Child[Any]]],
        install: Installer,
        version: str,
    ) -> None:
        self._builder = builder
        self._definitions = definitions
        self._stores = stores
        self._install = install
        self._version = version

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at the Quintet and do what is missing."""
        quintet = self._builder.primary.get(key)
        # What it owns goes with it; nothing of it has to be asked for.
        if quintet is None or quintet.metadata.deleting or key != _THE_ONE:
            return Result.done()
        scope = self._look(quintet)
        await self._define(scope)
        if not (scope.problems or scope.waiting):
            await self._prepare(scope)
        if not (scope.problems or scope.waiting or scope.removing):
            await self._clean_up(scope)
            await self._roll_out(scope)
        await self._write_status(scope)
        if scope.failures:
            raise ExceptionGroup("Quintet", scope.failures)
        return Result.after(_LOOK_AGAIN) if scope.problems else Result.done()

    def _look(self, quintet: Quintet) -> _Scope:
        wanted = self._install(quintet.spec, {})
        rollouts = {}
        for part in wanted.parts:
            child = self._stores[DEPLOYMENTS].get(key_of(part.deployment))
            if child is not None:
                rollouts[part.name] = child.state
        back = fallbacks(quintet, wanted.parts, rollouts)
        images = {name: part.image for part in wanted.parts for name in part.controllers if name in back}
        made = self._install(quintet.spec, back) if back else wanted
        tried = self._builder.queue.failures[quintet.key]
        return _Scope(quintet, made, back, images, tried, rollouts=rollouts)

    async def _define(self, scope: _Scope) -> None:
        for body in scope.made.definitions:
            try:
                if not await self._definitions.ensure(scope.quintet.key, body):
                    scope.waiting.append(key_of(body).name)
            except (KubeError, UnsafeCrdChange) as error:
                _note(scope, error)

    async def _prepare(self, scope: _Scope) -> None:
        for body in (*scope.made.policies, *(each for part in scope.made.parts for each in part.objects)):
            try:
                if resource_of(body) in WEBHOOKS:
                    # The controller fills it in: only that it is there, and goes with us, is ours.
                    child = await self._builder.children.create(scope.quintet, resource_of(body), body)
                else:
                    child = await self._ensure(scope.quintet, body)
                if child.deleting:
                    scope.removing.append(f"{body['kind']} {child.key}")  # made again when it is gone
            except (KubeError, ForeignObject) as error:
                _note(scope, error)

    async def _clean_up(self, scope: _Scope) -> None:
        """Remove what is no longer wanted: Deployments first, and what they need once their pods are gone."""
        stale = list(self._stale(scope))
        workloads = [each for each in stale if each[0] == DEPLOYMENTS]
        how = "Foreground" if workloads else "Background"
        for resource, key in workloads or reversed(stale):
            try:
                gone = await self._builder.children.remove(scope.quintet, resource, key, propagation=how)
            except KubeError as error:
                _note(scope, error)
                continue
            if not gone:
                scope.removing.append(f"{resource.kind} {key}")
        if workloads and not scope.removing:
            scope.removing += [f"{resource.kind} {key}" for resource, key in stale if resource != DEPLOYMENTS]

    def _stale(self, scope: _Scope) -> Iterable[tuple[Resource, ObjectKey]]:
        parts = [each for part in scope.made.parts for each in (*part.objects, part.deployment)]
        wanted = {(resource_of(body), key_of(body)) for body in (*scope.made.policies, *parts)}
        for resource in OWNED:
            for child in self._stores[resource]:
                ours = child.owner_uid == scope.quintet.metadata.uid
                if ours and (resource, child.key) not in wanted:
                    yield resource, child.key

    async def _roll_out(self, scope: _Scope) -> None:
        """Change one Deployment at a time; new ones are made at once, but never beside what they replace."""
        held = False
        for part in scope.made.parts:
            there = part.name in scope.rollouts
            if held if there else self._stale_workloads(scope):
                continue
            try:
                child = await self._ensure(scope.quintet, part.deployment)
            except (KubeError, ForeignObject) as error:
                _note(scope, error)
                continue
            scope.rollouts[part.name] = child.state
            held = held or (there and child.state.moving)

    def _stale_workloads(self, scope: _Scope) -> bool:
        return any(each.startswith(f"{DEPLOYMENTS.kind} ") for each in scope.removing)

    async def _ensure(self, quintet: Quintet, body: JsonObject) -> Child[Any]:
        return await self._builder.children.ensure(quintet, resource_of(body), body)

    async def _write_status(self, scope: _Scope) -> None:
        quintet = scope.quintet
        seen = InstallationState(
            scope.rollouts,
            tuple(scope.problems),
            tuple(scope.waiting),
            tuple(scope.removing),
            self._unregistered(scope.made),
            scope.back,
            scope.failed_images,
        )
        wanted = status_of(quintet, scope.made, seen, self._version)
        now = self._builder.clock.now()
        merged = conditions.merged(
            quintet.status.conditions, wanted.conditions, quintet.metadata.generation, now
        )
        status = msgspec.structs.replace(wanted, conditions=merged)
        if await self._builder.status.write(quintet, quintet.status, status):
            self._announce(quintet, status)

    def _unregistered(self, made: Installation) -> frozenset[str]:
        store = self._stores[VALIDATING]
        awaited = ((part.name, store.get(part.webhooks)) for part in made.parts if part.webhooks)
        return frozenset(name for name, child in awaited if child is None or not child.state)

    def _announce(self, quintet: Quintet, status: QuintetStatus) -> None:
        """Tell of trouble and of its end."""
        old, new = (
            next((each for each in found.conditions if each.type == DEGRADED), None)
            for found in (quintet.status, status)
        )
        if new is None or (old is None and new.status == "False"):
            return
        if old is None or (old.status, old.message) != (new.status, new.message):
            kind = WARNING if new.status == "True" else NORMAL
            uid = quintet.metadata.uid
            self._builder.events.record(QUINTETS, quintet.key, uid, kind, new.reason, new.message)


def _note(scope: _Scope, error: Exception) -> None:
    """Write down what went wrong; what others have to mend is not tried again at once."""
    if isinstance(error, WriteFenced) or is_transient(error, scope.tried):
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
    """Wire the controller into a process; `install` is what `manifests.installation` makes."""
    builder = Builder(manager, "suite", QUINTETS, Quintet)
    definitions = builder.owns(CRDS, CrdView, state=is_established, labels=SELECTOR)
    # They have no owner, and still matter to the only one that there is.
    definitions.subscribe(handlers.enqueue(builder.queue, _to_the_one))
    stores: dict[Resource, Store[Child[Any]]] = {
        DEPLOYMENTS: builder.owns(DEPLOYMENTS, DeploymentView, state=rollout_of, labels=SELECTOR),
        VALIDATING: builder.owns(VALIDATING, WebhooksView, state=is_registered, labels=SELECTOR),
    }
    stores |= {each: builder.owns(each, labels=SELECTOR) for each in OWNED if each not in stores}
    kept = CrdWriter(builder.client, definitions, builder.writes)
    controller = SuiteController(builder, kept, stores, install, version)
    builder.build(unless_suspended(builder, controller.reconcile), workers=1)
    return controller


def _to_the_one(child: Child[Any]) -> Iterable[ObjectKey]:
    return (_THE_ONE,)
