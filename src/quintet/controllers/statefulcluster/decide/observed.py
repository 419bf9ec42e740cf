"""Observed state of one StatefulCluster: the input of `plan` and `status`.

Times are seconds since the epoch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from quintet.apis.duration import parse_seconds
from quintet.apis.meta import ObjectKey, Struct
from quintet.apis.statefulcluster import ClaimContent, DataLoss, DataLossPolicy, Draw, Setback

PENDING = "Pending"
BOUND, LOST = "Bound", "Lost"
SHORTEST_LOSS = 60.0
"""Shortest time in seconds after which the policy After gives up claims."""
# Seconds between the acceptance of a pod and its first Ready condition: both have the precision of a second.
_ACCEPTANCE = 1.0


class Pod(Struct, frozen=True):
    """The cached part of a pod."""

    key: ObjectKey
    version: int = 0
    uid: str = ""
    owner_name: str = ""
    """Name of the StatefulCluster that controls the pod, if one does."""
    owner_uid: str = ""
    """Uid of the controlling owner, of any kind."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    revision: str = ""
    group: str = ""
    claims: tuple[str, ...] = ()
    phase: str = "Running"
    ready: bool = False
    ready_since: float = 0.0
    """Last transition of the Ready condition."""
    accepted_at: float = 0.0
    """When its node accepted the pod, or when the pod was created."""
    started: bool = True
    """Whether all startup probes have succeeded."""
    started_at: float = 0.0
    """Start time of the container that started last."""
    crash: str = ""
    """Why a container crashes repeatedly; empty if none does."""
    unscheduled: bool = False
    """Whether the scheduler reports that no node fits."""
    why_pending: str = ""
    created: float = 0.0
    leaves_by: float | None = None
    """End of the grace period of a pod that is being deleted."""
    cost: int = 0
    """Value of the annotation controller.kubernetes.io/pod-deletion-cost."""

    @property
    def name(self) -> str:
        """The pod's name, which is also the replica's name."""
        return self.key.name

    @property
    def leaving(self) -> bool:
        """Whether the pod is being deleted."""
        return self.leaves_by is not None

    @property
    def has_been_ready(self) -> bool:
        """Whether the pod is or was ready: its Ready condition has changed since its node accepted it."""
        return self.ready or self.ready_since > self.accepted_at + _ACCEPTANCE


class Claim(Struct, frozen=True):
    """The cached part of a PersistentVolumeClaim."""

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
    """Node that the scheduler selected for the volume."""
    requested: str = ""
    capacity: str = ""
    resizing: bool = False
    created: float = 0.0
    deleting: bool = False
    unusable: str = ""
    """Value of the annotation that marks the claim as unusable."""
    until_reachable: bool = False
    """Whether the controller marked it, and uses it again when its volume can be reached."""
    owners: tuple[str, ...] = ()
    """Uids of the owners."""

    @property
    def name(self) -> str:
        return self.key.name


class Revision(Struct, frozen=True):
    """The cached part of a ControllerRevision, with a hash of its template."""

    key: ObjectKey
    version: int = 0
    uid: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    number: int = 0
    digest: str = ""

    @property
    def name(self) -> str:
        """The revision's name, which pods carry as a label."""
        return self.key.name


@dataclass(frozen=True, slots=True)
class ExpansionRefusal:
    """Why the expansion of a claim was refused, and when to retry."""

    message: str
    again: float


@dataclass(frozen=True, slots=True)
class VolumeLook:
    """What a look at the volumes of a claim group showed."""

    at: float
    why: str = ""
    """Why they cannot be used; empty if nothing is known against them."""
    may_return: bool = False
    """Whether new nodes could reach them: no node has the labels of their zone or pool."""


