"""Reconciles StatefulClusters: one step per reconcile towards the pods and claims of the spec.

The phases: revision → observe → plan → record → act. The status names the next action before it is taken
(`actions.records_after`), and is written only if the object has not changed since it was read. So the process
that continues after a crash uses the same names.
"""

import dataclasses
from collections.abc import Iterable

import msgspec

from quintet.apis.meta import ObjectKey
from quintet.apis.statefulcluster import (
    CLUSTER_LABEL,
    STATEFULCLUSTERS,
    StatefulCluster,
    StatefulClusterStatus,
)
from quintet.clock import Clock
from quintet.controllers.statefulcluster.actor import Actor
from quintet.controllers.statefulcluster.context import Memory, ReconcileContext, draw_suffix
from quintet.controllers.statefulcluster.decide import desired, plan, revisions, views, volumes
from quintet.controllers.statefulcluster.decide.actions import Act, records_after
from quintet.controllers.statefulcluster.decide.events import status_events
from quintet.controllers.statefulcluster.decide.indexes import (
    NAMESPACE,
    OWNER,
    UNOWNED,
    mount_index_key,
    owner_index_keys,
    selector_index_key,
    unowned_index_keys,
)
from quintet.controllers.statefulcluster.decide.observe import missing_claims, observe, selects
from quintet.controllers.statefulcluster.decide.observed import (
    Claim,
    Observed,
    Pod,
    Revision,
)
from quintet.controllers.statefulcluster.reader import LiveReader
from quintet.controllers.statefulcluster.writer import ReplicaWriter
from quintet.kube.client import Client
from quintet.kube.errors import Forbidden
from quintet.runtime.apply import ForeignObject
from quintet.runtime.builder import Builder
from quintet.runtime.cache import Store
from quintet.runtime.events import Event
from quintet.runtime.manager import Manager
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.reconcile import ObjectDeleted, Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler

_MOST_COLLISIONS = 10
# The controller does not trust a cache that has not seen one of its own writes for this long.
_LONGEST_LAG = 60.0
# Seconds after which a refusal whose action is not planned any more is forgotten.
_STALE = 600.0


