"""The state of one reconcile, and what the controller remembers between reconciles."""

import secrets
from dataclasses import dataclass, field

from quintet.apis.statefulcluster import SUFFIX_LENGTH, StatefulCluster
from quintet.controllers.statefulcluster.decide.actions import Act, Action, Records
from quintet.controllers.statefulcluster.decide.desired import ALPHABET, digest
from quintet.controllers.statefulcluster.decide.events import event_for
from quintet.controllers.statefulcluster.decide.observed import ExpansionRefusal, Observed, VolumeLook
from quintet.controllers.statefulcluster.decide.status import ActionFailure, Notes, status_of
from quintet.runtime.events import Event
from quintet.runtime.reconciler import Context

_LONGEST_WAIT = 300.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that failed, and when it is tried again."""

    failure: ActionFailure
    again: float
    attempts: int = 1


@dataclass(slots=True)
class Memory:
    """What the process remembers about a cluster. It can be lost: everything can be observed again."""

    generation: int = 0
    refusals: dict[str, Refusal] = field(default_factory=dict)
    """Failed actions by their concern."""
    refused: dict[str, ExpansionRefusal] = field(default_factory=dict)
    looks: dict[str, VolumeLook] = field(default_factory=dict)
    written: str = ""
    """Hash of the status that was written last. A different status means that another process acted."""
    leaving: dict[str, float] = field(default_factory=dict)
    """Uids of pods whose deletion was requested, with the time: a cache may not show it yet."""
    uncertain: bool = False
    """Whether a deletion got no response and may have happened."""


class ReconcileContext:
    """One reconcile of one cluster: what was observed, the next action and the records that it needs."""

    def __init__(
        self,
        cluster: StatefulCluster,
        context: Context[StatefulCluster],
        observed: Observed,
        action: Action,
        memory: Memory,
    ) -> None:
        self.cluster = cluster
        self.context = context
        self.observed = observed
        self.action = action
        self.memory = memory
        self.records = Records(observed.open_draws, observed.retiring, observed.setbacks)
        self.collisions = cluster.status.collision_count
        self.trusted = memory.written == digest(cluster.status)
        """Whether only this process has changed the cluster since its last status."""

    @property
    def is_recorded(self) -> bool:
        """Return whether the status names the pod to create already; that pod then requeues the key."""
        making = self.action.act is Act.MAKE and not self.memory.refusals and not self.cluster.plan_only
        same = self.cluster.status.observed_generation == self.cluster.metadata.generation
        return making and same and self.records.draws == self.cluster.status.draws

    @property
    def needs_live_state(self) -> bool:
        """Return whether the next action needs more certainty than a cache gives."""
        if self.action.act is Act.CREATE:
            # A replica that the status names but the cache does not is gone, or not seen yet.
            seen = {pod.name for pod in self.observed.pods} | {draw.replica for draw in self.observed.draws}
            return not seen.issuperset(self.cluster.status.replica_names)
        final = self.action.act in (Act.DELETE_CLAIM, Act.SET_ASIDE)
        unsure = self.memory.uncertain or not self.trusted or final
        return self.action.destroys and unsure

    async def report(self, failure: ActionFailure, wait: float = 0.0) -> None:
        """Report in the status why the action fails, and postpone it: by `wait`, or for longer each time."""
        concern = self.action.concern
        known = self.memory.refusals.get(concern)
        attempts = known.attempts + 1 if known is not None else 1
        seconds = wait or min(2.0**attempts, _LONGEST_WAIT)
        self.memory.refusals[concern] = Refusal(failure, self.observed.now + seconds, attempts)
        await self.write_status()

    async def write_status(self) -> None:
        """Write the status for the observed state and the next action."""
        refusals, action = self.memory.refusals, self.action
        relevant = [refusals[each] for each in (*action.skipped, action.concern) if each in refusals]
        notes = Notes(self.collisions, relevant[0].failure if relevant else None)
        status = status_of(self.cluster, self.observed, self.action, self.records, notes)
        if await self.context.write_status(status):
            self.memory.written = digest(self.context.status) if self.trusted else ""

    def announce(self, action: Action) -> None:
        """Record the Event of an action, if it has one."""
        if (event := event_for(action)) is not None:
            self.context.record(Event(*event))


def draw_suffix(observed: Observed) -> str:
    """Return a random suffix that no pod or claim of the cluster uses."""
    taken = {claim.group for claim in observed.claims}
    taken |= {name.rpartition("-")[2] for name in observed.names()}
    taken |= {pod.name.rpartition("-")[2] for pod in observed.pods}
    while True:
        suffix = "".join(secrets.choice(ALPHABET) for _ in range(SUFFIX_LENGTH))
        if suffix not in taken:
            return suffix
