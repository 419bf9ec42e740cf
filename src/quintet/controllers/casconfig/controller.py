"""Brings the targets of a CASConfig to what it says, and takes it back when it goes.

Called by `runtime.controller` with a key. The phases: look → hold (finalizer) → survey (kinds, objects,
sources) → decide each object → change all targets or none (`batch`) → write the status.
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
from quintet.apis.casconfig.types import MOST_PLANNED, Reach
from quintet.apis.casconfig.validation import spec_errors
from quintet.apis.meta import Object, ObjectKey, Resource, find_condition
from quintet.controllers.casconfig.batch import Batch
from quintet.controllers.casconfig.batch import Result as Done
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
    status_of,
)
from quintet.controllers.casconfig.decision_cache import DecisionCache
from quintet.controllers.casconfig.events import EventReporter
from quintet.controllers.casconfig.failures import FailureHistory
from quintet.controllers.casconfig.kinds import Kinds
from quintet.controllers.casconfig.survey import Survey, Surveyor, SurveyProblem, reach_of
from quintet.controllers.casconfig.watches import Watches
from quintet.controllers.casconfig.writer import Failure, TargetWriter, Task
from quintet.controllers.suspension import unless_suspended
from quintet.kube.errors import KubeError, NotFound
from quintet.runtime import conditions, finalizers
from quintet.runtime.builder import Builder
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Result

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", False)
_UNDO_AGAIN = 5.0
# So long the end of a namespace waits for a look at what is to be undone: a list may never succeed.
_LOOKED_FOR = 30.0
# So many objects are decided on before others get their turn.
_AT_A_TIME = 50


@dataclass(frozen=True, slots=True)
class _Preview:
    """What was tried for a config, and what came of it."""

    signature: object
    report: Report
    until: float
    """When it is tried again."""


class CASConfigController:
    """Reconciles CASConfigs."""

    def __init__(
        self, builder: Builder[CASConfig], surveyor: Surveyor, hands: TargetWriter, operator: str
    ) -> None:
        self._builder = builder
        self._surveyor = surveyor
        self._writer = hands
        self._operator = operator
        self._contests = Contests(builder.clock)
        self._events = EventReporter(builder.events)
        self._failures = FailureHistory()
        self._previews: dict[ObjectKey, _Preview] = {}
        self._settled = DecisionCache()
        self._looking: dict[ObjectKey, float] = {}

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at one CASConfig and do what is missing."""
        config = self._builder.primary.get(key)
        if config is None:
            self._forget(key)
            return Result.done()
        if config.metadata.deleting:
            return await self._delete(config)
        if FINALIZER not in config.metadata.finalizers:
            # The webhook adds it on creation; this one came past it. Its change brings the key back.
            await finalizers.add(self._builder.client, CASCONFIGS, config, FINALIZER)
            return Result.done()
        # The webhooks refuse such a spec, but nobody may gain anything by coming past them.
        if errors := spec_errors(config.spec):
            await self._write(config, blocked_status(config, Reason.INVALID, "; ".join(map(str, errors))))
            return Result.done()
        survey = await self._surveyor.look(config)
        if survey.problem is not None:
            problem = survey.problem
            if problem.reason is Reason.LOOKING:
                return _later(problem)  # no news: what was known before still stands
            await self._write(config, blocked_status(config, problem.reason, problem.message))
            return _later(problem)
        if survey.sources.waiting:
            text = "; ".join(each.message for each in survey.sources.waiting)
            await self._write(config, blocked_status(config, Reason.WAITING, f"nothing is changed: {text}"))
            return Result.done()
        result = await self._work(config, survey)
        return Result(survey.retry_after) if result.delay is None else result

    async def _work(self, config: CASConfig, survey: Survey) -> Result:
        wish = ResolvedConfig(config.key, config.spec, survey.sources.values, self._operator)
        tasks = await self._decided(config, wish, survey)
        if (found := plan.blocking_reason(config.spec, [task.step for task in tasks])) is not None:
            await self._write(config, blocked_status(config, *found))
            return Result.done()
        if config.spec.mode is Mode.PREVIEW:
            return await self._preview(config, wish, tasks, survey)
        self._previews.pop(config.key, None)
        batch = Batch(self._writer, wish, tasks, inherited=config.status.unfinished)
        noted = config

        async def mark(reach: tuple[Reach, ...], several: bool) -> None:
            nonlocal noted
            noted = await self._mark(config, reach, several)

        failing = _failing(config, tasks) | self._failures.targets(config.key)
        done = await batch.run(mark, failing)
        after = self._next(config, done)
        await self._write(noted, self._status(config, tasks, done, survey))
        self._events.targets(config, done)
        return after

    async def _decided(self, config: CASConfig, wish: ResolvedConfig, survey: Survey) -> list[Task]:
        """Every object that the config has something to do with, and what is to be done to it."""
        known, tasks = entries(config), dict[Target, Task]()
        settled, looked_at = self._settled.decisions_for(config, wish), set[Target]()
        for count, (place, seen) in enumerate(survey.objects(), 1):
            if count % _AT_A_TIME == 0:
                await self._builder.clock.sleep(0)
            looked_at.add((place.resource, seen.key))
            if (place.resource, seen.key) in tasks and not place.whole:
                continue
            pod = survey.pods.get(place.resource)
            step = settled.step(place, pod, seen)
            if step is None:
                continue
            before = known.get(entry_key(step))
            step = self._contests.apply_limit(config, step, before)
            again = before is not None and before.state is TargetState.CONTESTED
            tasks[step.target] = await self._named(Task(place, pod, step), again)
        settled.keep(looked_at)
        self._contests.tidy(config.key)
        return list(tasks.values())

    async def _named(self, task: Task, known: bool) -> Task:
        """A contested target says who the other one is."""
        step = task.step
        if step.state is not TargetState.CONTESTED or known:
            return task
        try:
            live = await self._writer.live(task)
        except KubeError:
            return task
        name = last_manager(live, step.retaken, task.pod, self._builder.client.field_manager)
        return replace(task, step=plan.contested_step(step, step.rounds, name))

    async def _preview(
        self, config: CASConfig, wish: ResolvedConfig, tasks: list[Task], survey: Survey
    ) -> Result:
        """Say what would be changed; what was changed before is taken back first."""
        held = [
            Task(task.place, task.pod, plan.undo_step(found, config.key))
            for task in tasks
            if task.step.held and (found := self._writer.found(task)) is not None
        ]
        if held:
            batch = Batch(self._writer, wish, held, inherited=False)
            done = await batch.run(lambda reach, several: self._nothing(), frozenset())
            self._events.targets(config, done)
            if done.failure:
                await self._write(config, blocked_status(config, Reason.UNDO_FAILED, done.failure))
                return self._next(config, done)
            return Result.after(0)
        changes = [task for task in tasks if task.step.patch]
        signature = (config.metadata.generation, tuple((str(t.step), t.step.patch) for t in changes))
        now, known = self._builder.clock.monotonic(), self._previews.get(config.key)
        if known is None or known.signature != signature or known.until <= now:
            report = await self._tried(wish, tasks, changes)
            failing = frozenset(each.target for each in report.steps if each.state is TargetState.FAILED)
            wait = self._retry(config, report.failure, failing)
            known = self._previews[config.key] = _Preview(signature, report, now + wait)
        report = replace(known.report, reach=tuple(survey.unserved))
        await self._write(config, status_of(config, report))
        return Result.after(known.until - now) if known.report.failure else Result.done()

    async def _tried(self, wish: ResolvedConfig, tasks: list[Task], changes: list[Task]) -> Report:
        """What the server says to the changes."""
        steps = {
            task.step.target: replace(task.step, state=TargetState.PLANNED)
            if task.step.matched
            else task.step
            for task in tasks
        }
        shown = []
        for task in changes[:MOST_PLANNED]:
            tried = await self._writer.dry_run(task, lambda found: plan.decide_step(wish, found))
            if isinstance(tried, Failure):
                steps[task.step.target] = as_failed(task.step, tried.reason, tried.message)
            elif tried is not None:
                shown.append(planned_change(task.step, *tried))
        failed = next((step for step in steps.values() if step.state is TargetState.FAILED), None)
        failure = f"{failed}: {failed.reason}: {failed.message}" if failed is not None else ""
        return Report(tuple(steps.values()), failure=failure, preview=True, plan=tuple(shown))

    async def _nothing(self) -> None:
        """What is undone was written down when it was done."""

    async def _delete(self, config: CASConfig) -> Result:
        if FINALIZER not in config.metadata.finalizers:
            return Result.done()
        survey = await self._surveyor.survey_reach(config)
        if survey.problem is not None:
            looking = survey.problem.reason is Reason.LOOKING
            if (not looking or self._looks_in_vain(config.key)) and await self._namespace_ends(config):
                return await self._release(config)
            if looking:
                return Result.after(survey.problem.retry_after or _UNDO_AGAIN)
            text = f"before this config goes, its changes are undone: {survey.problem.message}"
            await self._write(config, blocked_status(config, Reason.UNDOING, text))
            return Result.after(_UNDO_AGAIN)
        self._looking.pop(config.key, None)
        tasks = []
        for place, seen in survey.objects():
            found = FoundObject(place.resource, survey.pods.get(place.resource), seen.decode())
            if has_ledger(found.object, config.key) and not seen.deleting:
                tasks.append(Task(place, found.pod, plan.undo_step(found, config.key)))
        wish = ResolvedConfig(config.key, config.spec, {}, self._operator)
        batch = Batch(self._writer, wish, tasks, inherited=False)
        done = await batch.run(lambda reach, several: self._nothing(), frozenset())
        self._events.targets(config, done)
        if not done.failure:
            return await self._release(config)
        if await self._namespace_ends(config):
            return await self._release(config)
        text = f"before this config goes, its changes are undone: {done.failure}"
        await self._write(config, blocked_status(config, Reason.UNDO_FAILED, text))
        return self._next(config, done)

    def _looks_in_vain(self, key: ObjectKey) -> bool:
        now = self._builder.clock.monotonic()
        return now - self._looking.setdefault(key, now) >= _LOOKED_FOR

    async def _release(self, config: CASConfig) -> Result:
        await finalizers.remove(self._builder.client, CASCONFIGS, config, FINALIZER)
        self._forget(config.key)
        return Result.done()

    async def _namespace_ends(self, config: CASConfig) -> bool:
        """Whether the account and its rights go too, so that nothing can be undone any more."""
        try:
            found = await self._builder.client.get(NAMESPACES, ObjectKey("", config.key.namespace), Object)
        except NotFound:
            return True
        return found.metadata.deleting

    async def _mark(self, config: CASConfig, reach: tuple[Reach, ...], several: bool) -> CASConfig:
        """Write down where changes are about to be made, before they are."""
        status = msgspec.structs.replace(
            config.status,
            reach=_united(config.status.reach, reach),
            unfinished=config.status.unfinished or several,
        )
        await self._builder.status.write(config, config.status, status)
        return msgspec.structs.replace(config, status=status)

    def _status(self, config: CASConfig, tasks: list[Task], done: Done, survey: Survey) -> CASConfigStatus:
        steps, rolled_back = done.steps, done.rolled_back
        before = find_condition(config.status.conditions, ConditionType.ROLLED_BACK)
        if done.failure and rolled_back is None and before is not None and before.status == "True":
            # Tried again in vain, without touching anything: what was taken back is still so.
            rolled_back = True if before.observed_generation == config.metadata.generation else None
        places = {task.step.target: task.place for task in tasks}
        if done.failure:
            reach = _united(config.status.reach, reach_of(places[target] for target in steps))
        else:
            reach = reach_of(places[target] for target, step in steps.items() if step.paths)
            reach = _united(survey.unserved, reach)
        report = Report(
            _carried(config, steps.values()),
            failure=done.failure,
            rolled_back=rolled_back,
            reach=reach,
            unfinished=bool(done.failure) and done.rolled_back is False,
        )
        return status_of(config, report)

    async def _write(self, config: CASConfig, wanted: CASConfigStatus) -> None:
        now, generation = self._builder.clock.now(), config.metadata.generation
        merged = conditions.merged(config.status.conditions, wanted.conditions, generation, now)
        status = msgspec.structs.replace(wanted, conditions=merged)
        if await self._builder.status.write(config, config.status, status):
            self._events.config(config, status)

    def _next(self, config: CASConfig, done: Done) -> Result:
        wait = self._retry(config, done.failure, done.failing)
        return Result.after(wait) if done.failure else Result.done()

    def _retry(self, config: CASConfig, failure: str, failing: frozenset[Target]) -> float:
        """Seconds until it is tried again; no end of them if it succeeded."""
        if not failure:
            self._failures.forget(config.key)
            return inf
        self._failures.record(config.key, config.metadata.generation, failing)
        return self._failures.retry(config.key)

    def _forget(self, key: ObjectKey) -> None:
        self._surveyor.forget(key)
        self._contests.forget(key)
        self._settled.forget(key)
        self._failures.forget(key)
        self._previews.pop(key, None)
        self._looking.pop(key, None)


