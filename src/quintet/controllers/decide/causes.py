"""Why pods do not run, from pods, Deployments and FailedMount Events, as one reason and one message.

The kubelet and the scheduler repeat themselves in changing words: a pull error alternates with its back-off,
and a crash loop with its restarts. The same cause always gives the same text here, so that a status that
quotes it is written once.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quintet.apis.meta import Struct
from quintet.apis.text import truncate
from quintet.controllers.decide.pods import ContainerStatus, PodView

LONGEST_MESSAGE: Final = 2048


class CauseReason(StrEnum):
    """Why pods do not run; the most specific reason comes first."""

    IMAGE = "ImagePullFailed"
    CONTAINER = "ContainerNotStarted"
    VOLUME = "VolumeNotMounted"
    CRASH = "CrashLoop"
    UNSCHEDULABLE = "Unschedulable"
    NO_POD = "PodNotCreated"
    DEADLINE = "ProgressDeadlineExceeded"


_ORDER = list(CauseReason)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why pods do not run."""

    reason: CauseReason
    message: str
    container: str = ""
    lasting: bool = False
    """Whether waiting is pointless, because only another spec helps."""
    vague: bool = False
    """Whether Kubernetes only repeats that it tries again, without the error."""


class DeploymentCondition(Struct, frozen=True):
    """The fields that are read of a Deployment's condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


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
_CRASH_LOOP = "CrashLoopBackOff"
_BACK_OFF = re.compile(r'Back-off pulling image "[^"]*"(: (ErrImagePull: )?(?P<error>.*))?', re.DOTALL)
# `read udp 10.0.0.7:53321->10.96.0.10:53`: the local port differs in each attempt.
_LOCAL_PORT = re.compile(r":\d+->")


def cause_of_pod(pod: PodView) -> Cause | None:
    """Return why the containers of a pod do not run, if its status has a reason."""
    for container in pod.containers:
        if (found := _cause_of_container(container)) is not None:
            return found
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            detail = condition.message or condition.reason
            text = f"pod {pod.metadata.name} cannot be scheduled: {detail}"
            return _cause(CauseReason.UNSCHEDULABLE, text)
    return None


def cause_of_mount(message: str) -> Cause:
    """Return the cause that a FailedMount Event of a pod names."""
    return _cause(CauseReason.VOLUME, _LOCAL_PORT.sub("->", message))


def cause_of_deployment(conditions: Iterable[DeploymentCondition]) -> Cause | None:
    """Return why a Deployment makes no progress: refused pods, else its deadline."""
    known = {(condition.type, condition.status): condition for condition in conditions}
    if (refused := known.get(("ReplicaFailure", "True"))) is not None:
        return _cause(CauseReason.NO_POD, f"the pods cannot be created: {_without_pod_name(refused.message)}")
    late = known.get(("Progressing", "False"))
    if late is not None and late.reason == CauseReason.DEADLINE:
        return _cause(CauseReason.DEADLINE, late.message)
    return None


def choose_cause(causes: Collection[Cause], reason: str, message: str) -> Cause | None:
    """Return the cause to report, given the reason and the message that were reported last.

    A reported cause stays while it holds, so that the status of many pods does not alternate.
    """
    if not causes:
        return None
    for cause in causes:
        if (cause.reason, cause.message) == (reason, message):
            return cause
    first = min(causes, key=lambda cause: (cause.vague, _ORDER.index(cause.reason), cause.message))
    if first.vague and first.reason == reason:
        return Cause(first.reason, message, first.container, first.lasting)
    return first


def _cause_of_container(container: ContainerStatus) -> Cause | None:
    waiting = container.state.waiting
    if not container.ready and container.restart_count and (ended := container.last_state.terminated):
        code = f"exit code {ended.exit_code}" + (f" ({ended.reason})" if ended.reason else "")
        detail = f": {truncate(ended.message, 256)}" if ended.message else ""
        text = f"container {container.name} ends again and again: {code}{detail}"
        return _cause(CauseReason.CRASH, text, container.name)
    if waiting is None or waiting.reason in _ON_THE_WAY or waiting.reason == _CRASH_LOOP:
        return None
    if waiting.reason in _IMAGE_REASONS:
        return _image_cause(container.name, waiting.reason, waiting.message)
    detail = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
    return _cause(CauseReason.CONTAINER, f"container {container.name}: {detail}", container.name)


def _image_cause(container: str, reason: str, message: str) -> Cause:
    lasting = reason == "InvalidImageName"
    back_off = _BACK_OFF.fullmatch(message)
    vague = back_off is not None and not back_off["error"]
    if back_off is not None and not vague:
        reason, message = "ErrImagePull", back_off["error"]
    detail = f"{reason}: {_LOCAL_PORT.sub('->', message)}" if message else reason
    text = truncate(f"container {container}: {detail}", LONGEST_MESSAGE)
    return Cause(CauseReason.IMAGE, text, container, lasting, vague)


def _cause(reason: CauseReason, text: str, container: str = "") -> Cause:
    return Cause(reason, truncate(text, LONGEST_MESSAGE), container)


def _without_pod_name(message: str) -> str:
    """Return a refusal without the random name of the pod: `pods "app-x-7d9f-x2x4z" is forbidden: …`."""
    return re.sub(r'^pods "[^"]*" is forbidden: ', "", message)