class StatefulClusterController(ObjectReconciler[StatefulCluster]):
    """Reconciles StatefulClusters."""

    # The status holds the names of pods to create: two controllers must never both succeed in writing it.
    locks_status = True

    def __init__(
        self,
        client: Client,
        writes: OwnWrites,
        clock: Clock,
        pods: Store[Pod],
        claims: Store[Claim],
        known: Store[Revision],
    ) -> None:
        self._clock = clock
        self._pods = pods
        self._claims = claims
        self._revisions = known
        self._writer = ReplicaWriter(client, writes, pods, claims, known)
        self._reader = LiveReader(client)
        self._actor = Actor(self._writer, self._reader, clock)
        self._memories: dict[ObjectKey, Memory] = {}

    async def reconcile(self, cluster: StatefulCluster, context: Context[StatefulCluster]) -> Outcome:
        try:
            return await self._step(cluster, context)
        except Forbidden as refusal:
            if not refusal.namespace_terminating:
                raise
            return Outcome()  # nothing can be created in a namespace that is being deleted

    async def forget(self, key: ObjectKey) -> None:
        self._memories.pop(key, None)

    def events(
        self, cluster: StatefulCluster, before: StatefulClusterStatus, after: StatefulClusterStatus
    ) -> Iterable[Event]:
        return (Event(*event) for event in status_events(before, after))

    async def _step(self, cluster: StatefulCluster, context: Context[StatefulCluster]) -> Outcome:
        memory = self._memory(cluster)
        revision, collisions = await self._revision(cluster)
        claims = self._claims.by_index(OWNER, str(cluster.key))
        # Claims that the cache should have and does not have are gone, or lost their labels.
        missing = missing_claims(cluster, self._pods.by_index(OWNER, cluster.metadata.uid), claims)
        claims += await self._reader.claims_named(cluster.metadata.namespace, missing)
        observed = self._observe(cluster, revision, memory, claims)
        observed = await self._look_at_volumes(observed, volumes.looks_due(observed), memory)
        action = plan.plan(observed)
        ctx = ReconcileContext(cluster, context, observed, action, memory)
        if ctx.needs_live_state:
            observed = await self._observe_live(cluster, revision, memory, observed)
            if action.act is Act.SET_ASIDE:
                observed = await self._look_at_volumes(observed, volumes.groups_to_look_at(observed), memory)
            action = plan.plan(observed)
            ctx = ReconcileContext(cluster, context, observed, action, memory)
            ctx.trusted = True
        ctx.collisions = collisions
        if not cluster.plan_only:
            ctx.records = records_after(
                observed, action, lambda: draw_suffix(observed), cluster.metadata.name
            )
        if not ctx.is_recorded:
            await ctx.write_status()
        if cluster.plan_only:
            return Outcome(requeue_after=action.after)
        outcome = await self._actor.act(ctx)
        await self._delete_old_revisions(ctx)
        return outcome

    async def _look_at_volumes(
        self, observed: Observed, requests: Iterable[volumes.LookRequest], memory: Memory
    ) -> Observed:
        """Return the observed state with the looks at volumes that still matter."""
        for request in requests:
            look = await self._reader.look_at_volumes(request, observed.now)
            memory.looks[request.group.name] = look
        needed = {request.group.name for request in volumes.groups_to_look_at(observed)}
        memory.looks = {group: look for group, look in memory.looks.items() if group in needed}
        return dataclasses.replace(observed, looks=dict(memory.looks))

    def _memory(self, cluster: StatefulCluster) -> Memory:
        memory = self._memories.setdefault(cluster.key, Memory())
        if memory.generation != cluster.metadata.generation:
            memory.generation = cluster.metadata.generation
            memory.refused.clear()
            memory.refusals.clear()
        return memory

    def _observe(
        self, cluster: StatefulCluster, revision: str, memory: Memory, claims: Iterable[Claim]
    ) -> Observed:
        """Return the state of the caches, with the own deletions that they have not seen yet."""
        own = {pod.uid: pod for pod in self._pods.by_index(OWNER, cluster.metadata.uid)}
        for uid, since in list(memory.leaving.items()):
            pod = own.get(uid)
            if pod is None or pod.leaving:
                del memory.leaving[uid]
            elif self._clock.monotonic() > since + _LONGEST_LAG:
                del memory.leaving[uid]
                memory.uncertain = True
            else:
                leaves_by = self._clock.now().timestamp()
                own[uid] = msgspec.structs.replace(pod, leaves_by=leaves_by)
        return self._build_observed(cluster, revision, memory, own.values(), claims)

    async def _observe_live(
        self, cluster: StatefulCluster, revision: str, memory: Memory, known: Observed
    ) -> Observed:
        """Return the state as the server has it now."""
        own = await self._reader.pods(cluster, known.pods)
        claims = await self._reader.claims(cluster) if known.spec.templates or known.claims else []
        names = missing_claims(cluster, own, claims)
        claims = [*claims, *await self._reader.claims_named(cluster.metadata.namespace, names)]
        memory.uncertain = False
        own = [pod for pod in own if pod.owner_uid == cluster.metadata.uid]
        return self._build_observed(cluster, revision, memory, own, claims)

    def _build_observed(
        self,
        cluster: StatefulCluster,
        revision: str,
        memory: Memory,
        own: Iterable[Pod],
        claims: Iterable[Claim],
    ) -> Observed:
        claims = tuple(claims)
        others = {pod.key: pod for pod in self._pods.by_index(UNOWNED, selector_index_key(cluster))}
        for claim in claims:
            users = self._pods.by_index(UNOWNED, mount_index_key(claim.key))
            others |= {pod.key: pod for pod in users if pod.owner_uid != cluster.metadata.uid}
        known = self._revisions.by_index(OWNER, cluster.metadata.uid)
        now = self._clock.now().timestamp()
        everyone = (*own, *others.values())
        memory.refusals = {key: each for key, each in memory.refusals.items() if now < each.again + _STALE}
        postponed = {key: each.again for key, each in memory.refusals.items()}
        refused, looks = dict(memory.refused), dict(memory.looks)
        return observe(cluster, revision, everyone, claims, known, now, refused, looks, postponed)

    async def _revision(self, cluster: StatefulCluster) -> tuple[str, int]:
        """Return the revision of the template, created if it is new, and the count of name collisions."""
        known = self._revisions.by_index(OWNER, cluster.metadata.uid)
        collisions = cluster.status.collision_count
        found = revisions.find(cluster, known)
        if found is not None:
            newest = revisions.next_number(known)
            if found.number + 1 < newest and not cluster.plan_only:
                await self._writer.renumber(cluster, found, newest)
            return found.name, collisions
        if cluster.plan_only:
            return revisions.name_for(cluster, collisions), collisions
        # The garbage collector may delete revisions before the cache has heard that the cluster is deleted.
        if not known and cluster.status.current_revision and not await self._reader.exists(cluster):
            raise ObjectDeleted(f"StatefulCluster {cluster.key} was deleted")
        for attempt in range(collisions, collisions + _MOST_COLLISIONS):
            name = revisions.name_for(cluster, attempt)
            made = await self._writer.make_revision(cluster, name, revisions.next_number(known))
            if made is not None:
                return made.name, attempt
        raise ForeignObject(desired.REVISIONS, ObjectKey(cluster.metadata.namespace, name))

    async def _delete_old_revisions(self, ctx: ReconcileContext) -> None:
        cluster = ctx.cluster
        known = self._revisions.by_index(OWNER, cluster.metadata.uid)
        kept = (ctx.observed.update_revision, ctx.context.status.current_revision)
        limit = cluster.spec.revision_history_limit
        for revision in revisions.to_forget(known, ctx.observed.pods, kept, limit):
            await self._writer.delete(desired.REVISIONS, revision)


