"""Jobs and pods of checkup runs as they are observed, and why a pod does not run."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from quintet.apis.checkup.contract import CONTAINER, RUN_LABEL, UID_LABEL
from quintet.apis.checkup.evidence import ContainerState
from quintet.apis.meta import Object, Struct
from quintet.apis.text import truncate
from quintet.controllers.checkup.decide.timing import parse_time


class JobCondition(Struct, frozen=True):
    """The fields that are read of a Job's condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobStatus(Struct, frozen=True):
    """The fields that are read of a Job's status."""

    completion_time: str | None = None
    conditions: tuple[JobCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class JobState:
    """The cached part of a Job."""

    deadline: int = 0
    created: datetime | None = None
    succeeded: bool | None = None
    """None until the Job has finished."""
    reason: str = ""
    message: str = ""
    ended: datetime | None = None


def job_state(deadline: int, created: str | None, status: JobStatus) -> JobState:
    """Return the cached part of a Job."""
    for condition in status.conditions:
        if condition.status == "True" and condition.type in ("Complete", "Failed"):
            succeeded = condition.type == "Complete"
            ended = parse_time((succeeded and status.completion_time) or condition.last_transition_time)
            return JobState(
                deadline, parse_time(created), succeeded, condition.reason, condition.message, ended
            )
    return JobState(deadline, parse_time(created))


class _Waiting(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Running(Struct, frozen=True):
    started_at: str | None = None


class _Terminated(Struct, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None


class _State(Struct, frozen=True):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class ContainerStatus(Struct, frozen=True):
    """The fields that are read of a container status."""

    name: str = ""
    state: _State = _State()

    @property
    def has_started(self) -> bool:
        """Whether the container has a log."""
        return self.state.running is not None or self.state.terminated is not None

    @property
    def description(self) -> ContainerState:
        """The state as a text for the status."""
        return ContainerState(self.name, truncate(_describe_state(self.state), 1024))


class PodCondition(Struct, frozen=True):
    """The fields that are read of a pod's condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Struct, frozen=True):
    """The fields that are read of a pod's status."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class PodSpec(Struct, frozen=True):
    """The fields that are read of a pod's spec."""

    node_name: str = ""


class CheckupPod(Object, frozen=True):
    """The pod of a run."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def checkup_uid(self) -> str:
        """Uid of the Checkup, from the pod's label."""
        return self.metadata.labels.get(UID_LABEL, "")

    @property
    def run(self) -> str:
        """Number of the run, from the pod's label."""
        return self.metadata.labels.get(RUN_LABEL, "")

    @property
    def has_ended(self) -> bool:
        """Whether the pod has succeeded or failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def as_of_job(self) -> JobState:
        """The state that the Job of a finished pod will reach: it creates no other pod."""
        return JobState(succeeded=self.status.phase == "Succeeded")

    @property
    def containers(self) -> tuple[ContainerStatus, ...]:
        """Init containers, then containers."""
        return (*self.status.init_container_statuses, *self.status.container_statuses)

    @property
    def checkup(self) -> ContainerStatus | None:
        """The checkup container."""
        found = (status for status in self.status.container_statuses if status.name == CONTAINER)
        return next(found, None)

    @property
    def running_since(self) -> datetime | None:
        """Start time of the checkup container, if it started."""
        state = self.checkup.state if self.checkup is not None else _State()
        if state.running is not None:
            return parse_time(state.running.started_at)
        began = parse_time(state.terminated.started_at) if state.terminated is not None else None
        # A container that could not be started reports a start time in 1970.
        return began if began is not None and began.timestamp() > 0 else None

    def made_by(self, job_uid: str) -> bool:
        """Return whether the Job controls the pod."""
        return any(owner.controller and owner.uid == job_uid for owner in self.metadata.owner_references)


class ObstacleReason(StrEnum):
    """Why a checkup does not run. What to do about each: docs/checkup.md."""

    NO_SERVICE_ACCOUNT = "ServiceAccountMissing"
    FOREIGN_OBJECT = "ForeignObject"
    SETUP_REFUSED = "SetupRefused"
    SETUP_FAILED = "SetupFailed"
    INVALID_TEMPLATE = "InvalidTemplate"
    NO_POD = "PodNotCreated"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE = "ImagePullFailed"
    CONTAINER = "ContainerNotStarted"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What prevents a checkup from running."""

    reason: ObstacleReason
    message: str
    lasting: bool = False
    """Whether waiting is pointless, because the spec is immutable."""


_IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "ImageInspectError",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_ON_THE_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})


def obstacle(pod: CheckupPod) -> Obstacle | None:
    """Return why the checkup container does not run, if a reason is known."""
    for container in pod.containers:
        waiting = container.state.waiting
        if waiting is None or waiting.reason in _ON_THE_WAY:
            continue
        detail = f"container {container.name}: {waiting.reason}"
        detail = f"{detail}: {waiting.message}" if waiting.message else detail
        if waiting.reason in _IMAGE_REASONS:
            return Obstacle(ObstacleReason.IMAGE, detail, lasting=waiting.reason == "InvalidImageName")
        return Obstacle(ObstacleReason.CONTAINER, detail)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            detail = condition.message or condition.reason
            return Obstacle(
                ObstacleReason.UNSCHEDULABLE, f"pod {pod.metadata.name} cannot be scheduled: {detail}"
            )
    return None


def _describe_state(state: _State) -> str:
    if (ended := state.terminated) is not None:
        parts = (f"ended with exit code {ended.exit_code}", ended.reason, ended.message)
    elif (waiting := state.waiting) is not None:
        parts = ("waiting", waiting.reason, waiting.message)
    elif state.running is not None:
        parts = ("running", f"since {state.running.started_at}", "")
    else:
        parts = ("unknown", "", "")
    return ": ".join(part for part in parts if part)
