"""What `controller` carries through one pass, and what it remembers from one pass to the next."""

from dataclasses import dataclass, field

from quintet.apis.statefulcluster import StatefulCluster
from quintet.controllers.statefulcluster.decide.actions import Action, Records
from quintet.controllers.statefulcluster.decide.desired import digest
from quintet.controllers.statefulcluster.decide.observed import ExpansionRefusal, Observed
from quintet.controllers.statefulcluster.decide.status import ActionFailure


@dataclass(slots=True)
class Memory:
    """What one process remembers of a cluster; all of it can be found out again."""

    generation: int = 0
    trouble: tuple[str, ActionFailure] | None = None
    """What the last action was about, and why it did not succeed."""
    refused: dict[str, ExpansionRefusal] = field(default_factory=dict)
    volumes_looked_at: dict[str, float] = field(default_factory=dict)
    written: str = ""
    """A digest of the status that we wrote last. Another status means that somebody else has acted."""
    leaving: dict[str, float] = field(default_factory=dict)
    """The uids of pods that we asked to go, and when: a cache may not have seen it yet."""
    doubt: bool = False
    """Whether a removal may or may not have happened."""


class ReconcileContext:
    """One look at one cluster, and what came of it."""

    def __init__(self, cluster: StatefulCluster, observed: Observed, action: Action, memory: Memory) -> None:
        self.cluster = cluster
        self.observed = observed
        self.action = action
        self.memory = memory
        self.records = Records(observed.open_draws, observed.retiring, observed.setbacks)
        self.collisions = cluster.status.collision_count
        self.written = cluster.status
        self.version = cluster.metadata.resource_version
        self.trusted = memory.written == digest(cluster.status)
        """Whether all that was done to this cluster lately was done by us, and is known."""
