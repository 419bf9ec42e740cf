"""Runs checkups: one Job at a time for each, judged when it ends, with what it found kept.

Called by `runtime.controller` with a key. The phases of a run: look → hold (finalizer) → check the
spec → set up (ConfigMap, then Role and RoleBinding, then Job) → follow → end: save the evidence,
write the verdict, and only then stop what still runs. A verdict stands until a rerun is asked for.
"""

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from quintet.apis.checkup import CHECKUPS, Checkup, CheckupStatus, Phase, Verdict
from quintet.apis.checkup.contract import object_name
from quintet.apis.checkup.results import Results
from quintet.apis.checkup.types import FINALIZER
from quintet.apis.checkup.validation import spec_errors
from quintet.apis.meta import Object, ObjectKey
from quintet.clock import timestamp
from quintet.controllers.checkup import evidence, metrics
from quintet.controllers.checkup.caches import BY_ACCOUNT, CheckupCaches, account_of
from quintet.controllers.checkup.decide import desired, timing, verdict
from quintet.controllers.checkup.decide import status as said
from quintet.controllers.checkup.decide.observed import (
    CheckupPod,
    JobState,
    Obstacle,
    ObstacleReason,
    obstacle,
)
from quintet.controllers.checkup.decide.verdict import Ending
from quintet.controllers.checkup.setup import Setup
from quintet.controllers.suspension import unless_suspended
from quintet.kube.errors import KubeError, NotFound
from quintet.runtime import conditions, finalizers
from quintet.runtime.apply import RepairBudget
from quintet.runtime.builder import Builder
from quintet.runtime.events import NORMAL, WARNING
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Result


@dataclass(frozen=True, slots=True)
class Run:
    """One look at one run."""

    checkup: Checkup
    status: CheckupStatus
    """As it is so far; `checkup.status` is what is stored."""
    now: datetime

    @property
    def job_key(self) -> ObjectKey:
        """Where its Job is; all its objects have one name."""
        return ObjectKey(self.checkup.metadata.namespace, name_of(self.checkup, self.status.run))

    @property
    def started(self) -> datetime:
        """When it began."""
        return timing.parse_timestamp(self.status.start_time) or self.now


