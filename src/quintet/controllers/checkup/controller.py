"""Reconciles Checkups: one Job per run, and a verdict when it ends.

The phases of a run: validate the spec → create the ConfigMap, the Role and RoleBinding, then the Job →
observe → save the evidence, write the verdict, and only then stop what still runs. A verdict stays until
somebody requests a rerun.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from quintet.apis.checkup import CHECKUPS, Checkup, CheckupStatus, Phase, Verdict
from quintet.apis.checkup.results import Results
from quintet.apis.checkup.types import FINALIZER
from quintet.apis.checkup.validation import spec_errors
from quintet.apis.meta import Object, ObjectKey
from quintet.clock import Clock, timestamp
from quintet.controllers.checkup import evidence, metrics
from quintet.controllers.checkup.caches import BY_ACCOUNT, CheckupCaches, account_of
from quintet.controllers.checkup.decide import desired, scheduling, timing, verdict
from quintet.controllers.checkup.decide import status as statuses
from quintet.controllers.checkup.decide.desired import run_name
from quintet.controllers.checkup.decide.observed import (
    CheckupPod,
    JobState,
    Obstacle,
    ObstacleReason,
    obstacle,
)
from quintet.controllers.checkup.decide.verdict import Ending
from quintet.controllers.checkup.setup import Setup
from quintet.controllers.checkup.teardown import Teardown
from quintet.kube.client import Client
from quintet.kube.errors import Conflict, KubeError, NotFound
from quintet.kube.rates import RepairBudget
from quintet.runtime.apply import Children
from quintet.runtime.builder import Builder
from quintet.runtime.events import NORMAL, WARNING, Event
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run of a Checkup in one reconcile."""

    checkup: Checkup
    context: Context[Checkup]
    status: CheckupStatus
    """The status so far; `checkup.status` is the stored one."""
    now: datetime

    @property
    def job_key(self) -> ObjectKey:
        """Return the key of its Job; all its objects have the same name."""
        return ObjectKey(self.checkup.metadata.namespace, run_name(self.checkup, self.status.run))

    @property
    def started_at(self) -> datetime:
        """Return when it started."""
        return timing.parse_time(self.status.start_time) or self.now


