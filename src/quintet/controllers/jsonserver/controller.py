"""Reconciles JsonServers: validate the data, apply the children, read the data back, compute the status."""

from collections.abc import Awaitable, Iterable
from typing import Any

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.jsonserver import JSONSERVERS, JsonServer, JsonServerStatus, State, jsonconfig
from quintet.apis.jsonserver.options import option_errors
from quintet.apis.jsonserver.types import FINALIZER
from quintet.apis.jsonserver.validation import config_errors, template_errors
from quintet.apis.meta import Condition, JsonObject, Resource, Struct, find_condition
from quintet.apis.text import truncate
from quintet.clock import Clock
from quintet.controllers.child_results import gather_children, is_blocked_by_others, is_transient
from quintet.controllers.decide.causes import DeploymentCondition, cause_of_deployment
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.jsonserver.decide.status import (
    LONGEST_MESSAGE,
    NOT_A_JSON_OBJECT,
    READY,
    DeploymentState,
    Reason,
    ReplicaCounts,
    ServiceState,
    SyncProblem,
    Verification,
    announces_cause,
    cause_text,
    needs_verification,
    status_of,
    verification_delay,
)
from quintet.controllers.jsonserver.pods import ServerPods
from quintet.controllers.jsonserver.served_data import ReadData
from quintet.kube.errors import ApiError
from quintet.runtime.apply import Children, ForeignObject
from quintet.runtime.builder import Builder
from quintet.runtime.events import NORMAL, WARNING, Event
from quintet.runtime.manager import Manager
from quintet.runtime.ownership import Child, View, belongs_to
from quintet.runtime.reconcile import Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler

# No watch reports that a foreign object is gone, so the controller polls.
_POLL_SECONDS = 10.0


class _DeploymentStatus(ReplicaCounts, frozen=True):
    conditions: tuple[DeploymentCondition, ...] = ()


class DeploymentView(View, frozen=True):
    """The fields of a Deployment that the controller reads."""

    status: _DeploymentStatus = _DeploymentStatus()

    @property
    def state(self) -> DeploymentState:
        """The cached part of the Deployment."""
        status = self.status
        counts = ReplicaCounts(
            status.observed_generation,
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.available_replicas,
        )
        return DeploymentState(self.metadata.generation, counts, cause_of_deployment(status.conditions))


class _ServicePort(Struct, frozen=True):
    node_port: int = 0


class _ServiceSpec(Struct, frozen=True):
    ports: tuple[_ServicePort, ...] = ()


class _Ingress(Struct, frozen=True):
    ip: str = ""
    hostname: str = ""


class _LoadBalancer(Struct, frozen=True):
    ingress: tuple[_Ingress, ...] = ()


class _ServiceStatus(Struct, frozen=True):
    load_balancer: _LoadBalancer = _LoadBalancer()


class ServiceView(View, frozen=True):
    """The fields of a Service that the controller reads."""

    spec: _ServiceSpec = _ServiceSpec()
    status: _ServiceStatus = _ServiceStatus()

    @property
    def state(self) -> ServiceState:
        """The cached part of the Service."""
        port = next(iter(self.spec.ports), _ServicePort()).node_port
        first = next(iter(self.status.load_balancer.ingress), _Ingress())
        return ServiceState(port, first.hostname or first.ip)