class CheckupController:
    """Reconciles Checkups."""

    def __init__(self, builder: Builder[Checkup], sources: CheckupCaches, limits: timing.TimeLimits) -> None:
        self._builder = builder
        self._sources = sources
        self._limits = limits
        self._setup = Setup(builder.children, sources)
        self._verdicts = metrics.LastVerdicts()
        self._shown: dict[str, float] = {}
        self._ask_at: dict[str, float] = {}
        self._leaving: dict[ObjectKey, float] = {}
        self._relabelled = RepairBudget(builder.clock)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at one Checkup and do what is missing."""
        checkup = self._builder.primary.get(key)
        if checkup is None:
            self._verdicts.forget(key)
            return Result.done()
        if checkup.metadata.deleting:
            return await self._delete(checkup)
        if FINALIZER not in checkup.metadata.finalizers:
            # The webhook adds it on creation; this one came past it. Its change brings the key back.
            await finalizers.add(self._builder.client, CHECKUPS, checkup, FINALIZER)
            return Result.done()
        if not said.is_over(checkup):
            return await self._follow(checkup)
        await self._stop(checkup, checkup.status)
        self._show(checkup)
        if not said.is_rerun_requested(checkup):
            return await self._take_back(checkup)
        if not await self._torn_down(checkup, checkup.status.run):
            return Result.after(self._limits.look_again)
        return await self._follow(checkup, again=True)

    async def _follow(self, checkup: Checkup, *, again: bool = False) -> Result:
        """Bring a run on by one step."""
        now = self._builder.clock.now()
        begins = again or checkup.status.start_time is None
        status = said.started_status(checkup, timestamp(now)) if begins else checkup.status
        run = self._with_job(Run(checkup, status, now))
        if begins and (errors := spec_errors(msgspec.to_builtins(checkup.spec))):
            return await self._refuse(run, "; ".join(map(str, errors)))
        if said.is_cancel_requested(checkup):
            return await self._end(run, verdict.cancelled_ending(), self._pod(run))
        if not run.status.job_uid:
            return await self._set_up(run)
        return await self._observe(run)

    def _with_job(self, run: Run) -> Run:
        """The run with its Job, if one was made and we died before we could note it."""
        job = self._sources.jobs.get(run.job_key)
        if run.status.job_uid or job is None or job.owner_uid != run.checkup.metadata.uid:
            return run
        return replace(run, status=said.with_job(run.status, run.job_key.name, job.uid))

    async def _refuse(self, run: Run, problem: str) -> Result:
        """A spec that cannot be run was never started, so it may still be corrected."""
        never = msgspec.structs.replace(run.status, start_time=None, run=0, config_map="")
        ended = said.final_status(
            run.checkup, never, verdict.invalid_ending(problem), Results(), None, timestamp(run.now)
        )
        await self._write(run, ended)
        return Result.done()

    async def _set_up(self, run: Run) -> Result:
        """Make what a run needs, the Job last."""
        name = run.job_key.name
        try:
            made = await self._setup.ensure(run.checkup, name, run.status.run)
        except KubeError as error:
            trouble = Obstacle(ObstacleReason.SETUP_FAILED, f"the run could not be set up: {error}")
            await self._write(run, said.waiting_status(run.checkup, run.status, trouble))
            raise
        if isinstance(made, Obstacle):
            return await self._wait(run, None, made)
        status = said.with_job(run.status, name, made.uid)
        await self._write(run, said.waiting_status(run.checkup, status, None))
        return Result.after(self._limits.no_pod)

    async def _observe(self, run: Run) -> Result:
        """See how far the Job has come."""
        job = self._sources.jobs.get(run.job_key)
        if job is None or job.uid != run.status.job_uid:
            state = await self._unseen_job(run)
            if state is None:
                return await self._end(run, verdict.job_deleted_ending(run.job_key.name), self._pod(run))
            return await self._judge(run, state) if state.succeeded is not None else Result.after(1.0)
        if job.state.succeeded is not None:
            return await self._judge(run, job.state)
        if job.deleting:
            return await self._end(run, verdict.job_deleted_ending(run.job_key.name), self._pod(run))
        pod = self._pod(run)
        if pod is not None and pod.metadata.deleting and not pod.has_ended:
            return await self._lose(run, pod)
        since = pod.running_since if pod is not None else None
        if pod is None or since is None:
            return await self._wait(run, pod, await self._obstacle(run, pod))
        # No container is older than its Job: a node whose clock is behind must not cost a checkup its time.
        began = max(since, self._since(run))
        deadline = timing.run_deadline(began, run.checkup.spec.seconds, self._limits)
        if run.now >= deadline:
            if pod.has_ended:
                # It was done in time, whenever its Job comes to say so.
                return await self._judge(run, pod.as_of_job)
            return await self._give_up(run, pod, None)
        return await self._show_progress(run, deadline)

    async def _lose(self, run: Run, pod: CheckupPod) -> Result:
        """Somebody deleted the pod. Its Job will fail for it; but by then the log may be gone."""
        # A Job takes its pod along, and the watch on pods may be ahead of the one on Jobs.
        job = await self._sources.live_job(run.job_key)
        if job is None or job.metadata.deleting or job.metadata.uid != run.status.job_uid:
            return await self._end(run, verdict.job_deleted_ending(run.job_key.name), pod)
        return await self._end(run, verdict.pod_deleted_ending(pod), pod)

    async def _wait(self, run: Run, pod: CheckupPod | None, found: Obstacle | None) -> Result:
        """The checkup does not run yet: say why, and give up when the time has come."""
        deadline = timing.start_deadline(self._since(run), run.checkup.spec.seconds, self._limits)
        if found is not None and found.lasting:
            return await self._end(run, verdict.ending_of_obstacle(found), pod)
        if run.now >= deadline:
            return await self._give_up(run, pod, found)
        await self._write(run, said.waiting_status(run.checkup, run.status, found))
        delay = (deadline - run.now).total_seconds()
        if pod is None:
            delay = min(delay, self._limits.look_again if found is not None else self._limits.no_pod)
        return Result.after(max(delay, 0.05))

    async def _obstacle(self, run: Run, pod: CheckupPod | None) -> Obstacle | None:
        """What keeps the pod from running. Why there is none, only Events tell: read ever less often."""
        if pod is not None:
            return obstacle(pod)
        uid = run.status.job_uid
        known = run.status.reason == ObstacleReason.NO_POD.value
        age = (run.now - self._since(run)).total_seconds()
        if age < self._ask_at.get(uid, self._limits.no_pod):
            return Obstacle(ObstacleReason.NO_POD, run.status.message) if known else None
        self._ask_at[uid] = 2 * age
        return await self._why_no_pod(run)

    async def _why_no_pod(self, run: Run) -> Obstacle | None:
        notes = await evidence.events(
            self._builder.client, run.checkup.metadata.namespace, run.status.job_uid
        )
        failed = [note.message for note in notes if note.reason == "FailedCreate"]
        if not failed:
            return None
        return Obstacle(ObstacleReason.NO_POD, f"Job {run.status.job} cannot make its pod: {failed[-1]}")

    async def _show_progress(self, run: Run, deadline: datetime) -> Result:
        """Show what a running checkup has written, but not as often as it writes."""
        child = self._sources.results.get(run.job_key)
        results = child.state if child is not None else Results()
        left = (deadline - run.now).total_seconds()
        uid, moment = run.checkup.metadata.uid, self._builder.clock.monotonic()
        rest = self._limits.partial - (moment - self._shown.get(uid, -self._limits.partial))
        if run.status.phase is Phase.RUNNING and rest > 0:
            return Result.after(max(min(rest, left), 0.05))
        if await self._write(run, said.running_status(run.checkup, run.status, results)):
            self._shown[uid] = moment
        return Result.after(max(left, 0.05))

    async def _judge(self, run: Run, job: JobState) -> Result:
        """The Job has ended by itself."""
        pod = self._pod(run)
        if not job.succeeded and (pod is None or not pod.has_ended):
            pod = await self._live_pod(run, pod)  # its last words may not have reached our cache
        results = await self._results(run)
        return await self._end(
            run, verdict.ending_of_job(job, pod, results), pod, results, job.ended or run.now
        )

    async def _give_up(self, run: Run, pod: CheckupPod | None, found: Obstacle | None) -> Result:
        """The time is up."""
        if pod is None and found is None and run.status.job_uid:
            found = await self._why_no_pod(run)
        results = await self._results(run)
        ending = verdict.ending_at_deadline(pod, found, run.checkup.spec.seconds, results)
        return await self._end(run, ending, pod, results)

    async def _end(
        self,
        run: Run,
        ending: Ending,
        pod: CheckupPod | None,
        results: Results | None = None,
        at: datetime | None = None,
    ) -> Result:
        """Save the evidence, write the verdict, stop what still runs: in this order."""
        seen = None
        if ending.verdict is not Verdict.PASSED and run.status.job_uid:
            namespace = run.checkup.metadata.namespace
            seen = await evidence.gather(self._builder.client, namespace, run.status.job_uid, pod)
            job = self._sources.jobs.get(run.job_key)
            if at is None and job is not None and job.state.succeeded is not None:
                return await self._judge(run, job.state)  # it ended by itself while we looked
        if run.status.job_uid and self._sources.jobs.get(run.job_key) is None:
            await self._unseen_job(run)  # only what is seen can be stopped
        found = results or (await self._results(run) if run.status.job_uid else Results())
        status = said.final_status(run.checkup, run.status, ending, found, seen, timestamp(at or run.now))
        await self._write(run, status)
        over = msgspec.structs.replace(run.checkup, status=status)
        metrics.count(over)
        self._show(over)
        await self._stop(run.checkup, status)
        return Result.after(0.05) if said.is_rerun_requested(over) else Result.done()

    async def _stop(self, checkup: Checkup, status: CheckupStatus) -> None:
        """End a Job that outlived its run. Its deadline is moved into the past, so it ends as a Job does."""
        key = ObjectKey(checkup.metadata.namespace, status.job)
        job = self._sources.jobs.get(key) if status.job_uid else None
        if job is None or job.uid != status.job_uid or job.deleting:
            return
        pods = [pod for pod in self._sources.pods_of(checkup, status.run) if pod.made_by(job.uid)]
        if pods and all(pod.has_ended for pod in pods):
            return  # it ends by itself, and as what it was
        if job.state.succeeded is None and job.state.deadline != timing.STOPPED:
            body = {"metadata": {"uid": job.uid}, "spec": {"activeDeadlineSeconds": timing.STOPPED}}
            try:
                await self._builder.client.patch(desired.JOBS, key, body, Object)
            except NotFound:
                return

    async def _take_back(self, checkup: Checkup) -> Result:
        """Undo a rerun that was begun and never noted, now that nobody wants it: nobody would follow it."""
        number = checkup.status.run + 1
        if not self._sources.has_begun(checkup, name_of(checkup, number)):
            return Result.done()
        # A cache of Checkups that is behind the one of Jobs may not show yet that this run was noted.
        if await self._sources.is_current(checkup) and await self._torn_down(checkup, number):
            return Result.done()
        return Result.after(self._limits.look_again)

    async def _delete(self, checkup: Checkup) -> Result:
        self._verdicts.forget(checkup.key)
        if FINALIZER not in checkup.metadata.finalizers:
            return Result.done()
        last, unnoted = max(checkup.status.run, 1), checkup.status.run + 1
        runs = [last, unnoted] if self._sources.has_begun(checkup, name_of(checkup, unnoted)) else [last]
        if not all([await self._torn_down(checkup, number) for number in runs]):
            # The end of each child brings the key back; the delay is for the one that goes unnoticed.
            return Result.after(self._limits.look_again)
        await finalizers.remove(self._builder.client, CHECKUPS, checkup, FINALIZER)
        return Result.done()

    async def _torn_down(self, checkup: Checkup, number: int) -> bool:
        """Whether nothing of a run is left: Job and pods first, then what they were allowed to use."""
        name = name_of(checkup, number)
        self._shown.pop(checkup.metadata.uid, None)
        self._ask_at.pop(checkup.status.job_uid, None)
        if not await self._builder.children.remove(checkup, desired.JOBS, name):
            return False
        job = ObjectKey(checkup.metadata.namespace, name)
        if self._sources.pods_of(checkup, number) and self._worth_waiting(job):
            return False
        kinds = (desired.ROLE_BINDINGS, desired.ROLES, desired.CONFIG_MAPS)
        removed = all([await self._builder.children.remove(checkup, kind, name) for kind in kinds])
        if removed:
            self._leaving.pop(job, None)
        return removed

    def _since(self, run: Run) -> datetime:
        """Since when the next thing to happen is waited for; while we were away, nothing could happen."""
        job = self._sources.jobs.get(run.job_key)
        return (job.state.created if job is not None else None) or run.started

    def _worth_waiting(self, job: ObjectKey) -> bool:
        """A node that is gone never confirms the end of its pods; that must not hold a Checkup for ever."""
        now = self._builder.clock.monotonic()
        return now - self._leaving.setdefault(job, now) < self._limits.teardown

    def _pod(self, run: Run) -> CheckupPod | None:
        uid = run.status.job_uid
        pods = self._sources.pods_of(run.checkup, run.status.run)
        made = [pod for pod in pods if pod.made_by(uid)]
        return max(made, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)

    async def _live_pod(self, run: Run, known: CheckupPod | None) -> CheckupPod | None:
        live = await self._sources.live_pods(run.checkup)
        return next((pod for pod in live if pod.made_by(run.status.job_uid)), known)

    async def _unseen_job(self, run: Run) -> JobState | None:
        """A Job that our cache does not show, if it is there. If it lost our labels, it gets them back."""
        live, labels = await self._sources.live_job(run.job_key), desired.child_labels(run.checkup)
        if live is None or live.metadata.uid != run.status.job_uid:
            return None
        lost = not labels.items() <= live.metadata.labels.items()
        if lost and live.state.succeeded is None and self._relabelled.wait(run.status.job_uid) == 0:
            body = {"metadata": {"uid": run.status.job_uid, "labels": labels}}
            with contextlib.suppress(NotFound):
                await self._builder.client.patch(desired.JOBS, run.job_key, body, Object)
        return live.state

    async def _results(self, run: Run) -> Results:
        """From the server: the watch on the Job may be ahead of the one on the ConfigMap."""
        return await self._sources.live_results(run.job_key, run.checkup)

    async def _write(self, run: Run, status: CheckupStatus) -> bool:
        checkup = run.checkup
        old, generation = checkup.status, checkup.metadata.generation
        merged = conditions.merged(old.conditions, status.conditions, generation, run.now)
        written = await self._builder.status.write(
            checkup, old, msgspec.structs.replace(status, conditions=merged)
        )
        if written and (status.reason, status.verdict) != (old.reason, old.verdict):
            self._announce(checkup, status)
        return written

    def _announce(self, checkup: Checkup, status: CheckupStatus) -> None:
        """Tell of verdicts and of what keeps a checkup from running; that it is on its way is no news."""
        if status.verdict is None and status.reason not in set(ObstacleReason):
            return
        kind = NORMAL if status.verdict is Verdict.PASSED else WARNING
        reason = f"{status.verdict}" if status.verdict is not None else status.reason
        self._builder.events.record(CHECKUPS, checkup.key, checkup.metadata.uid, kind, reason, status.message)

    def _show(self, checkup: Checkup) -> None:
        if checkup.status.verdict is not None:
            self._verdicts.show(checkup.key, checkup.status.verdict)
            self._shown.pop(checkup.metadata.uid, None)
            self._ask_at.pop(checkup.status.job_uid, None)


def name_of(checkup: Checkup, number: int) -> str:
    """What the objects of a run are called."""
    return object_name(checkup.metadata.name, checkup.metadata.uid, number)


def build(
    manager: Manager, *, limits: timing.TimeLimits | None = None, workers: int = 8
) -> CheckupController:
    """Wire the controller into a process."""
    builder = Builder(manager, "checkup", CHECKUPS, Checkup, indexes={BY_ACCOUNT: account_of})
    controller = CheckupController(builder, CheckupCaches(builder), limits or timing.TimeLimits())
    builder.build(unless_suspended(builder, controller.reconcile), workers=workers)
    return controller