class CheckupController(ObjectReconciler[Checkup]):
    """Reconciles Checkups."""

    finalizer = FINALIZER

    def __init__(
        self,
        client: Client,
        children: Children,
        clock: Clock,
        sources: CheckupCaches,
        limits: timing.TimeLimits,
    ) -> None:
        self._client = client
        self._children = children
        self._clock = clock
        self._sources = sources
        self._limits = limits
        self._setup = Setup(children, sources)
        self._verdicts = metrics.LastVerdicts()
        self._progress_written_at: dict[str, float] = {}
        self._read_events_at: dict[str, float] = {}
        self._teardown = Teardown(client, children, clock, sources, limits)
        self._relabel_budget = RepairBudget(clock)

    async def reconcile(self, checkup: Checkup, context: Context[Checkup]) -> Outcome:
        if statuses.is_running(checkup):
            return await self._continue(checkup, context)
        if statuses.is_over(checkup):
            await self._teardown.stop(checkup, checkup.status)
            self._update_metrics(checkup)
        now = self._clock.now()
        plan = scheduling.plan(
            checkup,
            now,
            cancelled=statuses.is_cancel_requested(checkup),
            retrying=statuses.is_retrying(checkup),
        )
        if plan.due is None and not statuses.is_run_requested(checkup):
            if (left := scheduling.time_to_live(checkup, now)) is not None and left <= 0:
                return await self._delete(checkup)
            return await self._rest(checkup, plan, left)
        if checkup.status.run > 0 and not await self._tear_down(checkup):
            return Outcome(requeue_after=self._limits.look_again)
        return await self._follow(checkup, context, statuses.started_status(checkup, plan, timestamp(now)))

    async def _continue(self, checkup: Checkup, context: Context[Checkup]) -> Outcome:
        """Advance a run by one step, or end it for the next one of its schedule."""
        next_run = scheduling.must_replace(checkup, self._clock.now())
        if next_run is None or next_run.delay is None:
            return await self._follow(checkup, context, checkup.status)
        if next_run.due is not None:
            run = self._with_job(RunContext(checkup, context, checkup.status, self._clock.now()))
            return await self._end(run, verdict.replaced_ending(), self._pod(run))
        outcome = await self._follow(checkup, context, checkup.status)
        delay = min(next_run.delay, outcome.requeue_after or next_run.delay)
        return replace(outcome, requeue_after=delay)

    async def _delete(self, checkup: Checkup) -> Outcome:
        """Delete a Checkup whose time to live has passed, unless somebody has just changed it."""
        meta = checkup.metadata
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(
                CHECKUPS, checkup.key, uid=meta.uid, resource_version=meta.resource_version
            )
        return Outcome()

    async def _rest(self, checkup: Checkup, plan: scheduling.RunPlan, left: float | None) -> Outcome:
        """Wait for the next run of the schedule, for a rerun, or for the end of the time to live."""
        status = plan.status
        if not statuses.is_over(checkup):
            if errors := spec_errors(msgspec.to_builtins(checkup.spec)):
                return Outcome(
                    statuses.invalid_status(checkup, "; ".join(map(str, errors)), self._clock.now())
                )
            status = statuses.scheduled_status(checkup, status)
        again = None if await self._teardown.delete_unrecorded_run(checkup) else self._limits.look_again
        delays = [delay for delay in (plan.delay, left, again) if delay is not None]
        return Outcome(status if status != checkup.status else None, min(delays, default=None))

    async def finalize(self, checkup: Checkup, context: Context[Checkup]) -> Outcome | None:
        self._verdicts.forget(checkup.key)
        self._forget_run(checkup)
        if await self._teardown.delete_all(checkup):
            return None
        # The deletion of each child requeues the key; the delay is for one that the watch misses.
        return Outcome(requeue_after=self._limits.look_again)

    async def forget(self, key: ObjectKey) -> None:
        self._verdicts.forget(key)

    def events(self, checkup: Checkup, before: CheckupStatus, after: CheckupStatus) -> Iterable[Event]:
        """Return an Event for a verdict or for what keeps a checkup from running; progress needs none."""
        if after.missed_runs > before.missed_runs:
            missed = after.missed_runs - before.missed_runs
            yield Event(
                WARNING,
                "RunsMissed",
                f"{missed} runs of the schedule were missed; {after.missed_runs} so far.",
            )
        if after.phase is Phase.RETRYING:
            if before.phase is not after.phase:
                yield Event(WARNING, "Retrying", after.message)
            return
        if (after.reason, after.verdict) == (before.reason, before.verdict):
            return
        if after.verdict is None and after.reason not in set(ObstacleReason):
            return
        kind = NORMAL if after.verdict is Verdict.PASSED else WARNING
        reason = f"{after.verdict}" if after.verdict is not None else after.reason
        yield Event(kind, reason, after.message)

    async def _follow(self, checkup: Checkup, context: Context[Checkup], status: CheckupStatus) -> Outcome:
        """Advance a run by one step; its status may not be stored yet."""
        run = self._with_job(RunContext(checkup, context, status, self._clock.now()))
        if status.run != checkup.status.run and (errors := spec_errors(msgspec.to_builtins(checkup.spec))):
            return Outcome(statuses.invalid_status(checkup, "; ".join(map(str, errors)), run.now))
        if statuses.is_cancel_requested(checkup):
            return await self._end(run, verdict.cancelled_ending(), self._pod(run))
        if not run.status.job_uid:
            return await self._set_up(run)
        return await self._observe(run)

    def _with_job(self, run: RunContext) -> RunContext:
        """Return the run with its Job; a process that crashed may have created one without recording it."""
        job = self._sources.jobs.get(run.job_key)
        if run.status.job_uid or job is None or job.owner_uid != run.checkup.metadata.uid:
            return run
        return replace(run, status=statuses.with_job(run.status, run.job_key.name, job.uid))

    async def _set_up(self, run: RunContext) -> Outcome:
        """Create the children of a run, the Job last."""
        name = run.job_key.name
        try:
            made = await self._setup.ensure(run.checkup, name, run.status.run)
        except KubeError as error:
            trouble = Obstacle(ObstacleReason.SETUP_FAILED, f"the run could not be set up: {error}")
            return Outcome(statuses.waiting_status(run.checkup, run.status, trouble), failures=[error])
        if isinstance(made, Obstacle):
            return await self._wait(run, None, made)
        status = statuses.with_job(run.status, name, made.uid)
        return Outcome(statuses.waiting_status(run.checkup, status, None), self._limits.no_pod)

    async def _observe(self, run: RunContext) -> Outcome:
        """Observe the Job and its pod."""
        job = self._sources.jobs.get(run.job_key)
        if job is None or job.uid != run.status.job_uid:
            state = await self._read_missing_job(run)
            if state is None:
                return await self._end(run, verdict.job_deleted_ending(run.job_key.name), self._pod(run))
            return (
                await self._end_with_job(run, state)
                if state.succeeded is not None
                else Outcome(requeue_after=1.0)
            )
        if job.state.succeeded is not None:
            return await self._end_with_job(run, job.state)
        if job.deleting:
            return await self._end(run, verdict.job_deleted_ending(run.job_key.name), self._pod(run))
        pod = self._pod(run)
        if pod is not None and pod.metadata.deleting and not pod.has_ended:
            return await self._end_without_pod(run, pod)
        if pod is not None and (outcome := pod.as_of_job) is not None:
            # The status of its Job is late, or other containers of the pod still run.
            return await self._end_with_job(run, outcome)
        since = pod.running_since if pod is not None else None
        if pod is None or since is None:
            return await self._wait(run, pod, await self._obstacle(run, pod))
        # No container is older than its Job: a node whose clock is behind must not shorten the deadline.
        began = max(since, self._waiting_since(run))
        deadline = timing.run_deadline(began, run.checkup.spec.seconds, self._limits)
        if run.now >= deadline:
            return await self._end_late(run, pod, None)
        return await self._show_progress(run, deadline)

    async def _end_without_pod(self, run: RunContext, pod: CheckupPod) -> Outcome:
        """End a run whose pod somebody deleted, now: when its Job fails, the log may be gone."""
        # Deleting a Job deletes its pod, and the watch on pods may be ahead of the one on Jobs.
        job = await self._sources.live_job(run.job_key)
        if job is None or job.metadata.deleting or job.metadata.uid != run.status.job_uid:
            return await self._end(run, verdict.job_deleted_ending(run.job_key.name), pod)
        return await self._end(run, verdict.pod_deleted_ending(pod), pod)

    async def _wait(self, run: RunContext, pod: CheckupPod | None, found: Obstacle | None) -> Outcome:
        """Report why the checkup does not run yet, and give up at the deadline."""
        deadline = timing.start_deadline(self._waiting_since(run), run.checkup.spec.seconds, self._limits)
        if found is not None and found.lasting:
            return await self._end(run, verdict.ending_of_obstacle(found), pod)
        if run.now >= deadline:
            return await self._end_late(run, pod, found)
        delay = (deadline - run.now).total_seconds()
        if pod is None:
            delay = min(delay, self._limits.look_again if found is not None else self._limits.no_pod)
        return Outcome(statuses.waiting_status(run.checkup, run.status, found), max(delay, 0.05))

    async def _obstacle(self, run: RunContext, pod: CheckupPod | None) -> Obstacle | None:
        """Return what keeps the pod from running.

        Only Events explain why there is no pod; the controller reads them less and less often.
        """
        if pod is not None:
            mounts = self._sources.mounts.messages(pod.metadata.uid)
            return obstacle(pod, mounts, statuses.reported_obstacle(run.status))
        uid = run.status.job_uid
        known = run.status.reason == ObstacleReason.NO_POD.value
        age = (run.now - self._waiting_since(run)).total_seconds()
        if age < self._read_events_at.get(uid, self._limits.no_pod):
            return Obstacle(ObstacleReason.NO_POD, run.status.message) if known else None
        self._read_events_at[uid] = 2 * age
        return await self._find_pod_obstacle(run)

    async def _find_pod_obstacle(self, run: RunContext) -> Obstacle | None:
        notes = await evidence.events(self._client, run.checkup.metadata.namespace, run.status.job_uid)
        failed = [note.message for note in notes if note.reason == "FailedCreate"]
        if not failed:
            return None
        return Obstacle(ObstacleReason.NO_POD, f"Job {run.status.job} cannot create its pod: {failed[-1]}")

    async def _show_progress(self, run: RunContext, deadline: datetime) -> Outcome:
        """Write the results so far to the status, but not as often as the checkup writes them."""
        child = self._sources.results.get(run.job_key)
        results = child.state if child is not None else Results()
        left = (deadline - run.now).total_seconds()
        uid, moment = run.checkup.metadata.uid, self._clock.monotonic()
        rest = self._limits.partial - (moment - self._progress_written_at.get(uid, -self._limits.partial))
        if run.status.phase is Phase.RUNNING and rest > 0:
            return Outcome(requeue_after=max(min(rest, left), 0.05))
        if await run.context.write_status(statuses.running_status(run.checkup, run.status, results)):
            self._progress_written_at[uid] = moment
        return Outcome(requeue_after=max(left, 0.05))

    async def _end_with_job(self, run: RunContext, job: JobState) -> Outcome:
        """Return the verdict of a Job that has ended."""
        pod = self._pod(run)
        if not job.succeeded and (pod is None or not pod.has_ended):
            pod = await self._live_pod(run, pod)  # its termination message may not have reached the cache
        results = await self._results(run)
        return await self._end(
            run, verdict.ending_of_job(job, pod, results), pod, results, job.ended or run.now
        )

    async def _end_late(self, run: RunContext, pod: CheckupPod | None, found: Obstacle | None) -> Outcome:
        """End a run at its deadline."""
        if pod is None and found is None and run.status.job_uid:
            found = await self._find_pod_obstacle(run)
        results = await self._results(run)
        ending = verdict.ending_at_deadline(pod, found, run.checkup.spec.seconds, results)
        return await self._end(run, ending, pod, results)

    async def _end(
        self,
        run: RunContext,
        ending: Ending,
        pod: CheckupPod | None,
        results: Results | None = None,
        at: datetime | None = None,
    ) -> Outcome:
        """Save the evidence, write the verdict, and stop what still runs, in this order."""
        seen = None
        if ending.verdict is not Verdict.PASSED and run.status.job_uid:
            namespace = run.checkup.metadata.namespace
            seen = await evidence.gather(self._client, namespace, run.status.job_uid, pod)
            job = self._sources.jobs.get(run.job_key)
            if at is None and job is not None and job.state.succeeded is not None:
                return await self._end_with_job(run, job.state)  # it ended while the evidence was collected
        if run.status.job_uid and self._sources.jobs.get(run.job_key) is None:
            await self._read_missing_job(run)  # `stop` needs the Job in the cache
        found = results or (await self._results(run) if run.status.job_uid else Results())
        status = statuses.ended_status(run.checkup, run.status, ending, found, seen, timestamp(at or run.now))
        await run.context.write_status(status)
        over = msgspec.structs.replace(run.checkup, status=status)
        metrics.count(over)
        self._update_metrics(over)
        await self._teardown.stop(run.checkup, status)
        spec = run.checkup.spec
        goes_on = spec.schedule or spec.has_ttl or statuses.is_run_requested(over)
        return Outcome(requeue_after=0.05) if goes_on else Outcome()

    async def _tear_down(self, checkup: Checkup) -> bool:
        """Delete the objects of the last run; return whether all of them are gone."""
        self._forget_run(checkup)
        return await self._teardown.delete(checkup, checkup.status.run)

    def _forget_run(self, checkup: Checkup) -> None:
        self._progress_written_at.pop(checkup.metadata.uid, None)
        self._read_events_at.pop(checkup.status.job_uid, None)

    def _waiting_since(self, run: RunContext) -> datetime:
        """Return when the wait for the pod began: the creation of the Job, else the start of the run."""
        job = self._sources.jobs.get(run.job_key)
        return (job.state.created if job is not None else None) or run.started_at

    def _pod(self, run: RunContext) -> CheckupPod | None:
        uid = run.status.job_uid
        pods = self._sources.pods_of_run(run.checkup, run.status.run)
        made = [pod for pod in pods if pod.made_by(uid)]
        return max(made, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)

    async def _live_pod(self, run: RunContext, known: CheckupPod | None) -> CheckupPod | None:
        live = await self._sources.live_pods(run.checkup)
        return next((pod for pod in live if pod.made_by(run.status.job_uid)), known)

    async def _read_missing_job(self, run: RunContext) -> JobState | None:
        """Return the state of a Job that is missing in the cache, and restore labels that it has lost."""
        live, labels = await self._sources.live_job(run.job_key), desired.child_labels(run.checkup)
        if live is None or live.metadata.uid != run.status.job_uid:
            return None
        lost = not labels.items() <= live.metadata.labels.items()
        if lost and live.state.succeeded is None and self._relabel_budget.wait(run.status.job_uid) == 0:
            body = {"metadata": {"uid": run.status.job_uid, "labels": labels}}
            with contextlib.suppress(NotFound):
                await self._client.patch(desired.JOBS, run.job_key, body, Object)
        return live.state

    async def _results(self, run: RunContext) -> Results:
        """Read the results from the server: the watch on Jobs may be ahead of the one on ConfigMaps."""
        return await self._sources.live_results(run.job_key, run.checkup)

    def _update_metrics(self, checkup: Checkup) -> None:
        if checkup.status.verdict is not None:
            self._verdicts.show(checkup.key, checkup.status.verdict)
            self._forget_run(checkup)


def build(
    manager: Manager, *, limits: timing.TimeLimits | None = None, workers: int = 8
) -> CheckupController:
    """Add the Checkup controller to a manager."""
    builder = Builder(manager, "checkup", CHECKUPS, Checkup, indexes={BY_ACCOUNT: account_of})
    sources, limits = CheckupCaches(builder, manager), limits or timing.TimeLimits()
    controller = CheckupController(builder.client, builder.children, builder.clock, sources, limits)
    builder.build(controller, workers=workers)
    return controller
