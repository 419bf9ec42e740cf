"""What `controller` carries through one pass, and what it remembers from one pass to the next."""

from dataclasses import dataclass, field

from quintet.apis.statefulcluster import StatefulCluster
from quintet.controllers.statefulcluster.actions import Action, Records
from quintet.controllers.statefulcluster.observed import Observed
from quintet.controllers.statefulcluster.status import Trouble


@dataclass(slots=True)
class Memory:
    """What one process remembers of a cluster; all of it can be found out again."""

    generation: int = 0
    trouble: tuple[str, Trouble] | None = None
    """What the last action was about, and why it did not succeed."""
    refused: dict[str, str] = field(default_factory=dict)
    volumes_looked_at: dict[str, float] = field(default_factory=dict)


class Pass:
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
