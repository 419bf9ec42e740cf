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
from quintet.apis.checkup.contract import object_name
from quintet.apis.checkup.results import Results
from quintet.apis.checkup.types import FINALIZER
from quintet.apis.checkup.validation import spec_errors
from quintet.apis.meta import Object, ObjectKey
from quintet.clock import Clock, timestamp
from quintet.controllers.checkup import evidence, metrics
from quintet.controllers.checkup.caches import BY_ACCOUNT, CheckupCaches, account_of
from quintet.controllers.checkup.decide import desired, timing, verdict
from quintet.controllers.checkup.decide import status as statuses
from quintet.controllers.checkup.decide.observed import (
    CheckupPod,
    JobState,
    Obstacle,
    ObstacleReason,
    obstacle,
)
from quintet.controllers.checkup.decide.verdict import Ending
from quintet.controllers.checkup.setup import Setup
from quintet.kube.client import Client
from quintet.kube.errors import KubeError, NotFound
from quintet.runtime.apply import Children, RepairBudget
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
        return ObjectKey(self.checkup.metadata.namespace, name_of(self.checkup, self.status.run))

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
        self._teardown_started_at: dict[ObjectKey, float] = {}
        self._relabel_budget = RepairBudget(clock)

    async def reconcile(self, checkup: Checkup, context: Context[Checkup]) -> Outcome:
        if not statuses.is_over(checkup):
            return await self._follow(checkup, context)
        await self._stop(checkup, checkup.status)
        self._update_metrics(checkup)
        if not statuses.is_rerun_requested(checkup):
            return await self._delete_unrecorded_rerun(checkup)
        if not await self._tear_down(checkup, checkup.status.run):
            return Outcome(requeue_after=self._limits.look_again)
        return await self._follow(checkup, context, again=True)

    async def finalize(self, checkup: Checkup, context: Context[Checkup]) -> Outcome | None:
        self._verdicts.forget(checkup.key)
        last, unrecorded = max(checkup.status.run, 1), checkup.status.run + 1
        has_next = self._sources.has_begun(checkup, name_of(checkup, unrecorded))
        runs = [last, unrecorded] if has_next else [last]
        if all([await self._tear_down(checkup, number) for number in runs]):
            return None
        # The deletion of each child requeues the key; the delay is for one that the watch misses.
        return Outcome(requeue_after=self._limits.look_again)

    async def forget(self, key: ObjectKey) -> None:
        self._verdicts.forget(key)

    def events(self, checkup: Checkup, before: CheckupStatus, after: CheckupStatus) -> Iterable[Event]:
        """Return an Event for a verdict or for what keeps a checkup from running; progress needs none."""
        if (after.reason, after.verdict) == (before.reason, before.verdict):
            return ()
        if after.verdict is None and after.reason not in set(ObstacleReason):
            return ()
        kind = NORMAL if after.verdict is Verdict.PASSED else WARNING
        reason = f"{after.verdict}" if after.verdict is not None else after.reason
        return (Event(kind, reason, after.message),)

    async def _follow(self, checkup: Checkup, context: Context[Checkup], *, again: bool = False) -> Outcome:
        """Advance a run by one step."""
        now = self._clock.now()
        begins = again or checkup.status.start_time is None
        status = statuses.started_status(checkup, timestamp(now)) if begins else checkup.status
        run = self._with_job(RunContext(checkup, context, status, now))
        if begins and (errors := spec_errors(msgspec.to_builtins(checkup.spec))):
            return await self._report_invalid_spec(run, "; ".join(map(str, errors)))
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

    async def _report_invalid_spec(self, run: RunContext, problem: str) -> Outcome:
        """Report an invalid spec; the run has not started, so the spec may still be corrected."""
        never = msgspec.structs.replace(run.status, start_time=None, run=0, config_map="")
        return Outcome(
            statuses.final_status(
                run.checkup, never, verdict.invalid_ending(problem), Results(), None, timestamp(run.now)
            )
        )

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
            await self._read_missing_job(run)  # `_stop` needs the Job in the cache
        found = results or (await self._results(run) if run.status.job_uid else Results())
        status = statuses.final_status(run.checkup, run.status, ending, found, seen, timestamp(at or run.now))
        await run.context.write_status(status)
        over = msgspec.structs.replace(run.checkup, status=status)
        metrics.count(over)
        self._update_metrics(over)
        await self._stop(run.checkup, status)
        return Outcome(requeue_after=0.05) if statuses.is_rerun_requested(over) else Outcome()

    async def _stop(self, checkup: Checkup, status: CheckupStatus) -> None:
        """End a Job that outlived its run by a deadline in the past, so that it ends as any Job does."""
        key = ObjectKey(checkup.metadata.namespace, status.job)
        job = self._sources.jobs.get(key) if status.job_uid else None
        if job is None or job.uid != status.job_uid or job.deleting:
            return
        pods = [pod for pod in self._sources.pods_of_run(checkup, status.run) if pod.made_by(job.uid)]
        if pods and all(pod.has_ended for pod in pods):
            return  # the Job ends by itself, with its own result
        if job.state.succeeded is None and job.state.deadline != timing.STOPPED:
            body = {"metadata": {"uid": job.uid}, "spec": {"activeDeadlineSeconds": timing.STOPPED}}
            try:
                await self._client.patch(desired.JOBS, key, body, Object)
            except NotFound:
                return

    async def _delete_unrecorded_rerun(self, checkup: Checkup) -> Outcome:
        """Delete the children of a rerun that a crashed process started and did not record."""
        number = checkup.status.run + 1
        if not self._sources.has_begun(checkup, name_of(checkup, number)):
            return Outcome()
        # The cache of Checkups may be behind the one of Jobs, and not show yet that this run was recorded.
        if await self._sources.is_current(checkup) and await self._tear_down(checkup, number):
            return Outcome()
        return Outcome(requeue_after=self._limits.look_again)

    async def _tear_down(self, checkup: Checkup, number: int) -> bool:
        """Delete the Job and pods of a run, then its other children; return whether all of them are gone."""
        name = name_of(checkup, number)
        self._progress_written_at.pop(checkup.metadata.uid, None)
        self._read_events_at.pop(checkup.status.job_uid, None)
        if not await self._children.remove(checkup, desired.JOBS, name):
            return False
        job = ObjectKey(checkup.metadata.namespace, name)
        if self._sources.pods_of_run(checkup, number) and self._may_still_end(job):
            return False
        kinds = (desired.ROLE_BINDINGS, desired.ROLES, desired.CONFIG_MAPS)
        removed = all([await self._children.remove(checkup, kind, name) for kind in kinds])
        if removed:
            self._teardown_started_at.pop(job, None)
        return removed

    def _waiting_since(self, run: RunContext) -> datetime:
        """Return when the wait for the pod began: the creation of the Job, else the start of the run."""
        job = self._sources.jobs.get(run.job_key)
        return (job.state.created if job is not None else None) or run.started_at

    def _may_still_end(self, job: ObjectKey) -> bool:
        """Return whether pods may still end: a node that is gone never confirms the end of its pods."""
        now = self._clock.monotonic()
        return now - self._teardown_started_at.setdefault(job, now) < self._limits.teardown

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
            self._progress_written_at.pop(checkup.metadata.uid, None)
            self._read_events_at.pop(checkup.status.job_uid, None)


def name_of(checkup: Checkup, number: int) -> str:
    """Return the name of the objects of a run."""
    return object_name(checkup.metadata.name, checkup.metadata.uid, number)


def build(
    manager: Manager, *, limits: timing.TimeLimits | None = None, workers: int = 8
) -> CheckupController:
    """Add the Checkup controller to a manager."""
    builder = Builder(manager, "checkup", CHECKUPS, Checkup, indexes={BY_ACCOUNT: account_of})
    sources, limits = CheckupCaches(builder, manager), limits or timing.TimeLimits()
    controller = CheckupController(builder.client, builder.children, builder.clock, sources, limits)
    builder.build(controller, workers=workers)
    return controller
