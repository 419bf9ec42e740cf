"""State of one reconciliation, and what is remembered between reconciliations."""

from dataclasses import dataclass, field

from quintet.apis.statefulcluster import StatefulCluster
from quintet.controllers.statefulcluster.decide.actions import Action, Records
from quintet.controllers.statefulcluster.decide.desired import digest
from quintet.controllers.statefulcluster.decide.observed import ExpansionRefusal, Observed
from quintet.controllers.statefulcluster.decide.status import ActionFailure


@dataclass(slots=True)
class Memory:
    """What the process remembers about a cluster. It can be lost: everything can be observed again."""

    generation: int = 0
    trouble: tuple[str, ActionFailure] | None = None
    """Concern and cause of the last failed action."""
    refused: dict[str, ExpansionRefusal] = field(default_factory=dict)
    volumes_looked_at: dict[str, float] = field(default_factory=dict)
    written: str = ""
    """Hash of the status that was written last. A different status means that another process acted."""
    leaving: dict[str, float] = field(default_factory=dict)
    """Uids of pods whose deletion was requested, with the time: a cache may not show it yet."""
    doubt: bool = False
    """Whether a deletion got no response and may have happened."""


class ReconcileContext:
    """A cluster, its observed state and the action of one reconciliation."""

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
        """Whether only this process has changed the cluster since its last status."""
