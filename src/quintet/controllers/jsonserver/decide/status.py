"""Status of a JsonServer, from its observed children."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from quintet.apis.jsonserver import JsonServer, JsonServerStatus, State
from quintet.apis.jsonserver.types import PORT
from quintet.apis.meta import Condition, Struct, find_condition
from quintet.apis.text import truncate
from quintet.controllers.decide.causes import Cause, CauseReason, choose_cause
from quintet.controllers.jsonserver.decide.desired import address, config_hash, selector_labels

SYNCED, READY, VERIFIED = "Synced", "Ready", "Verified"
SUCCESS = "Synced successfully!"
NOT_A_JSON_OBJECT = "spec.jsonConfig is not a valid json object"
LONGEST_MESSAGE = 4096
_SEPARATOR = "; "
_VERIFY_SOON, _VERIFY_LATE = 1.0, 60.0


class Reason(StrEnum):
    """Reasons of conditions. What to do about each: docs/jsonserver.md."""

    APPLIED = "Applied"
    INVALID_CONFIG = "InvalidConfig"
    INVALID_OPTIONS = "InvalidOptions"
    INVALID_TEMPLATE = "InvalidTemplate"
    FOREIGN_OBJECT = "ForeignObject"
    APPLY_FAILED = "ApplyFailed"
    BEING_DELETED = "ChildBeingDeleted"
    AVAILABLE = "AllReplicasAvailable"
    SCALED_TO_ZERO = "ScaledToZero"
    ROLLING_OUT = "RollingOut"
    CRASH_LOOP = "DataNotServable"
    NOT_SYNCED = "NotSynced"
    DATA_EQUAL = "DataEqual"
    DATA_DIFFERS = "DataDiffers"
    UNREACHABLE = "Unreachable"
    NOT_READY = "NotReady"


class ReplicaCounts(Struct, frozen=True):
    """The fields that are read of a Deployment's status."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0


@dataclass(frozen=True, slots=True)
class DeploymentState:
    """The observed Deployment; generation 0 if there is none."""

    generation: int = 0
    status: ReplicaCounts = field(default_factory=ReplicaCounts)
    cause: Cause | None = None
    """Why it makes no progress, if its conditions tell."""

    def complete(self, replicas: int) -> bool:
        """Return whether all replicas are updated and available, and no old one is left."""
        status = self.status
        current = self.generation > 0 and status.observed_generation >= self.generation
        counts = (status.replicas, status.updated_replicas, status.available_replicas)
        return current and counts == (replicas, replicas, replicas)


@dataclass(frozen=True, slots=True)
class ServiceState:
    """Where the observed Service can be reached from outside the cluster."""

    node_port: int = 0
    address: str = ""
    """The address of its load balancer; empty until it has one."""

    @property
    def url(self) -> str:
        """The URL at the load balancer; empty if there is none."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{PORT}" if host else ""


@dataclass(frozen=True, slots=True)
class SyncProblem:
    """Why the children could not be brought to the desired state."""

    reason: Reason
    text: str
    detail: str = ""

    @property
    def full_text(self) -> str:
        """The text with its details."""
        return truncate(f"{self.text}: {self.detail}" if self.detail else self.text, LONGEST_MESSAGE)


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of reading the served data."""

    reason: Reason
    message: str


def status_of(
    server: JsonServer,
    problem: SyncProblem | None,
    rollout: DeploymentState,
    verification: Verification | None,
    doubts: Sequence[str],
    causes: Collection[Cause] = (),
    service: ServiceState | None = None,
) -> JsonServerStatus:
    """Return the status, without the transition times of its conditions.

    `causes` are those that the pods have.
    """
    ready = _ready_condition(server, problem, rollout, doubts, causes)
    return JsonServerStatus(
        state=State.ERROR if problem else State.SYNCED,
        message=truncate(f"Error: {problem.text}", LONGEST_MESSAGE) if problem else SUCCESS,
        observed_generation=server.metadata.generation,
        replicas=rollout.status.replicas,
        ready_replicas=rollout.status.ready_replicas,
        selector=",".join(f"{key}={value}" for key, value in selector_labels(server.metadata.name).items()),
        config_hash=server.status.config_hash if problem else config_hash(server.spec.json_config),
        url=address(server),
        external_url=service.url if service is not None else "",
        node_port=service.node_port if service is not None else 0,
        conditions=(_synced_condition(problem), ready, _verified_condition(server, ready, verification)),
    )


