"""Deadlines of a checkup run.

Three deadlines back each other up. The controller's saves the logs before it stops the run. If the controller
is down, the kubelet's stops the container and keeps pod and logs. The Job's deletes the pod. See
docs/adr/0010.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

STOPPED = 1
"""Deadline that is set on the Job of a finished run, so that it ends at once."""

_LEAST_START = 30


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits of a run, in seconds."""

    start: float = _LEAST_START
    """Minimum time for a pod to start, however short the timeout is."""
    slack: float = 2.0
    """Tolerance: pods report whole seconds, and the end of a pod is seen late."""
    no_pod: float = 3.0
    """Time without a pod after which the Job's Events are read."""
    look_again: float = 10.0
    """Interval of retries if no event announces a change, e.g. of a foreign object."""
    partial: float = 1.0
    """Minimum interval between two updates of partial results."""
    teardown: float = 60.0
    """Maximum wait for a pod to terminate before the other objects are deleted."""


def start_deadline(started: datetime, seconds: int, limits: TimeLimits) -> datetime:
    """Return when a checkup that has not started is given up."""
    return started + timedelta(seconds=max(float(seconds), limits.start))


def run_deadline(running_since: datetime, seconds: int, limits: TimeLimits) -> datetime:
    """Return when a running checkup is stopped."""
    return running_since + timedelta(seconds=seconds + limits.slack)


def pod_deadline(seconds: int) -> int:
    """Return the pod's activeDeadlineSeconds: after the controller's deadline, including the image pull."""
    return seconds + max(seconds, _LEAST_START) + 30


def job_deadline(seconds: int) -> int:
    """Return the Job's activeDeadlineSeconds: twice the pod's, so that the kubelet's fires first."""
    return 2 * pod_deadline(seconds)


def duration(start: datetime, end: datetime) -> str:
    """Return a duration as kubectl prints it: `12s`, `3m5s`, `2h10m`."""
    seconds = max(0, int((end - start).total_seconds()))
    minutes, hours = seconds // 60, seconds // 3600
    if minutes == 0:
        return f"{seconds}s"
    return f"{minutes}m{seconds % 60}s" if hours == 0 else f"{hours}h{minutes % 60}m"


def parse_time(text: str | None) -> datetime | None:
    """Parse a Kubernetes timestamp."""
    return datetime.fromisoformat(text) if text else None


def format_time(moment: datetime) -> str:
    """Format a time as Kubernetes does, in whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
