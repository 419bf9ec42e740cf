"""Reconciles CASConfigs: inject the configuration into its targets, and undo that on deletion.

The phases: survey kinds, objects and sources → decide on each object → change all targets or none
(`batch`) → compute the status.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

import msgspec

from quintet.apis.casconfig import (
    CASCONFIGS,
    FINALIZER,
    CASConfig,
    CASConfigStatus,
    ConditionType,
    Mode,
    TargetState,
)
from quintet.apis.casconfig.ledger import has_ledger
from quintet.apis.casconfig.types import MOST_PLANNED
from quintet.apis.casconfig.validation import spec_errors
from quintet.apis.meta import Object, ObjectKey, Resource, find_condition
from quintet.clock import Clock
from quintet.controllers.casconfig.batch import Batch, BatchResult
from quintet.controllers.casconfig.contests import Contests, entries, entry_key
from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.managers import last_manager
from quintet.controllers.casconfig.decide.plan import FoundObject, Reason, ResolvedConfig, Step, Target
from quintet.controllers.casconfig.decide.status import (
    Report,
    as_failed,
    as_rolled_back,
    blocked_status,
    planned_change,
    recovered_status,
    status_of,
)
from quintet.controllers.casconfig.decision_cache import DecisionCache
from quintet.controllers.casconfig.events import EventReporter, config_events
from quintet.controllers.casconfig.failures import FailureHistory
from quintet.controllers.casconfig.kinds import Kinds
from quintet.controllers.casconfig.survey import Blocker, Survey, Surveyor, is_too_large, reach_of, union_of
from quintet.controllers.casconfig.turns import Turns
from quintet.controllers.casconfig.watches import Watches
from quintet.controllers.casconfig.writer import Failure, TargetWriter, Task
from quintet.kube.client import Client
from quintet.kube.errors import KubeError, NotFound
from quintet.runtime.builder import Builder
from quintet.runtime.events import Event, Recorder
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Outcome
from quintet.runtime.reconciler import Context, ObjectReconciler

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", False)
_UNDO_RETRY_SECONDS = 5.0
# How long the deletion of a namespace waits for the lists of objects to undo: a list may never succeed.
_SURVEY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Preview:
    """The dry run of a config."""

    signature: object
    report: Report
    until: float
    """When the controller repeats it."""


class CASConfigController(ObjectReconciler[CASConfig]):
    """Reconciles CASConfigs."""

    finalizer = FINALIZER

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        clock: Clock,
        surveyor: Surveyor,
        writer: TargetWriter,
        operator: str,
    ) -> None:
        self._client = client
        self._clock = clock
        self._surveyor = surveyor
        self._writer = writer
        self._operator = operator
        self._contests = Contests()
        self._events = EventReporter(recorder)
        self._failures = FailureHistory()
        self._previews: dict[ObjectKey, _Preview] = {}
        self._decisions = DecisionCache()
        self._survey_started_at: dict[ObjectKey, float] = {}

    async def reconcile(self, config: CASConfig, context: Context[CASConfig]) -> Outcome:
        # The webhooks reject such a spec; an object that bypassed them must not gain anything by it.
        if errors := spec_errors(config.spec):
            return await self._block(config, Blocker(Reason.INVALID, "; ".join(map(str, errors))))
        survey = await self._surveyor.survey(config)
        if survey.problem is not None:
            if survey.problem.reason is Reason.LOOKING:
                return Outcome(requeue_after=survey.problem.retry_after)  # the stored status is still right
            return await self._block(config, survey.problem)
        if survey.sources.waiting:
            text = "; ".join(each.message for each in survey.sources.waiting)
            return await self._block(config, Blocker(Reason.WAITING, f"nothing is changed: {text}"))
        outcome = await self._inject(config, survey, context)
        return (
            replace(outcome, requeue_after=survey.retry_after) if outcome.requeue_after is None else outcome
        )

    async def finalize(self, config: CASConfig, context: Context[CASConfig]) -> Outcome | None:
        survey = await self._surveyor.survey_reach(config)
        if survey.problem is not None:
            looking = survey.problem.reason is Reason.LOOKING
            if (not looking or self._survey_is_late(config.key)) and await self._is_namespace_deleted(config):
                return None
            if looking:
                return Outcome(requeue_after=survey.problem.retry_after or _UNDO_RETRY_SECONDS)
            text = f"deletion waits until the changes of this config are undone: {survey.problem.message}"
            return Outcome(blocked_status(config, Reason.UNDOING, text), _UNDO_RETRY_SECONDS)
        self._survey_started_at.pop(config.key, None)
        done = await self._undo_everything(config, survey)
        if not done.failure or await self._is_namespace_deleted(config):
            return None
        text = f"deletion waits until the changes of this config are undone: {done.failure}"
        return Outcome(blocked_status(config, Reason.UNDO_FAILED, text), self._retry_after(config, done))

    async def forget(self, key: ObjectKey) -> None:
        self._surveyor.forget(key)
        self._contests.forget(key)
        self._decisions.forget(key)
        self._failures.forget(key)
        self._previews.pop(key, None)
        self._survey_started_at.pop(key, None)

    def events(self, config: CASConfig, before: CASConfigStatus, after: CASConfigStatus) -> Iterable[Event]:
        return config_events(before, after)

    async def _block(self, config: CASConfig, blocker: Blocker) -> Outcome:
        """Report why nothing can be changed; a batch that was interrupted is undone first."""
        if not config.status.unfinished:
            return Outcome(blocked_status(config, blocker.reason, blocker.message), blocker.retry_after)
        text = f"{blocker.message}; an interrupted change of several targets is being undone"
        survey = await self._surveyor.survey_reach(config)
        if survey.problem is not None:
            if survey.problem.reason is Reason.LOOKING:
                return Outcome(requeue_after=survey.problem.retry_after)
            status = blocked_status(config, blocker.reason, f"{text}: {survey.problem.message}")
            return Outcome(status, survey.problem.retry_after or _UNDO_RETRY_SECONDS)
        done = await self._undo_everything(config, survey)
        if done.failure:
            status = blocked_status(config, blocker.reason, f"{text}: {done.failure}")
            return Outcome(status, self._retry_after(config, done))
        # The survey has stopped the watches of what the config waits for.
        return Outcome(recovered_status(config, blocker.reason, blocker.message), requeue_after=0)

    async def _undo_everything(self, config: CASConfig, survey: Survey) -> BatchResult:
        """Undo all changes of a config."""
        tasks, turns = [], Turns(self._clock)
        for scope, seen in survey.objects():
            await turns.give()
            found = FoundObject(scope.resource, survey.pods.get(scope.resource), seen.decode())
            if has_ledger(found.object, config.key) and not seen.deleting:
                tasks.append(Task(scope, found.pod, plan.undo_step(found, config.key)))
        resolved = ResolvedConfig(config.key, config.spec, {}, self._operator)
        done = await Batch(self._writer, resolved, tasks, inherited=False).run()
        self._events.targets(config, done)
        return done

    async def _inject(self, config: CASConfig, survey: Survey, context: Context[CASConfig]) -> Outcome:
        resolved = ResolvedConfig(
            config.key,
            config.spec,
            survey.sources.values,
            self._operator,
            config.metadata.generation,
            int(self._clock.now().timestamp()),
        )
        tasks = await self._decide_all(config, resolved, survey)
        if (found := plan.blocking_reason(config.spec, [task.step for task in tasks])) is not None:
            return await self._block(config, Blocker(*found))
        if config.spec.mode is Mode.PREVIEW:
            return await self._preview(config, resolved, tasks, survey)
        self._previews.pop(config.key, None)
        batch = Batch(self._writer, resolved, tasks, inherited=config.status.unfinished)

        if batch.writes:
            before: CASConfigStatus = context.status
            several, reach = len(batch.changes) > 1, union_of(before.reach, batch.reach)
            if is_too_large(reach):
                return await self._undo_former_targets(config, resolved, tasks, survey, context)
            marked = msgspec.structs.replace(before, reach=reach, unfinished=before.unfinished or several)
            await context.write_status(marked, observed=False)
        failing = _failing(config, tasks) | self._failures.targets(config.key)
        done = await batch.run(failing)
        self._events.targets(config, done)
        return Outcome(self._status(config, tasks, done, survey), self._retry_after(config, done))

    async def _undo_former_targets(
        self,
        config: CASConfig,
        resolved: ResolvedConfig,
        tasks: list[Task],
        survey: Survey,
        context: Context[CASConfig],
    ) -> Outcome:
        """Undo what is no target any more before anything else: the status cannot record both."""
        former = [task for task in tasks if task.step.held and not task.step.policies]
        if not former:
            text = "the targets are in too many namespaces to record where they are: use several configs"
            return await self._block(config, Blocker(Reason.TOO_MANY, text))
        done = await Batch(self._writer, resolved, former, inherited=False).run()
        self._events.targets(config, done)
        if done.failure:
            return Outcome(
                blocked_status(config, Reason.UNDO_FAILED, done.failure), self._retry_after(config, done)
            )
        reach = reach_of(task.scope for task in tasks if task.step.held and task.step.policies)
        status = msgspec.structs.replace(config.status, reach=union_of(survey.unserved, reach))
        await context.write_status(status, observed=False)
        return Outcome(requeue_after=0)

    async def _decide_all(self, config: CASConfig, resolved: ResolvedConfig, survey: Survey) -> list[Task]:
        """Return the objects that the config concerns, each with its next step."""
        known, tasks = entries(config), dict[Target, Task]()
        settled, looked_at = self._decisions.decisions_for(config, resolved), set[Target]()
        turns = Turns(self._clock)
        for scope, seen in survey.objects():
            await turns.give()
            looked_at.add((scope.resource, seen.key))
            if (scope.resource, seen.key) in tasks and not scope.whole:
                continue
            pod = survey.pods.get(scope.resource)
            step = settled.step(scope, pod, seen)
            if step is None:
                continue
            step = self._contests.keep(config, step, known.get(entry_key(step)))
            if step.state is TargetState.CONTESTED and not self._contests.is_known(config, step):
                step = await self._name_rival(Task(scope, pod, step))
                self._contests.remember(config, step)
            tasks[step.target] = Task(scope, pod, step)
        settled.keep(looked_at)
        self._contests.tidy(config.key, looked_at)
        return list(tasks.values())

    async def _name_rival(self, task: Task) -> Step:
        """Return the step of a contested target with the name of the other writer."""
        try:
            live = await self._writer.get_live(task)
        except KubeError:
            return task.step
        name = last_manager(live, task.step.retaken, task.pod, self._client.field_manager)
        return plan.contested_step(task.step, name)

    async def _preview(
        self, config: CASConfig, resolved: ResolvedConfig, tasks: list[Task], survey: Survey
    ) -> Outcome:
        """Report what the config would change; changes from before the preview are undone first."""
        held = [
            Task(task.scope, task.pod, plan.undo_step(found, config.key))
            for task in tasks
            if task.step.held
            and task.step.reason != Reason.LEDGER_UNREADABLE
            and (found := self._writer.found(task)) is not None
        ]
        if held:
            batch = Batch(self._writer, resolved, held, inherited=False)
            done = await batch.run()
            self._events.targets(config, done)
            if done.failure:
                status = blocked_status(config, Reason.UNDO_FAILED, done.failure)
                return Outcome(status, self._retry_after(config, done))
            return Outcome(requeue_after=0)
        changes = [task for task in tasks if task.step.patch]
        signature = (config.metadata.generation, tuple((str(t.step), t.step.patch) for t in changes))
        now, known = self._clock.monotonic(), self._previews.get(config.key)
        if known is None or known.signature != signature or known.until <= now:
            report = await self._dry_run(resolved, tasks, changes)
            failing = frozenset(each.target for each in report.steps if each.state is TargetState.FAILED)
            wait = self._retry(config, report.failure, failing)
            known = self._previews[config.key] = _Preview(signature, report, now + wait)
        report = replace(known.report, reach=tuple(survey.unserved))
        return Outcome(status_of(config, report), known.until - now if known.report.failure else None)

    async def _dry_run(self, resolved: ResolvedConfig, tasks: list[Task], changes: list[Task]) -> Report:
        """Send the changes to the server as dry runs and return its responses."""
        steps = {
            task.step.target: replace(task.step, state=TargetState.PLANNED)
            if task.step.is_target
            else task.step
            for task in tasks
        }
        shown = []
        for task in changes[:MOST_PLANNED]:
            tried = await self._writer.dry_run(task, lambda found: plan.decide_step(resolved, found))
            if isinstance(tried, Failure):
                steps[task.step.target] = as_failed(task.step, tried.reason, tried.message)
            elif tried is not None:
                shown.append(planned_change(task.step, *tried))
        failed = next((step for step in steps.values() if step.state is TargetState.FAILED), None)
        failure = f"{failed}: {failed.reason}: {failed.message}" if failed is not None else ""
        return Report(tuple(steps.values()), failure=failure, preview=True, plan=tuple(shown))

    def _survey_is_late(self, key: ObjectKey) -> bool:
        now = self._clock.monotonic()
        return now - self._survey_started_at.setdefault(key, now) >= _SURVEY_SECONDS

    async def _is_namespace_deleted(self, config: CASConfig) -> bool:
        """Return whether the namespace is deleted with the ServiceAccount, so that nothing can be undone."""
        try:
            found = await self._client.get(NAMESPACES, ObjectKey("", config.key.namespace), Object)
        except NotFound:
            return True
        return found.metadata.deleting

    def _status(
        self, config: CASConfig, tasks: list[Task], done: BatchResult, survey: Survey
    ) -> CASConfigStatus:
        steps, rolled_back = done.steps, done.rolled_back
        before = find_condition(config.status.conditions, ConditionType.ROLLED_BACK)
        if done.failure and rolled_back is None and before is not None and before.status == "True":
            # The retry failed without changing anything, so the rollback still holds.
            rolled_back = True if before.observed_generation == config.metadata.generation else None
        scopes = {task.step.target: task.scope for task in tasks}
        if done.failure:
            reach = union_of(config.status.reach, reach_of(scopes[target] for target in steps))
        else:
            reach = reach_of(
                scopes[target]
                for target, step in steps.items()
                if step.paths or step.state is TargetState.FAILED
            )
            reach = union_of(survey.unserved, reach)
        report = Report(
            _shown_steps(config, steps.values()),
            failure=done.failure,
            rolled_back=rolled_back,
            reach=reach,
            unfinished=bool(done.failure) and done.rolled_back is False,
        )
        return status_of(config, report)

    def _retry_after(self, config: CASConfig, done: BatchResult) -> float | None:
        wait = self._retry(config, done.failure, done.failing)
        return wait if done.failure else None

    def _retry(self, config: CASConfig, failure: str, failing: frozenset[Target]) -> float:
        """Return the seconds until the next try, infinite after a success."""
        if not failure:
            self._failures.forget(config.key)
            return inf
        self._failures.record(config.key, config.metadata.generation, failing)
        return self._failures.retry(config.key)


def _failing(config: CASConfig, tasks: Iterable[Task]) -> frozenset[Target]:
    """Return the targets that could not be changed the last time."""
    known = entries(config)
    return frozenset(
        task.step.target
        for task in tasks
        if (before := known.get(entry_key(task.step))) is not None and before.state is TargetState.FAILED
    )


def _shown_steps(config: CASConfig, steps: Iterable[Step]) -> list[Step]:
    """Return the steps for the status; a rollback is shown until something else is tried."""
    known, shown = entries(config), []
    current = config.status.observed_generation == config.metadata.generation
    for step in steps:
        before = known.get(entry_key(step)) if current else None
        if (
            before is not None
            and before.state is TargetState.ROLLED_BACK
            and step.state is TargetState.WAITING
        ):
            shown.append(as_rolled_back(step, before.message))
        elif step.policies or step.state in (TargetState.FAILED, TargetState.LEFT):
            shown.append(step)
    return shown


def build(manager: Manager, *, operator: str = "", workers: int = 8) -> CASConfigController:
    """Add the CASConfig controller to a manager; `operator` is the namespace of the operator itself."""
    builder = Builder(manager, "casconfig", CASCONFIGS, CASConfig)
    watches = Watches(builder.client, manager.clock, builder.queue)
    manager.add_background(watches.run)
    surveyor = Surveyor(Kinds(builder.client, manager.clock), watches, operator)
    writer = TargetWriter(builder.client, watches, manager.clock)
    controller = CASConfigController(
        builder.client, builder.events, builder.clock, surveyor, writer, operator
    )
    builder.build(controller, workers=workers)
    return controller
