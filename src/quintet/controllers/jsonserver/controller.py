"""Reconciles JsonServers: validate the data, apply the children, read the data back, compute the status."""

from collections.abc import Awaitable, Iterable
from typing import Any

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.jsonserver import JSONSERVERS, JsonServer, JsonServerStatus, State, jsonconfig
from quintet.apis.jsonserver.types import FINALIZER
from quintet.apis.jsonserver.validation import config_errors, template_errors
from quintet.apis.meta import Condition, JsonObject, Resource
from quintet.clock import Clock
from quintet.controllers.child_results import gather_children, is_blocked_by_others, is_transient
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.jsonserver.decide.status import (
    NOT_A_JSON_OBJECT,
    DeploymentState,
    Reason,
    ReplicaCounts,
    SyncProblem,
    Verification,
    needs_verification,
    status_of,
    verification_delay,
)
from quintet.controllers.jsonserver.served_data import ReadData
from quintet.kube.errors import ApiError
from quintet.runtime.apply import Children, ForeignObject
from quintet.runtime.builder import Builder
from quintet.runtime.events import NORMAL, WARNING, Event
from quintet.runtime.manager import Manager
from quintet.runtime.ownership import Child, View
from quintet.runtime.reconcile import Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler

# No watch reports that a foreign object is gone, so the controller polls.
_POLL_SECONDS = 10.0


class DeploymentView(View, frozen=True):
    """The fields of a Deployment that the controller reads."""

    status: ReplicaCounts = ReplicaCounts()


class JsonServerController(ObjectReconciler[JsonServer]):
    """Reconciles JsonServers."""

    finalizer = FINALIZER

    def __init__(self, children: Children, clock: Clock, image: str, read_back: ReadData) -> None:
        self._children = children
        self._clock = clock
        self._image = image
        self._read_back = read_back

    async def reconcile(self, server: JsonServer, context: Context[JsonServer]) -> Outcome:
        problem, failures = _config_problem(server) or _template_problem(server), list[Exception]()
        rollout = DeploymentState()
        if problem is None:
            problem, rollout, failures = await self._apply(server, context.failures)
        verification = None
        if needs_verification(server, problem, rollout):
            verification = await self._verify(server)
        stuck = _has_no_serving_pod(server, problem, rollout)
        doubts = jsonconfig.validate_data(server.spec.json_config).warnings if stuck else ()
        status = status_of(server, problem, rollout, verification, doubts)
        return Outcome(status, self._requeue_after(server, problem, verification), failures)

    async def finalize(self, server: JsonServer, context: Context[JsonServer]) -> Outcome | None:
        types = (desired.DEPLOYMENTS, desired.SERVICES, desired.CONFIG_MAPS)
        gone = [await self._children.remove(server, kind, server.metadata.name) for kind in types]
        # The deletion of each child requeues the key; the delay is for one that the watch misses.
        return None if all(gone) else Outcome(requeue_after=_POLL_SECONDS)

    def events(
        self, server: JsonServer, before: JsonServerStatus, after: JsonServerStatus
    ) -> Iterable[Event]:
        """Return an Event for each new problem and for its end; a success from the start needs none."""
        if after.message == before.message or State.ERROR not in (before.state, after.state):
            return ()
        synced = after.conditions[0]
        kind = WARNING if after.state is State.ERROR else NORMAL
        return (Event(kind, synced.reason, after.message),)

    def failed_status(self, status: JsonServerStatus, ready: Condition) -> JsonServerStatus:
        return msgspec.structs.replace(status, state=State.ERROR, message=f"Error: {ready.message}")

    async def _apply(
        self, server: JsonServer, failures: int
    ) -> tuple[SyncProblem | None, DeploymentState, list[Exception]]:
        # The ConfigMap first: pods that start before it is updated would serve the previous data.
        results = await gather_children(self._ensure(server, desired.CONFIG_MAPS, desired.config_map(server)))
        if not isinstance(results[0], Exception):
            results += await gather_children(
                self._ensure(server, desired.SERVICES, desired.service(server)),
                self._ensure(server, desired.DEPLOYMENTS, desired.deployment(server, self._image)),
            )
        errors = [result for result in results if isinstance(result, Exception)]
        children = [result for result in results if isinstance(result, Child)]
        rollout = children[-1].state if len(children) == 3 else DeploymentState()
        reported = [error for error in errors if not is_transient(error, failures)]
        if errors and not reported:
            raise ExceptionGroup(f"JsonServer {server.key}", errors)
        retried = [error for error in errors if not is_blocked_by_others(error)]
        return _problem(reported, children), rollout, retried

    def _ensure(self, server: JsonServer, resource: Resource, body: JsonObject) -> Awaitable[Child[Any]]:
        return self._children.ensure(server, resource, body)

    async def _verify(self, server: JsonServer) -> Verification:
        url = f"{desired.address(server)}/db"
        served, trouble = await self._read_back(url)
        if served is None:
            return Verification(Reason.UNREACHABLE, f"{url} could not be read by the controller: {trouble}")
        if _same_data(served, server.spec.json_config):
            return Verification(Reason.DATA_EQUAL, f"{url} serves the data of the spec")
        return Verification(Reason.DATA_DIFFERS, f"{url} serves data that differs from the spec")

    def _requeue_after(
        self, server: JsonServer, problem: SyncProblem | None, verification: Verification | None
    ) -> float | None:
        if problem is not None and problem.reason is Reason.FOREIGN_OBJECT:
            return _POLL_SECONDS
        if verification is not None and verification.reason is not Reason.DATA_EQUAL:
            return verification_delay(server, self._clock.now())
        return None


