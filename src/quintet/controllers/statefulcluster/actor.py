"""Carries out the planned action, and reports why it fails."""

import dataclasses

from quintet.apis.statefulcluster import Draw
from quintet.clock import Clock
from quintet.controllers.statefulcluster.context import ReconcileContext, draw_suffix
from quintet.controllers.statefulcluster.decide import desired, plan
from quintet.controllers.statefulcluster.decide.actions import Act, Records
from quintet.controllers.statefulcluster.decide.observed import Claim, ExpansionRefusal, Pod
from quintet.controllers.statefulcluster.decide.status import ActionFailure
from quintet.controllers.statefulcluster.reader import LiveReader
from quintet.controllers.statefulcluster.writer import ClaimNotUsable, ReplicaWriter
from quintet.kube.errors import BadRequest, Forbidden, Invalid, ServerFault, TooLarge, TooManyRequests
from quintet.runtime.apply import ForeignObject
from quintet.runtime.reconcile import Outcome

_REFUSALS = (Invalid, Forbidden, BadRequest, TooLarge)
_BUDGET_CAUSE = "DisruptionBudget"
_BLOCKED_SECONDS = 10.0


class Actor:
    """Carries out actions with a writer; a refusal becomes part of the status."""

    def __init__(self, writer: ReplicaWriter, reader: LiveReader, clock: Clock) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock

    async def act(self, ctx: ReconcileContext) -> Outcome:
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
            await ctx.report(failure, _BLOCKED_SECONDS)
            return Outcome(requeue_after=0.0)
        except _REFUSALS as refusal:
            text = f"{action.message}, but the API server refused it: {refusal.message}"
            await ctx.report(ActionFailure("Refused", text))
            raise
        if memory.refusals.pop(action.concern, None) is not None:
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
            case Act.REPAIR_CLAIMS | Act.SET_ASIDE | Act.USE_AGAIN:
                await self._change_group(ctx)
            case Act.RELABEL if claim is not None:
                await self._writer.relabel(cluster, claim)
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
            await ctx.report(ActionFailure("NameTaken", str(taken), blocked=True), _BLOCKED_SECONDS)
            return Outcome(requeue_after=0.0)
        others = tuple(each for each in ctx.records.draws if each != draw)
        if not (isinstance(taken, ForeignObject) and taken.resource == desired.PODS):
            others = (*others, Draw(draw.replica, draw_suffix(ctx.observed)))
        ctx.records = Records(others, ctx.records.retiring, ctx.records.setbacks)
        await ctx.write_status()
        return Outcome(requeue_after=0.0)

    async def _change_group(self, ctx: ReconcileContext) -> None:
        action, cluster = ctx.action, ctx.cluster
        claims = [claim for claim in ctx.observed.claims if claim.group == action.group]
        match action.act:
            case Act.REPAIR_CLAIMS:
                await self._writer.make_claims(cluster, action.group)
            case Act.SET_ASIDE:
                await self._writer.set_aside(cluster, claims, action.message[:1024])
            case Act.USE_AGAIN:
                await self._writer.use_again(cluster, claims)

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
