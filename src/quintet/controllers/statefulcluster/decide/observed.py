"""What is known of one StatefulCluster at one moment: all that `plan` and `status` decide by.

Filled by `observe` from caches, or from the server where something is to be destroyed. Times are
seconds since 1970, so that a test can hand in any.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from quintet.apis.meta import ObjectKey, Struct
from quintet.apis.statefulcluster import Draw, Setback

PENDING = "Pending"
BOUND, LOST = "Bound", "Lost"


class Pod(Struct, frozen=True):
    """A pod as the cache keeps it."""

    key: ObjectKey
    version: int = 0
    uid: str = ""
    owner_name: str = ""
    """Of the StatefulCluster that controls it, if one does."""
    owner_uid: str = ""
    """Of whoever controls it, if anybody does."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    revision: str = ""
    group: str = ""
    claims: tuple[str, ...] = ()
    phase: str = "Running"
    ready: bool = False
    ready_since: float = 0.0
    """When it became ready, or stopped being so."""
    started: bool = True
    """Whether every container is past its start, as its startup probe says."""
    started_at: float = 0.0
    """When the last of its containers was started."""
    crash: str = ""
    """Why a container does not stay up, if so."""
    unscheduled: bool = False
    """Whether the scheduler has found no node for it."""
    why_pending: str = ""
    created: float = 0.0
    leaves_by: float | None = None
    """When it has to be gone, once somebody asked it to go."""
    cost: int = 0
    """The annotation controller.kubernetes.io/pod-deletion-cost."""

    @property
    def name(self) -> str:
        """Its own, which is that of the replica."""
        return self.key.name

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted."""
        return self.leaves_by is not None


class Claim(Struct, frozen=True):
    """A PersistentVolumeClaim as the cache keeps it."""

    key: ObjectKey
    version: int = 0
    uid: str = ""
    cluster: str = ""
    group: str = ""
    template: str = ""
    phase: str = BOUND
    volume: str = ""
    storage_class: str = ""
    node: str = ""
    """Where its volume is to be made, once the scheduler has chosen."""
    requested: str = ""
    capacity: str = ""
    resizing: bool = False
    created: float = 0.0
    deleting: bool = False
    unusable: str = ""
    """Why it was set aside, as its annotation says."""
    owners: tuple[str, ...] = ()
    """The uids of its owners."""

    @property
    def name(self) -> str:
        """Its own."""
        return self.key.name


class Revision(Struct, frozen=True):
    """A ControllerRevision as the cache keeps it: what its template was, as a digest."""

    key: ObjectKey
    version: int = 0
    uid: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    number: int = 0
    digest: str = ""

    @property
    def name(self) -> str:
        """Its own; pods carry it as a label."""
        return self.key.name


@dataclass(frozen=True, slots=True)
class ExpansionRefusal:
    """Why a claim could not grow, and when it is worth trying again."""

    message: str
    again: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What the spec asks for, in the terms of the plan."""

    replicas: int = 1
    parallel: bool = False
    on_delete: bool = False
    partition: int = 0
    max_unavailable: int = 1
    min_ready: float = 0.0
    grace: float = 30.0
    templates: tuple[str, ...] = ()
    """The names of the claim templates."""
    adopts_claims: bool = True
    delete_when_scaled: bool = False
    delete_with_cluster: bool = False
    sizes: dict[str, str] = field(default_factory=dict)
    """What each claim template asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One look at a StatefulCluster and all that belongs to it."""

    now: float
    wanted: DesiredState
    update_revision: str
    current_revision: str
    uid: str = ""
    """Of the cluster itself."""
    pods: tuple[Pod, ...] = ()
    """Controlled by this object, those that are leaving too; the oldest first."""
    orphans: tuple[Pod, ...] = ()
    """They match the selector and nobody controls them."""
    foreign: tuple[Pod, ...] = ()
    """They match the selector and somebody else controls them."""
    before: tuple[Pod, ...] = ()
    """Of the cluster that had this name before; they go, and mount claims that are ours by now."""
    claims: tuple[Claim, ...] = ()
    draws: tuple[Draw, ...] = ()
    retiring: tuple[str, ...] = ()
    """Claim groups to be deleted once nobody uses them."""
    setbacks: tuple[Setback, ...] = ()
    freed: dict[str, float] = field(default_factory=dict)
    """When each free group was last let go."""
    held: dict[str, str] = field(default_factory=dict)
    """Which pod mounts claims of a group, whoever the pod belongs to."""
    refused: dict[str, ExpansionRefusal] = field(default_factory=dict)
    """By name, the claims that were not allowed to grow."""

    @property
    def active(self) -> tuple[Pod, ...]:
        """The pods that stay, the oldest first."""
        return tuple(pod for pod in self.pods if not pod.leaving)

    @property
    def leaving(self) -> tuple[Pod, ...]:
        """The pods that are about to go."""
        return tuple(pod for pod in self.pods if pod.leaving)

    @property
    def open_draws(self) -> tuple[Draw, ...]:
        """Replicas that were drawn and have no pod yet."""
        made = {pod.name for pod in self.active}
        return tuple(draw for draw in self.draws if draw.replica not in made)

    @property
    def available(self) -> tuple[Pod, ...]:
        """The pods that have been ready for long enough."""
        return tuple(pod for pod in self.active if self.is_available(pod))

    def is_available(self, pod: Pod) -> bool:
        """Whether a pod has been ready for minReadySeconds."""
        return pod.ready and self.now >= pod.ready_since + self.wanted.min_ready

    def setback(self, revision: str) -> Setback:
        """How often pods of a revision were removed for their health."""
        known = (entry for entry in self.setbacks if entry.revision == revision)
        return next(known, Setback(revision))

    def names(self) -> Iterator[str]:
        """Of the replicas that there are or will be, the oldest first."""
        yield from (pod.name for pod in self.active)
        yield from (draw.replica for draw in self.open_draws)


def parse_timestamp(text: str | None) -> float:
    """A timestamp of the API as seconds; 0 if there is none."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def format_timestamp(seconds: float) -> str:
    """Seconds as a timestamp of the API."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