@dataclass(frozen=True, slots=True)
class DataLossRule:
    """`spec.cluster.dataLoss` with the time in seconds."""

    policy: DataLossPolicy
    after: float
    min_data_replicas: int | str

    @staticmethod
    def of(given: DataLoss) -> "DataLossRule":
        """Return the rule of a spec."""
        after = max(SHORTEST_LOSS, parse_seconds(given.after) or 0.0)
        return DataLossRule(given.policy, after, given.min_data_replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """The spec in the form that the plan uses."""

    replicas: int = 1
    parallel: bool = False
    on_delete: bool = False
    partition: int = 0
    max_unavailable: int = 1
    min_ready: float = 0.0
    grace: float = 30.0
    templates: tuple[str, ...] = ()
    """Names of the claim templates."""
    adopts_claims: bool = True
    delete_when_scaled: bool = False
    keep_when_scaled: float = 0.0
    """Seconds for which claims are kept before they are deleted because of a smaller number of replicas."""
    delete_with_cluster: bool = False
    sizes: dict[str, str] = field(default_factory=dict)
    """Storage request of each claim template."""
    data_loss: DataLossRule = field(default_factory=lambda: DataLossRule.of(DataLoss()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A StatefulCluster and the objects around it at one moment."""

    now: float
    spec: DesiredState
    update_revision: str
    current_revision: str
    uid: str = ""
    """Uid of the cluster."""
    pods: tuple[Pod, ...] = ()
    """Pods that the cluster controls, including those being deleted, oldest first."""
    orphans: tuple[Pod, ...] = ()
    """Pods that match the selector and have no controller."""
    foreign: tuple[Pod, ...] = ()
    """Pods that match the selector and have another controller."""
    before: tuple[Pod, ...] = ()
    """Pods of a deleted cluster of the same name. They may still mount claims of this one."""
    claims: tuple[Claim, ...] = ()
    unlabelled: tuple[Claim, ...] = ()
    """Claims that the status lists and that lost the labels by which they are found."""
    draws: tuple[Draw, ...] = ()
    retiring: tuple[str, ...] = ()
    """Claim groups to delete as soon as no pod uses them."""
    setbacks: tuple[Setback, ...] = ()
    freed: dict[str, float] = field(default_factory=dict)
    """When each free group was last released."""
    lost_since: dict[str, float] = field(default_factory=dict)
    """Since when the status has reported a group as unreachable."""
    contents: dict[str, ClaimContent] = field(default_factory=dict)
    """Content of groups; those that are not listed have data."""
    consent: frozenset[str] = frozenset()
    """Uids of claims whose data a user allows to give up."""
    looks: dict[str, VolumeLook] = field(default_factory=dict)
    """The last look at the volumes of groups, by group."""
    held: dict[str, str] = field(default_factory=dict)
    """Pod that mounts claims of each group, whoever owns the pod."""
    postponed: dict[str, float] = field(default_factory=dict)
    """Actions that were refused, by their concern, with the time of the next attempt."""
    refused: dict[str, ExpansionRefusal] = field(default_factory=dict)
    """Claims that could not be expanded, by name."""

    @property
    def active(self) -> tuple[Pod, ...]:
        """Pods that are not being deleted, oldest first."""
        return tuple(pod for pod in self.pods if not pod.leaving)

    @property
    def leaving(self) -> tuple[Pod, ...]:
        """Pods that are being deleted."""
        return tuple(pod for pod in self.pods if pod.leaving)

    @property
    def open_draws(self) -> tuple[Draw, ...]:
        """Replicas that are recorded in the status and have no pod yet."""
        made = {pod.name for pod in self.active}
        return tuple(draw for draw in self.draws if draw.replica not in made)

    @property
    def available(self) -> tuple[Pod, ...]:
        """Pods that have been ready for minReadySeconds."""
        return tuple(pod for pod in self.active if self.is_available(pod))

    def is_available(self, pod: Pod) -> bool:
        """Return whether a pod has been ready for minReadySeconds."""
        return pod.ready and self.now >= pod.ready_since + self.spec.min_ready

    def content(self, group: str) -> ClaimContent:
        """Return what is known about the data of a group."""
        return self.contents.get(group, ClaimContent.DATA)

    def setback(self, revision: str) -> Setback:
        """Return how often unhealthy pods of a revision were replaced."""
        known = (entry for entry in self.setbacks if entry.revision == revision)
        return next(known, Setback(revision))

    def names(self) -> Iterator[str]:
        """Yield the names of existing and recorded replicas, oldest first."""
        yield from (pod.name for pod in self.active)
        yield from (draw.replica for draw in self.open_draws)


def parse_time(text: str | None) -> float:
    """Return an API timestamp as seconds since the epoch; 0 if there is none."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def format_time(seconds: float) -> str:
    """Return seconds since the epoch as an API timestamp."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