def _synced_condition(problem: SyncProblem | None) -> Condition:
    if problem is not None:
        return Condition(SYNCED, "False", problem.reason, problem.full_text)
    return Condition(SYNCED, "True", Reason.APPLIED, "ConfigMap, Service and Deployment are up to date")


def _ready_condition(
    server: JsonServer,
    problem: SyncProblem | None,
    rollout: DeploymentState,
    doubts: Sequence[str],
    causes: Collection[Cause],
) -> Condition:
    replicas, status = server.spec.replicas, rollout.status
    if problem is not None:
        return Condition(READY, "False", Reason.NOT_SYNCED, problem.full_text)
    if rollout.complete(replicas):
        if replicas == 0:
            return Condition(READY, "True", Reason.SCALED_TO_ZERO, "scaled to zero: there are no replicas")
        return Condition(READY, "True", Reason.AVAILABLE, f"{replicas} of {replicas} replicas serve the data")
    available = min(status.updated_replicas, status.available_replicas)
    progress = f"{available} of {replicas} replicas serve the data"
    cause = _cause(server, rollout, causes)
    if cause is None:
        return Condition(READY, "False", Reason.ROLLING_OUT, progress)
    reason, text = cause.reason.value, cause.message
    if doubts and status.available_replicas == 0 and cause.reason in _OF_THE_DATA:
        reason = Reason.CRASH_LOOP
        text = f"{text}{_SEPARATOR}json-server may be unable to serve the data: {'; '.join(doubts)}"
    return Condition(READY, "False", reason, truncate(f"{progress}{_SEPARATOR}{text}", LONGEST_MESSAGE))


# These may come from data that json-server cannot serve.
_OF_THE_DATA = (CauseReason.CRASH, CauseReason.DEADLINE)


def _cause(server: JsonServer, rollout: DeploymentState, causes: Collection[Cause]) -> Cause | None:
    """Return why replicas are missing; what the pods tell is more specific than what the Deployment tells."""
    known = find_condition(server.status.conditions, READY)
    found = causes or ([rollout.cause] if rollout.cause is not None else [])
    return choose_cause(found, known.reason if known else "", cause_text(known) if known else "")


def cause_text(ready: Condition) -> str:
    """Return the cause in the message of a Ready condition, without the progress before it."""
    return ready.message.partition(_SEPARATOR)[2]


def announces_cause(ready: Condition | None) -> bool:
    """Return whether a Ready condition tells why pods do not run."""
    reasons = {*CauseReason, Reason.CRASH_LOOP}
    return ready is not None and ready.status == "False" and ready.reason in reasons


def _verified_condition(server: JsonServer, ready: Condition, verification: Verification | None) -> Condition:
    if verification is not None:
        verdict = {Reason.DATA_EQUAL: "True", Reason.DATA_DIFFERS: "False"}.get(
            verification.reason, "Unknown"
        )
        return Condition(VERIFIED, verdict, verification.reason, verification.message)
    if ready.status != "True":
        return Condition(VERIFIED, "Unknown", Reason.NOT_READY, "waiting for all replicas to be ready")
    known = find_condition(server.status.conditions, VERIFIED)
    return known or Condition(VERIFIED, "Unknown", Reason.NOT_READY, "not verified yet")


def needs_verification(server: JsonServer, problem: SyncProblem | None, rollout: DeploymentState) -> bool:
    """Return whether to read the served data now: pods are ready and the data is not verified yet."""
    if problem is not None or server.spec.replicas == 0 or not rollout.complete(server.spec.replicas):
        return False
    known = find_condition(server.status.conditions, VERIFIED)
    same_data = server.status.config_hash == config_hash(server.spec.json_config)
    return (
        known is None
        or known.status != "True"
        or not same_data
        or known.observed_generation != server.metadata.generation
    )


def verification_delay(server: JsonServer, now: datetime) -> float:
    """Return the seconds until the served data is read again after a failed verification.

    Right after a rollout the Service may have no endpoints yet, or lead to a terminating pod. The longer the
    pods have been ready, the less likely a retry succeeds.
    """
    ready = find_condition(server.status.conditions, READY)
    if ready is None or ready.status != "True":
        return _VERIFY_SOON
    age = (now - datetime.fromisoformat(ready.last_transition_time)).total_seconds()
    return min(max(age, _VERIFY_SOON), _VERIFY_LATE)
