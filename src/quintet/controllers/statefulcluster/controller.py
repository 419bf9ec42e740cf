"""Brings the pods and claims of a StatefulCluster to what its spec says, one step per pass.

Called by `runtime.controller` with a key. The phases: revision → look → plan → write down → act.
What is about to be done is in the status before it is done (`actions.records_after`), under the
version that was looked at, so that whoever comes after us goes on with the same names.
"""

import dataclasses
import secrets
from collections.abc import Iterable

import msgspec

from quintet.apis.meta import ObjectKey
from quintet.apis.statefulcluster import (
    CLUSTER_LABEL,
    STATEFULCLUSTERS,
    SUFFIX_LENGTH,
    Draw,
    StatefulCluster,
)
from quintet.controllers.statefulcluster.context import Memory, ReconcileContext
from quintet.controllers.statefulcluster.decide import desired, plan, revisions, views
from quintet.controllers.statefulcluster.decide.actions import Act, Records, records_after
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
from quintet.controllers.statefulcluster.status_writer import ClusterStatusWriter
from quintet.controllers.statefulcluster.writer import ClaimNotUsable, ReplicaWriter
from quintet.controllers.suspension import unless_suspended
from quintet.kube.errors import BadRequest, Forbidden, Invalid, ServerFault, TooLarge, TooManyRequests
from quintet.runtime.apply import ForeignObject
from quintet.runtime.builder import Builder
from quintet.runtime.cache import Store
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Result

_REFUSALS = (Invalid, Forbidden, BadRequest, TooLarge)
_BUDGET_CAUSE = "DisruptionBudget"
_BLOCKED_AGAIN = 10.0
_MOST_COLLISIONS = 10
# A cache that has not seen what we did for so long is not to be relied upon.
_LONGEST_LAG = 60.0


