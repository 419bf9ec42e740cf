"""Whether a pod of each process leads, from its Lease. Pure.

Times of other machines may be wrong, so a Lease counts as renewed when its version changes. Only the first
time that it is read, its own time counts.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from quintet.apis.meta import Object, Struct

_TOLERATED_SECONDS = 20.0
"""A healthy replica takes over within 17 s."""
_RECENT = timedelta(seconds=60)


class LeaseViewSpec(Struct, frozen=True):
    """The fields that are read of a Lease's spec."""

    holder_identity: str | None = None
    renew_time: str | None = None


class LeaseView(Object, frozen=True):
    """The fields that are read of a Lease."""

    spec: LeaseViewSpec = LeaseViewSpec()


@dataclass(frozen=True, slots=True)
class Leadership:
    """What is known about the leader of a process."""

    version: int = 0
    """The last version of the Lease."""
    missed_since: float | None = None
    """When it was first seen without a renewal since the time before."""
    problem: str = ""
    """Why no pod leads; empty while one does."""


def observe_lease(
    known: Leadership | None, name: str, lease: LeaseView | None, now: float, time: datetime
) -> Leadership:
    """Return what is known after a Lease was read; None if it does not exist. `now` is monotonic."""
    version = lease.version if lease is not None else 0
    held = lease is not None and bool(lease.spec.holder_identity)
    if was_renewed_lately(lease, time) if known is None else held and version != known.version:
        return Leadership(version)
    problem = describe_leader(name, lease)
    if known is None:
        return Leadership(version, now, problem)
    since = now if known.missed_since is None else known.missed_since
    lost = known.problem or now - since >= _TOLERATED_SECONDS
    return Leadership(version, since, problem if lost else "")


def was_renewed_lately(lease: LeaseView | None, time: datetime) -> bool:
    """Return whether a process holds the Lease and has renewed it in the last minute, by its own clock."""
    if lease is None or not lease.spec.holder_identity or lease.spec.renew_time is None:
        return False
    return time - datetime.fromisoformat(lease.spec.renew_time) < _RECENT


def describe_leader(name: str, lease: LeaseView | None) -> str:
    """Return why no pod leads, in the same words until that changes."""
    if lease is None or not lease.spec.holder_identity:
        return f"no pod holds the Lease {name}"
    return (
        f"{lease.spec.holder_identity} holds the Lease {name}, but has not renewed it since "
        f"{lease.spec.renew_time}"
    )