def build(manager: Manager, *, workers: int = 8) -> StatefulClusterController:
    """Add the StatefulCluster controller to a manager."""
    builder = Builder(
        manager,
        "statefulcluster",
        STATEFULCLUSTERS,
        StatefulCluster,
        indexes={NAMESPACE: lambda cluster: (cluster.metadata.namespace,)},
    )

    def clusters_of(pod: Pod) -> Iterable[ObjectKey]:
        if pod.owner_name:
            return (ObjectKey(pod.key.namespace, pod.owner_name),)
        clusters = builder.primary.by_index(NAMESPACE, pod.key.namespace)
        return [cluster.key for cluster in clusters if selects(cluster, pod)]

    pods = builder.watches_reduced(
        desired.PODS,
        views.PodView,
        views.pod,
        clusters_of,
        indexes={OWNER: owner_index_keys, UNOWNED: unowned_index_keys},
    )
    claims = builder.watches_reduced(
        desired.CLAIMS,
        views.ClaimView,
        views.claim,
        lambda claim: (ObjectKey(claim.key.namespace, claim.cluster),),
        labels=CLUSTER_LABEL,
        indexes={OWNER: lambda claim: (f"{claim.key.namespace}/{claim.cluster}",)},
    )
    known = builder.watches_reduced(
        desired.REVISIONS,
        views.RevisionView,
        views.revision,
        lambda revision: (ObjectKey(revision.key.namespace, revision.owner_name),),
        labels=CLUSTER_LABEL,
        indexes={OWNER: lambda revision: (revision.owner_uid,)},
    )
    controller = StatefulClusterController(builder.client, builder.writes, builder.clock, pods, claims, known)
    builder.build(controller, workers=workers)
    return controller