def _later(problem: SurveyProblem) -> Result:
    return Result.done() if problem.retry_after is None else Result.after(problem.retry_after)


def _failing(config: CASConfig, tasks: Iterable[Task]) -> frozenset[Target]:
    """Targets that could not be changed the last time."""
    known = entries(config)
    return frozenset(
        task.step.target
        for task in tasks
        if (before := known.get(entry_key(task.step))) is not None and before.state is TargetState.FAILED
    )


def _carried(config: CASConfig, steps: Iterable[Step]) -> list[Step]:
    """Steps as the status shows them; what was taken back stays so while nothing else is tried."""
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


def _united(one: Iterable[Reach], other: Iterable[Reach]) -> tuple[Reach, ...]:
    found: dict[str, set[str]] = {}
    for each in (*one, *other):
        found.setdefault(each.kind, set()).update(each.namespaces)
    return tuple(
        Reach(kind, ("*",) if "*" in where else tuple(sorted(where))) for kind, where in sorted(found.items())
    )


def build(manager: Manager, *, operator: str = "", workers: int = 8) -> CASConfigController:
    """Wire the controller into a process; `operator` is the namespace that the process itself lives in."""
    builder = Builder(manager, "casconfig", CASCONFIGS, CASConfig)
    watches = Watches(builder.client, manager.clock, builder.queue)
    manager.add_background(watches.run)
    surveyor = Surveyor(Kinds(builder.client, manager.clock), watches, operator)
    hands = TargetWriter(builder.client, watches, manager.clock)
    controller = CASConfigController(builder, surveyor, hands, operator)
    builder.build(unless_suspended(builder, controller.reconcile), workers=workers)
    return controller