class JsonServerController(ObjectReconciler[JsonServer]):
    """Reconciles JsonServers."""

    finalizer = FINALIZER

    def __init__(
        self, children: Children, pods: ServerPods, clock: Clock, image: str, read_back: ReadData
    ) -> None:
        self._children = children
        self._pods = pods
        self._clock = clock
        self._image = image
        self._read_back = read_back

    async def reconcile(self, server: JsonServer, context: Context[JsonServer]) -> Outcome:
        problem, failures = _config_problem(server) or _pod_problem(server), list[Exception]()
        if problem is None:
            problem, failures = await self._apply(server, context)
        rollout = self._rollout(server)
        verification = None
        if needs_verification(server, problem, rollout):
            verification = await self._verify(server)
        stuck = _has_no_serving_pod(server, problem, rollout)
        doubts = (
            jsonconfig.validate_data(server.spec.json_config, server.spec.id_field).warnings if stuck else ()
        )
        causes = self._pods.causes(server.key)
        reach = self._reach(server)
        status = status_of(server, problem, rollout, verification, doubts, causes, reach)
        return Outcome(status, self._requeue_after(server, problem, verification), failures)

    async def finalize(self, server: JsonServer, context: Context[JsonServer]) -> Outcome | None:
        types = (desired.DEPLOYMENTS, desired.SERVICES, desired.CONFIG_MAPS)
        gone = [await self._children.remove(server, kind, server.metadata.name) for kind in types]
        # The deletion of each child requeues the key; the delay is for one that the watch misses.
        return None if all(gone) else Outcome(requeue_after=_POLL_SECONDS)

    def events(
        self, server: JsonServer, before: JsonServerStatus, after: JsonServerStatus
    ) -> Iterable[Event]:
        """Return an Event for each new problem or cause, and for its end."""
        old, new = find_condition(before.conditions, READY), find_condition(after.conditions, READY)
        if after.message != before.message and State.ERROR in (before.state, after.state):
            synced = after.conditions[0]
            kind = WARNING if after.state is State.ERROR else NORMAL
            yield Event(kind, synced.reason, after.message)
        if new is None or (old is not None and _reported_cause(old) == _reported_cause(new)):
            return
        if announces_cause(new):
            yield Event(WARNING, new.reason, cause_text(new))
        elif announces_cause(old) and new.status == "True":
            yield Event(NORMAL, new.reason, new.message)

    def failed_status(self, status: JsonServerStatus, ready: Condition) -> JsonServerStatus:
        message = truncate(f"Error: {ready.message}", LONGEST_MESSAGE)
        return msgspec.structs.replace(status, state=State.ERROR, message=message)

    def _rollout(self, server: JsonServer) -> DeploymentState:
        """Return the Deployment as it is; also if the children cannot be brought to the desired state."""
        child = self._children.get(desired.DEPLOYMENTS, server.key)
        if child is None or not belongs_to(child, server):
            return DeploymentState()
        state: DeploymentState = child.state
        return state

    def _reach(self, server: JsonServer) -> ServiceState | None:
        """Return where the Service is, as it is."""
        child = self._children.get(desired.SERVICES, server.key)
        if child is None or not belongs_to(child, server):
            return None
        state: ServiceState = child.state
        return state

    async def _apply(
        self, server: JsonServer, context: Context[JsonServer]
    ) -> tuple[SyncProblem | None, list[Exception]]:
        self._record_deleted_children(server, context)
        # The ConfigMap first: pods that start before it is updated would serve the previous data.
        results = await gather_children(self._ensure(server, desired.CONFIG_MAPS, desired.config_map(server)))
        if not isinstance(results[0], Exception):
            results += await gather_children(
                self._ensure(server, desired.SERVICES, desired.service(server)),
                self._ensure(server, desired.DEPLOYMENTS, desired.deployment(server, self._image)),
            )
        errors = [result for result in results if isinstance(result, Exception)]
        children = [result for result in results if isinstance(result, Child)]
        reported = [error for error in errors if not is_transient(error, context.failures)]
        if errors and not reported:
            raise ExceptionGroup(f"JsonServer {server.key}", errors)
        retried = [error for error in errors if not is_blocked_by_others(error)]
        return _problem(reported, children), retried

    def _record_deleted_children(self, server: JsonServer, context: Context[JsonServer]) -> None:
        """Record an Event for each child that somebody deleted."""
        status = server.status
        if status.state is not State.SYNCED or status.observed_generation != server.metadata.generation:
            return  # not all children have existed yet
        for kind in (desired.CONFIG_MAPS, desired.SERVICES, desired.DEPLOYMENTS):
            if self._children.get(kind, server.key) is None:
                note = f"{kind.kind} {server.key.name} was deleted by another client and is created again"
                context.record(Event(NORMAL, "Recreated", note))

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


def _pod_problem(server: JsonServer) -> SyncProblem | None:
    """Validate what shapes the pods again: an object that bypassed the webhooks must gain no permissions."""
    spec = server.spec
    if errors := option_errors(msgspec.to_builtins(spec)):
        return SyncProblem(Reason.INVALID_OPTIONS, "; ".join(map(str, errors)))
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


def _reported_cause(ready: Condition) -> tuple[str, str]:
    return (ready.reason, cause_text(ready)) if announces_cause(ready) else (ready.status, "")


def _same_data(served: bytes, config: str) -> bool:
    try:
        return bool(msgspec.json.decode(served) == msgspec.json.decode(config))
    except DECODE_ERRORS:
        return False


def build(manager: Manager, *, image: str, read_back: ReadData, workers: int = 8) -> JsonServerController:
    """Add the JsonServer controller to a manager."""
    builder = Builder(manager, "jsonserver", JSONSERVERS, JsonServer)
    builder.owns(desired.CONFIG_MAPS, labels=desired.SELECTOR)
    builder.owns(desired.SERVICES, ServiceView, state=lambda view: view.state, labels=desired.SELECTOR)
    builder.owns(
        desired.DEPLOYMENTS,
        DeploymentView,
        state=lambda view: view.state,
        labels=desired.SELECTOR,
    )
    pods = ServerPods(builder, manager)
    controller = JsonServerController(builder.children, pods, builder.clock, image, read_back)
    builder.build(controller, workers=workers)
    return controller
