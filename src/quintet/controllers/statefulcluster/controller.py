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
    Draw,
    StatefulCluster,
    StatefulClusterStatus,
)
from quintet.clock import Clock
from quintet.controllers.statefulcluster.context import Memory, ReconcileContext, draw_suffix
from quintet.controllers.statefulcluster.decide import desired, plan, revisions, views
from quintet.controllers.statefulcluster.decide.actions import Act, Records, records_after
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
from quintet.controllers.statefulcluster.decide.observe import observe, selects
from quintet.controllers.statefulcluster.decide.observed import (
    Claim,
    ExpansionRefusal,
    Observed,
    Pod,
    Revision,
)
from quintet.controllers.statefulcluster.decide.status import ActionFailure
from quintet.controllers.statefulcluster.reader import LiveReader
from quintet.controllers.statefulcluster.writer import ClaimNotUsable, ReplicaWriter
from quintet.kube.client import Client
from quintet.kube.errors import BadRequest, Forbidden, Invalid, ServerFault, TooLarge, TooManyRequests
from quintet.runtime.apply import ForeignObject
from quintet.runtime.builder import Builder
from quintet.runtime.cache import Store
from quintet.runtime.events import Event
from quintet.runtime.manager import Manager
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.reconcile import Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler

_REFUSALS = (Invalid, Forbidden, BadRequest, TooLarge)
_BUDGET_CAUSE = "DisruptionBudget"
_BLOCKED_SECONDS = 10.0
_MOST_COLLISIONS = 10
# The controller does not trust a cache that has not seen one of its own writes for this long.
_LONGEST_LAG = 60.0


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
        observed = self._observe(cluster, revision, memory)
        action = plan.plan(observed)
        ctx = ReconcileContext(cluster, context, observed, action, memory)
        if ctx.needs_live_state:
            observed = await self._observe_live(cluster, revision, memory, observed)
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
        outcome = await self._act_and_report(ctx)
        await self._delete_old_revisions(ctx)
        return outcome

    async def _act_and_report(self, ctx: ReconcileContext) -> Outcome:
        """Act, and report a refusal in the status."""
        memory, action = ctx.memory, ctx.action
        try:
            outcome = await self._act(ctx)
        except (ForeignObject, ClaimNotUsable) as taken:
            return await self._draw_another_name(ctx, taken)
        except (TooManyRequests, ServerFault) as refusal:
            failure = await self._find_blocking_budget(ctx, refusal)
            if failure is None:
                raise
            await ctx.report(failure)
            return Outcome(requeue_after=_BLOCKED_SECONDS)
        except _REFUSALS as refusal:
            text = f"{action.message}, but the API server refused it: {refusal.message}"
            await ctx.report(ActionFailure("Refused", text))
            raise
        if memory.failure is not None:
            memory.failure = None
            await ctx.write_status()
        return outcome

    async def _act(self, ctx: ReconcileContext) -> Outcome:
        cluster, action = ctx.cluster, ctx.action
        pod, claim = action.pod, action.claim
        match action.act:
            case Act.CREATE:
                draw = ctx.records.draws[-1]
                await self._create_replica(ctx, draw)
                action = dataclasses.replace(action, message=f"replica {draw.replica}: {action.message}")
            case Act.MAKE if action.draw is not None:
                await self._create_replica(ctx, action.draw)
            case Act.UPDATE | Act.REMOVE | Act.REPLACE if pod is not None:
                return await self._remove(ctx, pod)
            case Act.ADOPT if pod is not None:
                await self._writer.own(cluster, desired.PODS, pod.key, pod.uid)
            case Act.REPAIR_CLAIMS:
                await self._writer.make_claims(cluster, action.group)
            case Act.SET_ASIDE:
                await self._set_aside(ctx, action.message)
            case Act.INVESTIGATE:
                return await self._investigate(ctx)
            case Act.OWN_CLAIM | Act.DISOWN_CLAIM if claim is not None:
                owned = action.act is Act.OWN_CLAIM
                await self._writer.own(cluster, desired.CLAIMS, claim.key, claim.uid, owned=owned)
            case Act.DELETE_CLAIM if claim is not None:
                await self._writer.delete(desired.CLAIMS, claim)
            case Act.EXPAND_CLAIM if claim is not None:
                if not await self._expand(ctx, claim):
                    return Outcome(requeue_after=0.0)
            case _:
                # Only the records changed, which are written already; or the controller waits.
                again = action.act in (Act.FORGET, Act.REGROUP)
                return Outcome(requeue_after=0.0 if again else action.after)
        ctx.announce(action)
        # Most actions change an object, which requeues the key; the expansion of a claim may not.
        return Outcome(requeue_after=0.0 if action.act is Act.EXPAND_CLAIM else None)

    async def _remove(self, ctx: ReconcileContext, pod: Pod) -> Outcome:
        """Remove a pod, unless it was to be deleted as unready and has become ready."""
        ctx.memory.uncertain = True  # until the server has responded
        removed = await self._writer.remove_pod(pod, voluntary=ctx.action.voluntary)
        ctx.memory.uncertain = False
        if not removed:
            return Outcome(requeue_after=plan.POLL)
        ctx.memory.leaving[pod.uid] = self._clock.monotonic()
        ctx.announce(ctx.action)
        return Outcome()

    async def _create_replica(self, ctx: ReconcileContext, draw: Draw) -> None:
        """Create the claims, then the pod: a pod must never start with an incomplete group of claims."""
        cluster = ctx.cluster
        if draw.group:
            await self._writer.make_claims(cluster, draw.group)
        revision = plan.revision_for(ctx.observed, draw.replica)
        template = desired.template(cluster)
        if revision != ctx.observed.update_revision:
            template = await self._writer.template_of(cluster, revision)
        await self._writer.make_pod(cluster, draw, revision, template)

    async def _draw_another_name(self, ctx: ReconcileContext, taken: Exception) -> Outcome:
        """Draw another name: a foreign object has this one, or its claims are being deleted."""
        draw = ctx.action.draw or (ctx.records.draws[-1] if ctx.records.draws else None)
        if draw is None or ctx.action.act not in (Act.CREATE, Act.MAKE):
            await ctx.report(ActionFailure("NameTaken", str(taken), blocked=True))
            return Outcome(requeue_after=_BLOCKED_SECONDS)
        others = tuple(each for each in ctx.records.draws if each != draw)
        if not (isinstance(taken, ForeignObject) and taken.resource == desired.PODS):
            others = (*others, Draw(draw.replica, draw_suffix(ctx.observed)))
        ctx.records = Records(others, ctx.records.retiring, ctx.records.setbacks)
        await ctx.write_status()
        return Outcome(requeue_after=0.0)

    async def _set_aside(self, ctx: ReconcileContext, why: str) -> None:
        claims = [claim for claim in ctx.observed.claims if claim.group == ctx.action.group]
        await self._writer.set_aside(ctx.cluster, claims, why[:1024])

    async def _investigate(self, ctx: ReconcileContext) -> Outcome:
        """Set the claims of an unschedulable pod aside if its volumes are the cause."""
        pod, looked, clock = ctx.action.pod, ctx.memory.volumes_looked_at, self._clock
        again = ctx.action.after or 0.0
        if pod is None:
            return Outcome(requeue_after=again)
        wait = looked.get(pod.uid, -again) + again - clock.monotonic()
        if wait > 0:
            return Outcome(requeue_after=wait)
        looked.clear()
        looked[pod.uid] = clock.monotonic()
        claims = [claim for claim in ctx.observed.claims if claim.group == ctx.action.group]
        if ctx.action.reason == plan.UNBOUND:
            why = await self._reader.never_bound(claims)
        else:
            why = await self._reader.lost_volume(claims, ctx.observed.now)
        if not why:
            return Outcome(requeue_after=again)
        await self._set_aside(ctx, why)
        ctx.announce(dataclasses.replace(ctx.action, act=Act.SET_ASIDE, message=why))
        return Outcome()

    async def _expand(self, ctx: ReconcileContext, claim: Claim) -> bool:
        size = ctx.observed.spec.sizes[claim.template]
        try:
            await self._writer.expand(ctx.cluster, claim, size)
        except (Forbidden, Invalid) as refusal:
            again = self._clock.now().timestamp() + plan.REFUSED_FOR
            ctx.memory.refused[claim.name] = ExpansionRefusal(refusal.message, again)
            return False
        ctx.memory.refused.pop(claim.name, None)
        return True

    async def _find_blocking_budget(
        self, ctx: ReconcileContext, refusal: TooManyRequests | ServerFault
    ) -> ActionFailure | None:
        """Return which disruption budget refuses an eviction; None if the cause is another."""
        pod = ctx.action.pod
        held = any(cause.reason == _BUDGET_CAUSE for cause in refusal.causes)
        if pod is None or not ctx.action.voluntary or (isinstance(refusal, TooManyRequests) and not held):
            return None
        names = await self._reader.budgets(pod)
        if isinstance(refusal, ServerFault) and len(names) < 2:
            return None  # the server itself fails
        budgets = f"PodDisruptionBudget {' and '.join(names)}" if names else refusal.message
        step = (
            "wait until more pods are healthy, or allow more disruptions in the budget"
            if held
            else "a pod may be covered by only one budget: change the selector of one of them"
        )
        text = f"{ctx.action.message}; {budgets} prevents the eviction of pod {pod.name}: {step}"
        return ActionFailure("DisruptionBudget", text, blocked=True)

    def _memory(self, cluster: StatefulCluster) -> Memory:
        memory = self._memories.setdefault(cluster.key, Memory())
        if memory.generation != cluster.metadata.generation:
            memory.generation = cluster.metadata.generation
            memory.refused.clear()
        return memory

    def _observe(self, cluster: StatefulCluster, revision: str, memory: Memory) -> Observed:
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
        claims = self._claims.by_index(OWNER, str(cluster.key))
        return self._build_observed(cluster, revision, memory, own.values(), claims)

    async def _observe_live(
        self, cluster: StatefulCluster, revision: str, memory: Memory, known: Observed
    ) -> Observed:
        """Return the state as the server has it now."""
        own = await self._reader.pods(cluster, known.pods)
        claims = await self._reader.claims(cluster) if known.spec.templates or known.claims else ()
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
        return observe(cluster, revision, (*own, *others.values()), claims, known, now, dict(memory.refused))

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