def _config_problem(server: JsonServer) -> SyncProblem | None:
    config = server.spec.json_config
    if server.status.config_hash == desired.config_hash(config):
        return None  # validated before; parsing up to a mebibyte again would be slow
    errors = jsonconfig.validate_data(config).errors
    return SyncProblem(Reason.INVALID_CONFIG, NOT_A_JSON_OBJECT, str(errors[0])) if errors else None


def _template_problem(server: JsonServer) -> SyncProblem | None:
    """Validate the template again: an object that bypassed the webhooks must not gain permissions by it."""
    spec = server.spec
    errors = template_errors(msgspec.to_builtins(spec.template), server.metadata.name)
    if spec.cas_config is not None:
        errors += config_errors(msgspec.to_builtins(spec.cas_config))
    return SyncProblem(Reason.INVALID_TEMPLATE, "; ".join(map(str, errors))) if errors else None


def _problem(errors: list[Exception], children: list[Child[Any]]) -> SyncProblem | None:
    for error in errors:
        if isinstance(error, ForeignObject):
            return SyncProblem(Reason.FOREIGN_OBJECT, str(error))
        text = error.message if isinstance(error, ApiError) else str(error)
        return SyncProblem(Reason.APPLY_FAILED, text)
    if any(child.deleting for child in children):
        return SyncProblem(
            Reason.BEING_DELETED, "a child is still being deleted; it is created again once it is gone"
        )
    return None


def _has_no_serving_pod(server: JsonServer, problem: SyncProblem | None, rollout: DeploymentState) -> bool:
    """Return whether there are pods, but none is available."""
    desires_pods = problem is None and server.spec.replicas > 0
    return desires_pods and rollout.status.replicas > 0 and rollout.status.available_replicas == 0


def _same_data(served: bytes, config: str) -> bool:
    try:
        return bool(msgspec.json.decode(served) == msgspec.json.decode(config))
    except DECODE_ERRORS:
        return False


def build(manager: Manager, *, image: str, read_back: ReadData, workers: int = 8) -> JsonServerController:
    """Add the JsonServer controller to a manager."""
    builder = Builder(manager, "jsonserver", JSONSERVERS, JsonServer)
    builder.owns(desired.CONFIG_MAPS, labels=desired.SELECTOR)
    builder.owns(desired.SERVICES, labels=desired.SELECTOR)
    builder.owns(
        desired.DEPLOYMENTS,
        DeploymentView,
        state=lambda view: DeploymentState(view.metadata.generation, view.status),
        labels=desired.SELECTOR,
    )
    controller = JsonServerController(builder.children, builder.clock, image, read_back)
    builder.build(controller, workers=workers)
    return controller
