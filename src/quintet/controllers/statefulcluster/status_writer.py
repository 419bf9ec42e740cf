"""Writes the status and the Events of StatefulClusters.

The status holds generated replica names, so it is written with the resourceVersion that was read: two writers
must never both succeed.
"""

import msgspec

from quintet.apis.meta import Object, find_condition
from quintet.apis.statefulcluster import (
    STATEFULCLUSTERS,
    ConditionType,
    StatefulCluster,
    StatefulClusterStatus,
)
from quintet.controllers.statefulcluster.context import ReconcileContext
from quintet.controllers.statefulcluster.decide.actions import Action
from quintet.controllers.statefulcluster.decide.desired import digest
from quintet.controllers.statefulcluster.decide.events import event_for
from quintet.controllers.statefulcluster.decide.status import (
    IGNORE,
    ActionFailure,
    Notes,
    foreign_text,
    status_of,
)
from quintet.runtime import conditions
from quintet.runtime.builder import Builder
from quintet.runtime.events import NORMAL, WARNING


class ClusterStatusWriter:
    """Writes the status and records Events."""

    def __init__(self, builder: Builder[StatefulCluster]) -> None:
        self._builder = builder

    async def report(self, now: ReconcileContext, trouble: ActionFailure) -> None:
        """Write why an action failed; the status shows it until the action succeeds."""
        now.memory.trouble = (now.action.concern, trouble)
        await self.write(now)

    async def write(self, now: ReconcileContext) -> None:
        """Write the status if it changed; a conflict fails if the object was changed since it was read."""
        memory, cluster = now.memory, now.cluster
        concern, trouble = memory.trouble or ("", None)
        if concern != now.action.concern:
            trouble = None
        wanted = status_of(cluster, now.observed, now.action, now.records, Notes(now.collisions, trouble))
        generation, moment = cluster.metadata.generation, self._builder.clock.now()
        merged = conditions.merged(now.written.conditions, wanted.conditions, generation, moment)
        status = msgspec.structs.replace(wanted, conditions=merged)
        if status == now.written:
            return
        metadata = {"uid": cluster.metadata.uid, "resourceVersion": now.version}
        body = {"metadata": metadata, "status": status}
        answer = await self._builder.client.patch(
            STATEFULCLUSTERS, cluster.key, body, Object, subresource="status"
        )
        self._builder.writes.record(cluster.key, self._builder.primary, answer.version)
        self._report_failures(cluster, now.written, status)
        self._report_foreign_pods(now)
        now.written, now.version = status, answer.metadata.resource_version
        memory.written = digest(status) if now.trusted else ""

    def _report_failures(
        self, cluster: StatefulCluster, before: StatefulClusterStatus, after: StatefulClusterStatus
    ) -> None:
        """Record an Event when a failure starts or ends."""
        for kind in (ConditionType.DEGRADED, ConditionType.BLOCKED):
            old, new = find_condition(before.conditions, kind), find_condition(after.conditions, kind)
            was, is_now = old is not None and old.status == "True", new is not None and new.status == "True"
            if new is not None and is_now and (old is None or not was or old.reason != new.reason):
                self._record(cluster, WARNING, new.reason, new.message)
            elif was and not is_now:
                self._record(cluster, NORMAL, f"{kind}Over", f"it is no longer {kind.lower()}")

    def _report_foreign_pods(self, now: ReconcileContext) -> None:
        known = {planned.target for planned in now.written.plan if planned.action == IGNORE}
        for pod in now.observed.foreign:
            if pod.name not in known:
                self._record(now.cluster, WARNING, "ForeignPod", foreign_text(pod.name))

    def announce(self, now: ReconcileContext, action: Action) -> None:
        """Record the Event of an action, if it has one."""
        if (news := event_for(action)) is not None:
            self._record(now.cluster, *news)

    def _record(self, cluster: StatefulCluster, kind: str, reason: str, note: str) -> None:
        self._builder.events.record(STATEFULCLUSTERS, cluster.key, cluster.metadata.uid, kind, reason, note)
