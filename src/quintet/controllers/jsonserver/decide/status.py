"""Status of a JsonServer, from its observed children."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from quintet.apis.jsonserver import JsonServer, JsonServerStatus, State
from quintet.apis.meta import Condition, Struct, find_condition
from quintet.controllers.jsonserver.decide.desired import address, config_hash, selector_labels

SYNCED, READY, VERIFIED = "Synced", "Ready", "Verified"
SUCCESS = "Synced successfully!"
NOT_A_JSON_OBJECT = "spec.jsonConfig is not a valid json object"
_VERIFY_SOON, _VERIFY_LATE = 1.0, 60.0


class Reason(StrEnum):
    """Reasons of conditions. What to do about each: docs/jsonserver.md."""

    APPLIED = "Applied"
    INVALID_CONFIG = "InvalidConfig"
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

    def complete(self, replicas: int) -> bool:
        """Return whether all replicas are updated and available, and no old one is left."""
        status = self.status
        current = self.generation > 0 and status.observed_generation >= self.generation
        counts = (status.replicas, status.updated_replicas, status.available_replicas)
        return current and counts == (replicas, replicas, replicas)


@dataclass(frozen=True, slots=True)
class SyncProblem:
    """Why the children could not be brought to the desired state."""

    reason: Reason
    text: str
    detail: str = ""

    @property
    def full_text(self) -> str:
        """The text with its details."""
        return f"{self.text}: {self.detail}" if self.detail else self.text


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
) -> JsonServerStatus:
    """Return the status, without the transition times of its conditions."""
    ready = _ready_condition(server, problem, rollout, doubts)
    return JsonServerStatus(
        state=State.ERROR if problem else State.SYNCED,
        message=f"Error: {problem.text}" if problem else SUCCESS,
        observed_generation=server.metadata.generation,
        replicas=rollout.status.replicas,
        ready_replicas=rollout.status.ready_replicas,
        selector=",".join(f"{key}={value}" for key, value in selector_labels(server.metadata.name).items()),
        config_hash=server.status.config_hash if problem else config_hash(server.spec.json_config),
        url=address(server),
        conditions=(_synced_condition(problem), ready, _verified_condition(server, ready, verification)),
    )


def _synced_condition(problem: SyncProblem | None) -> Condition:
    if problem is not None:
        return Condition(SYNCED, "False", problem.reason, problem.full_text)
    return Condition(SYNCED, "True", Reason.APPLIED, "ConfigMap, Service and Deployment are up to date")


def _ready_condition(
    server: JsonServer, problem: SyncProblem | None, rollout: DeploymentState, doubts: Sequence[str]
) -> Condition:
    replicas, status = server.spec.replicas, rollout.status
    if problem is not None:
        return Condition(READY, "False", Reason.NOT_SYNCED, problem.full_text)
    if rollout.complete(replicas):
        if replicas == 0:
            return Condition(READY, "True", Reason.SCALED_TO_ZERO, "scaled to zero: there are no replicas")
        return Condition(READY, "True", Reason.AVAILABLE, f"{replicas} of {replicas} replicas serve the data")
    progress = (
        f"{min(status.updated_replicas, status.available_replicas)} of {replicas} replicas serve the data"
    )
    if doubts and status.available_replicas == 0:
        text = f"{progress}; json-server may be unable to serve it: {'; '.join(doubts)}"
        return Condition(READY, "False", Reason.CRASH_LOOP, text)
    return Condition(READY, "False", Reason.ROLLING_OUT, progress)


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