class StatefulClusterController:
    """Reconciles StatefulClusters."""

    def __init__(
        self,
        builder: Builder[StatefulCluster],
        pods: Store[Pod],
        claims: Store[Claim],
        known: Store[Revision],
    ) -> None:
        self._builder = builder
        self._pods = pods
        self._claims = claims
        self._revisions = known
        self._writer = ReplicaWriter(builder.client, builder.writes, pods, claims, known)
        self._reader = LiveReader(builder.client)
        self._status_writer = ClusterStatusWriter(builder)
        self._memories: dict[ObjectKey, Memory] = {}

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at one StatefulCluster and take the next step."""
        cluster = self._builder.primary.get(key)
        if cluster is None:
            self._memories.pop(key, None)
            return Result.done()
        if cluster.metadata.deleting:
            return Result.done()  # the garbage collector takes what is ours by its owner references
        try:
            return await self._pass(cluster)
        except Forbidden as refusal:
            if not refusal.namespace_terminating:
                raise
            return Result.done()  # nothing can be made here any more

    async def _pass(self, cluster: StatefulCluster) -> Result:
        memory = self._memory(cluster)
        revision, collisions = await self._revision(cluster)
        observed = self._look(cluster, revision, memory)
        action = plan.plan(observed)
        now = ReconcileContext(cluster, observed, action, memory)
        if _wants_closer_look(now):
            observed = await self._look_closely(cluster, revision, memory, observed)
            action = plan.plan(observed)
            now = ReconcileContext(cluster, observed, action, memory)
            now.trusted = True
        now.collisions = collisions
        if not cluster.plan_only:
            now.records = records_after(observed, action, lambda: _suffix(observed), cluster.metadata.name)
        if not _recorded(now):
            await self._status_writer.write(now)
        if cluster.plan_only:
            return Result(action.after)
        result = await self._try(now)
        await self._forget_history(now)
        return result

    async def _try(self, now: ReconcileContext) -> Result:
        """Act, and deal with a refusal."""
        memory, action = now.memory, now.action
        try:
            result = await self._act(now)
        except (ForeignObject, ClaimNotUsable) as taken:
            return await self._draw_anew(now, taken)
        except (TooManyRequests, ServerFault) as refusal:
            trouble = await self._budget_trouble(now, refusal)
            if trouble is None:
                raise
            await self._status_writer.report(now, trouble)
            return Result.after(_BLOCKED_AGAIN)
        except _REFUSALS as refusal:
            text = f"{action.message}, but the API server refuses: {refusal.message}"
            await self._status_writer.report(now, ActionFailure("Refused", text))
            raise
        if memory.trouble is not None:
            memory.trouble = None
            await self._status_writer.write(now)
        return result

    async def _act(self, now: ReconcileContext) -> Result:
        cluster, action = now.cluster, now.action
        pod, claim = action.pod, action.claim
        match action.act:
            case Act.CREATE:
                draw = now.records.draws[-1]
                await self._make(now, draw)
                action = dataclasses.replace(action, message=f"replica {draw.replica}: {action.message}")
            case Act.MAKE if action.draw is not None:
                await self._make(now, action.draw)
            case Act.UPDATE | Act.REMOVE | Act.REPLACE if pod is not None:
                await self._remove(now, pod)
            case Act.ADOPT if pod is not None:
                await self._writer.own(cluster, desired.PODS, pod.key, pod.uid)
            case Act.REPAIR_CLAIMS:
                await self._writer.make_claims(cluster, action.group)
            case Act.SET_ASIDE:
                await self._set_aside(now, action.message)
            case Act.INVESTIGATE:
                return await self._investigate(now)
            case Act.OWN_CLAIM | Act.DISOWN_CLAIM if claim is not None:
                owned = action.act is Act.OWN_CLAIM
                await self._writer.own(cluster, desired.CLAIMS, claim.key, claim.uid, owned=owned)
            case Act.DELETE_CLAIM if claim is not None:
                await self._writer.delete(desired.CLAIMS, claim)
            case Act.EXPAND_CLAIM if claim is not None:
                if not await self._expand(now, claim):
                    return Result.after(0.0)
            case _:
                # Nothing but the record changed, which was written; or there is nothing to do but wait.
                again = action.act in (Act.FORGET, Act.REGROUP)
                return Result.after(0.0) if again else Result(action.after)
        self._status_writer.announce(now, action)
        # Most actions come back to us as a change of what was acted on; one that cannot must not be the last.
        return Result.after(0.0) if action.act is Act.EXPAND_CLAIM else Result.done()

    async def _remove(self, now: ReconcileContext, pod: Pod) -> None:
        now.memory.doubt = True  # until the answer is here
        await self._writer.remove_pod(pod, voluntary=now.action.voluntary)
        now.memory.doubt = False
        now.memory.leaving[pod.uid] = self._builder.clock.monotonic()

    async def _make(self, now: ReconcileContext, draw: Draw) -> None:
        """The claims first: a pod must never meet a group that is not complete."""
        cluster = now.cluster
        if draw.group:
            await self._writer.make_claims(cluster, draw.group)
        revision = plan.revision_for(now.observed, draw.replica)
        template = desired.template(cluster)
        if revision != now.observed.update_revision:
            template = await self._writer.template_of(cluster, revision)
        await self._writer.make_pod(cluster, draw, revision, template)

    async def _draw_anew(self, now: ReconcileContext, taken: Exception) -> Result:
        """What was drawn cannot be had: somebody else's object has that name, or the claims are going."""
        draw = now.action.draw or (now.records.draws[-1] if now.records.draws else None)
        if draw is None or now.action.act not in (Act.CREATE, Act.MAKE):
            await self._status_writer.report(now, ActionFailure("NameTaken", str(taken), blocked=True))
            return Result.after(_BLOCKED_AGAIN)
        others = tuple(each for each in now.records.draws if each != draw)
        if not (isinstance(taken, ForeignObject) and taken.resource == desired.PODS):
            others = (*others, Draw(draw.replica, _suffix(now.observed)))
        now.records = Records(others, now.records.retiring, now.records.setbacks)
        await self._status_writer.write(now)
        return Result.after(0.0)

    async def _set_aside(self, now: ReconcileContext, why: str) -> None:
        claims = [claim for claim in now.observed.claims if claim.group == now.action.group]
        await self._writer.set_aside(now.cluster, claims, why[:1024])

    async def _investigate(self, now: ReconcileContext) -> Result:
        """A pod finds no node: whether that is because of its volumes, only the volumes can tell."""
        pod, looked, clock = now.action.pod, now.memory.volumes_looked_at, self._builder.clock
        again = now.action.after or 0.0
        if pod is None:
            return Result.after(again)
        wait = looked.get(pod.uid, -again) + again - clock.monotonic()
        if wait > 0:
            return Result.after(wait)
        looked.clear()
        looked[pod.uid] = clock.monotonic()
        claims = [claim for claim in now.observed.claims if claim.group == now.action.group]
        if now.action.reason == plan.UNBOUND:
            why = await self._reader.never_bound(claims)
        else:
            why = await self._reader.lost_volume(claims, now.observed.now)
        if not why:
            return Result.after(again)
        await self._set_aside(now, why)
        self._status_writer.announce(now, dataclasses.replace(now.action, act=Act.SET_ASIDE, message=why))
        return Result.done()

    async def _expand(self, now: ReconcileContext, claim: Claim) -> bool:
        size = now.observed.wanted.sizes[claim.template]
        try:
            await self._writer.expand(now.cluster, claim, size)
        except (Forbidden, Invalid) as refusal:
            again = self._builder.clock.now().timestamp() + plan.REFUSED_FOR
            now.memory.refused[claim.name] = ExpansionRefusal(refusal.message, again)
            return False
        now.memory.refused.pop(claim.name, None)
        return True

    async def _budget_trouble(
        self, now: ReconcileContext, refusal: TooManyRequests | ServerFault
    ) -> ActionFailure | None:
        """Whether a disruption budget keeps a pod from leaving, and which."""
        pod = now.action.pod
        held = any(cause.reason == _BUDGET_CAUSE for cause in refusal.causes)
        if pod is None or not now.action.voluntary or (isinstance(refusal, TooManyRequests) and not held):
            return None
        names = await self._reader.budgets(pod)
        if isinstance(refusal, ServerFault) and len(names) < 2:
            return None  # the server itself is in trouble
        budgets = f"PodDisruptionBudget {' and '.join(names)}" if names else refusal.message
        step = (
            "wait until more pods are healthy, or let the budget allow one more disruption"
            if held
            else "no more than one budget may cover a pod, so change the selector of one of them"
        )
        text = f"{now.action.message}; {budgets} does not let pod {pod.name} go: {step}"
        return ActionFailure("DisruptionBudget", text, blocked=True)

    def _memory(self, cluster: StatefulCluster) -> Memory:
        memory = self._memories.setdefault(cluster.key, Memory())
        if memory.generation != cluster.metadata.generation:
            memory.generation = cluster.metadata.generation
            memory.refused.clear()
        return memory

    def _look(self, cluster: StatefulCluster, revision: str, memory: Memory) -> Observed:
        """What the caches know, and what we have done that they do not know yet."""
        own = {pod.uid: pod for pod in self._pods.by_index(OWNER, cluster.metadata.uid)}
        for uid, since in list(memory.leaving.items()):
            pod = own.get(uid)
            if pod is None or pod.leaving:
                del memory.leaving[uid]
            elif self._builder.clock.monotonic() > since + _LONGEST_LAG:
                del memory.leaving[uid]
                memory.doubt = True
            else:
                leaves_by = self._builder.clock.now().timestamp()
                own[uid] = msgspec.structs.replace(pod, leaves_by=leaves_by)
        claims = self._claims.by_index(OWNER, str(cluster.key))
        return self._observed(cluster, revision, memory, own.values(), claims)

    async def _look_closely(
        self, cluster: StatefulCluster, revision: str, memory: Memory, known: Observed
    ) -> Observed:
        """What the server knows now."""
        own = await self._reader.pods(cluster, known.pods)
        claims = await self._reader.claims(cluster) if known.wanted.templates or known.claims else ()
        memory.doubt = False
        own = [pod for pod in own if pod.owner_uid == cluster.metadata.uid]
        return self._observed(cluster, revision, memory, own, claims)

    def _observed(
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
        now = self._builder.clock.now().timestamp()
        return observe(cluster, revision, (*own, *others.values()), claims, known, now, dict(memory.refused))

    async def _revision(self, cluster: StatefulCluster) -> tuple[str, int]:
        """The revision of the template, made if it is new; and how many names were taken."""
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

    async def _forget_history(self, now: ReconcileContext) -> None:
        cluster = now.cluster
        known = self._revisions.by_index(OWNER, cluster.metadata.uid)
        kept = (now.observed.update_revision, now.written.current_revision)
        limit = cluster.spec.revision_history_limit
        for revision in revisions.to_forget(known, now.observed.pods, kept, limit):
            await self._writer.delete(desired.REVISIONS, revision)


def _recorded(now: ReconcileContext) -> bool:
    """Whether what is to be done was written down before: then the pod that is made brings us back."""
    making = now.action.act is Act.MAKE and now.memory.trouble is None and not now.cluster.plan_only
    same = now.cluster.status.observed_generation == now.cluster.metadata.generation
    return making and same and now.records.draws == now.cluster.status.draws


def _wants_closer_look(now: ReconcileContext) -> bool:
    """Whether a cache is not enough for what is to be done."""
    if now.action.act is Act.CREATE:
        # A replica that the status names and the cache does not show is gone, or not seen yet.
        seen = {pod.name for pod in now.observed.pods} | {draw.replica for draw in now.observed.draws}
        return not seen.issuperset(now.cluster.status.replica_names)
    unsure = now.memory.doubt or not now.trusted or now.action.act is Act.DELETE_CLAIM
    return now.action.destroys and unsure


def _suffix(observed: Observed) -> str:
    """A new draw, one that nothing here is called by."""
    taken = {claim.group for claim in observed.claims}
    taken |= {name.rpartition("-")[2] for name in observed.names()}
    taken |= {pod.name.rpartition("-")[2] for pod in observed.pods}
    while True:
        suffix = "".join(secrets.choice(desired.ALPHABET) for _ in range(SUFFIX_LENGTH))
        if suffix not in taken:
            return suffix


def build(manager: Manager, *, workers: int = 8) -> StatefulClusterController:
    """Wire the controller into a process."""
    builder = Builder(
        manager,
        "statefulcluster",
        STATEFULCLUSTERS,
        StatefulCluster,
        indexes={NAMESPACE: lambda cluster: (cluster.metadata.namespace,)},
    )

    def concerned(pod: Pod) -> Iterable[ObjectKey]:
        if pod.owner_name:
            return (ObjectKey(pod.key.namespace, pod.owner_name),)
        clusters = builder.primary.by_index(NAMESPACE, pod.key.namespace)
        return [cluster.key for cluster in clusters if selects(cluster, pod)]

    pods = builder.keeps(
        desired.PODS,
        views.PodView,
        views.pod,
        concerned,
        indexes={OWNER: owner_index_keys, UNOWNED: unowned_index_keys},
    )
    claims = builder.keeps(
        desired.CLAIMS,
        views.ClaimView,
        views.claim,
        lambda claim: (ObjectKey(claim.key.namespace, claim.cluster),),
        labels=CLUSTER_LABEL,
        indexes={OWNER: lambda claim: (f"{claim.key.namespace}/{claim.cluster}",)},
    )
    known = builder.keeps(
        desired.REVISIONS,
        views.RevisionView,
        views.revision,
        lambda revision: (ObjectKey(revision.key.namespace, revision.owner_name),),
        labels=CLUSTER_LABEL,
        indexes={OWNER: lambda revision: (revision.owner_uid,)},
    )
    controller = StatefulClusterController(builder, pods, claims, known)
    builder.build(unless_suspended(builder, controller.reconcile), workers=workers)
    return controller
