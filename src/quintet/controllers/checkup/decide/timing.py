"""How long things may take, and when a run is over. Pure: moments in, moments out.

Three clocks run for a checkup, each a backstop of the one before: our own, which saves the logs
before it stops anything; the kubelet's on the pod, which stops the container but keeps pod and
logs, for when we are away; and the Job's, which deletes the pod. See docs/adr/0010.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

STOPPED = 1
"""The Job's deadline once a run was ended: it has passed already."""

_LEAST_START = 30


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """In seconds."""

    start: float = _LEAST_START
    """What a pod has at least until its checkup runs, however short the timeout is."""
    slack: float = 2.0
    """Pods tell times in whole seconds, and news of an end takes a moment."""
    no_pod: float = 3.0
    """How long a Job may be without a pod before somebody looks why."""
    look_again: float = 10.0
    """For what nobody tells us about, such as a foreign object that goes away."""
    partial: float = 1.0
    """Between two looks at results that keep changing."""
    teardown: float = 60.0
    """How long the end of a pod is waited for before the rest is deleted."""


def start_deadline(started: datetime, seconds: int, limits: TimeLimits) -> datetime:
    """When a checkup that does not run yet is given up."""
    return started + timedelta(seconds=max(float(seconds), limits.start))


def run_deadline(running_since: datetime, seconds: int, limits: TimeLimits) -> datetime:
    """When a checkup that runs is stopped."""
    return running_since + timedelta(seconds=seconds + limits.slack)


def pod_deadline(seconds: int) -> int:
    """For the kubelet, later than ours in every case; it counts the pull of the image too."""
    return seconds + max(seconds, _LEAST_START) + 30


def job_deadline(seconds: int) -> int:
    """For the Job, later than the kubelet's even for a pod that was scheduled at the last moment."""
    return 2 * pod_deadline(seconds)


def duration(start: datetime, end: datetime) -> str:
    """As kubectl writes it: `12s`, `3m5s`, `2h10m`."""
    seconds = max(0, int((end - start).total_seconds()))
    minutes, hours = seconds // 60, seconds // 3600
    if minutes == 0:
        return f"{seconds}s"
    return f"{minutes}m{seconds % 60}s" if hours == 0 else f"{hours}h{minutes % 60}m"


def parse_timestamp(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it."""
    return datetime.fromisoformat(text) if text else None
