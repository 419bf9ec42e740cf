"""Jobs and pods of checkup runs as they are observed, and why a pod does not run."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from quintet.apis.checkup.contract import CONTAINER, RUN_LABEL, UID_LABEL
from quintet.apis.checkup.evidence import ContainerState
from quintet.apis.meta import Struct
from quintet.apis.text import truncate
from quintet.controllers.checkup.decide.timing import parse_time
from quintet.controllers.decide.causes import CauseReason, cause_of_mount, cause_of_pod, choose_cause
from quintet.controllers.decide.pods import ContainerStatus, PodView, State


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


class CheckupPod(PodView, frozen=True):
    """The pod of a run."""

    @property
    def checkup_uid(self) -> str:
        """Uid of the Checkup, from the pod's label."""
        return self.metadata.labels.get(UID_LABEL, "")

    @property
    def run(self) -> str:
        """Number of the run, from the pod's label."""
        return self.metadata.labels.get(RUN_LABEL, "")

    @property
    def exit_code(self) -> int | None:
        """The exit code of the checkup container; None until it has ended."""
        ended = self.checkup.state.terminated if self.checkup is not None else None
        return ended.exit_code if ended is not None else None

    @property
    def as_of_job(self) -> JobState | None:
        """The outcome of the checkup container, whatever the other containers of the pod do; None before."""
        if self.exit_code is not None:
            return JobState(succeeded=self.exit_code == 0)
        return JobState(succeeded=self.status.phase == "Succeeded") if self.has_ended else None

    @property
    def checkup(self) -> ContainerStatus | None:
        """The checkup container."""
        found = (status for status in self.status.container_statuses if status.name == CONTAINER)
        return next(found, None)

    @property
    def running_since(self) -> datetime | None:
        """Start time of the checkup container, if it started."""
        state = self.checkup.state if self.checkup is not None else State()
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
    VOLUME = "VolumeNotMounted"
    CONTAINER = "ContainerNotStarted"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What prevents a checkup from running."""

    reason: ObstacleReason
    message: str
    lasting: bool = False
    """Whether waiting is pointless, because the spec is immutable."""


_REASONS = {
    CauseReason.IMAGE: ObstacleReason.IMAGE,
    CauseReason.UNSCHEDULABLE: ObstacleReason.UNSCHEDULABLE,
    CauseReason.VOLUME: ObstacleReason.VOLUME,
}


def obstacle(pod: CheckupPod, mounts: Collection[str] = (), known: Obstacle | None = None) -> Obstacle | None:
    """Return why the checkup container does not run, if a reason is known.

    `mounts` are the messages of FailedMount Events of the pod, `known` is what was reported last.
    """
    causes = [cause] if (cause := cause_of_pod(pod)) is not None else []
    if not causes and not any(container.has_started for container in pod.status.container_statuses):
        causes = [cause_of_mount(message) for message in mounts]
    found = choose_cause(causes, known.reason if known else "", known.message if known else "")
    if found is None:
        return None
    reason = _REASONS.get(found.reason, ObstacleReason.CONTAINER)
    return Obstacle(reason, found.message, lasting=found.lasting)


def describe(container: ContainerStatus) -> ContainerState:
    """Return the state of a container as a text for the status."""
    return ContainerState(container.name, truncate(_describe_state(container.state), 1024))


def _describe_state(state: State) -> str:
    if (ended := state.terminated) is not None:
        parts = (f"ended with exit code {ended.exit_code}", ended.reason, ended.message)
    elif (waiting := state.waiting) is not None:
        parts = ("waiting", waiting.reason, waiting.message)
    elif state.running is not None:
        parts = ("running", f"since {state.running.started_at}", "")
    else:
        parts = ("unknown", "", "")
    return ": ".join(part for part in parts if part)
