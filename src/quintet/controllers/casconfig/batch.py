"""Applies the changes of one config to all targets, or to none.

Before more than one target is changed, the status records that (`unfinished`) and where (`reach`), so that
another process can continue after a crash. If a target then cannot be changed, a batch that this process
started is rolled back to the values before it. Of a batch that another process started these values are
unknown, so the whole config is undone.

Undoing objects that are no longer targets comes last, each on its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from quintet.apis.casconfig import TargetState
from quintet.apis.casconfig.ledger import has_ledger
from quintet.apis.casconfig.types import Reach
from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.plan import FoundObject, ResolvedConfig, Step, Target
from quintet.controllers.casconfig.decide.status import as_failed, as_rolled_back, as_waiting
from quintet.controllers.casconfig.survey import reach_of
from quintet.controllers.casconfig.writer import Failure, TargetWriter, Task, WriteResult


@dataclass(slots=True)
class BatchResult:
    """State of every object after a batch, and the failure if there was one."""

    steps: dict[Target, Step]
    failure: str = ""
    failing: frozenset[Target] = frozenset()
    rolled_back: bool | None = None
    changed: list[Step] = field(default_factory=list)
    """Steps that were applied and not rolled back."""


class Batch:
    """The changes of one config."""

    def __init__(
        self, writer: TargetWriter, resolved: ResolvedConfig, tasks: Iterable[Task], *, inherited: bool
    ) -> None:
        self._writer = writer
        self._wish = resolved
        self._tasks = {task.step.target: task for task in tasks}
        self._inherited = inherited
        self.result = BatchResult({target: task.step for target, task in self._tasks.items()})

    @property
    def reach(self) -> tuple[Reach, ...]:
        """Kinds and namespaces that hold, or are about to hold, changes of the config."""
        return reach_of(task.scope for task in self._tasks.values() if task.step.held or task.step.patch)

    @property
    def changes(self) -> list[Task]:
        """Targets that need a change."""
        return [task for task in self._tasks.values() if task.step.patch and task.step.policies]

    @property
    def undos(self) -> list[Task]:
        """Objects that are no longer targets and still have changes, or may have."""
        return [
            task
            for task in self._tasks.values()
            if not task.step.policies and (task.step.patch or task.step.state is TargetState.FAILED)
        ]

    @property
    def writes(self) -> bool:
        """Whether `run` will change objects; `reach` has to be recorded before that."""
        return not self._broken_steps and any(task.step.patch for task in self._tasks.values())

    @property
    def _broken_steps(self) -> list[Step]:
        return [step for step in self.result.steps.values() if step.fails_batch]

    async def run(self, failing: frozenset[Target] = frozenset()) -> BatchResult:
        """Apply the changes; `failing` targets go first, so that a repeated failure rolls back nothing."""
        if broken := self._broken_steps:
            self._fail(broken[0], broken[0].message, {step.target for step in broken})
            self._mark_waiting()
            if self._inherited:
                await self._undo_all()
            return self.result
        outcome = await self._writer.apply_all(self.changes, self._decide, first=failing)
        self._drop(outcome.gone)
        if outcome.failures:
            await self._roll_back(outcome)
            return self.result
        for task in outcome.taken:
            self._record_applied(task.step)
        await self._undo(self.undos)
        return self.result

    def _decide(self, found: FoundObject) -> Step | None:
        return plan.decide_step(self._wish, found)

    def _undoing(self, found: FoundObject) -> Step | None:
        if not has_ledger(found.object, self._wish.config):
            return None
        return plan.undo_step(found, self._wish.config)

    async def _roll_back(self, outcome: WriteResult) -> None:
        first = outcome.failures[0]
        self._fail(
            first.task.step,
            f"{first.reason}: {first.message}",
            {each.task.step.target for each in outcome.failures},
        )
        for failure in outcome.failures:
            self._note(failure)
        self._mark_waiting()
        if self._inherited:
            await self._undo_all()
            return
        taken = [task for task in outcome.taken if task.step.state is not TargetState.FAILED]
        before = {task.step.target: task.step.before for task in taken}
        back, turns = [], self._writer.turns()
        for task in reversed(taken):
            await turns.give()
            back.append(self._rollback_task(task))

        def again(found: FoundObject) -> Step | None:
            return plan.rollback_step(found, self._wish.config, before[found.resource, found.key])

        undone = await self._writer.apply_each([task for task in back if task is not None], again)
        for task in taken:
            self.result.steps[task.step.target] = as_rolled_back(
                task.step, f"rolled back, because {first.task.step} failed"
            )
        self._after_undo(undone)

    def _rollback_task(self, task: Task) -> Task | None:
        found = self._writer.found(task)
        if found is None:
            return None
        step = plan.rollback_step(found, self._wish.config, task.step.before)
        return Task(task.scope, task.pod, step)

    async def _undo_all(self) -> None:
        """Undo all changes of the config."""
        tasks, turns = [], self._writer.turns()
        for task in self._tasks.values():
            await turns.give()
            found = self._writer.found(task)
            if found is not None and (step := self._undoing(found)) is not None:
                tasks.append(Task(task.scope, task.pod, step))
        undone = await self._writer.apply_each(tasks, self._undoing)
        for task in undone.taken:
            if task.step.target not in self.result.failing:
                step = self._tasks[task.step.target].step
                self.result.steps[task.step.target] = as_rolled_back(
                    step, "undone with the whole config: an interrupted batch could not be completed"
                )
        self._after_undo(undone)

    def _after_undo(self, undone: WriteResult) -> None:
        self._drop(undone.gone)
        for failure in undone.failures:
            self._note(failure)
        self.result.rolled_back = not undone.failures

    async def _undo(self, tasks: list[Task]) -> None:
        """Undo the changes of objects that are no longer targets; failures do not affect each other."""
        undone = await self._writer.apply_each(tasks, self._undoing)
        self._drop(undone.gone)
        for task in undone.taken:
            self._record_applied(task.step)
        for failure in undone.failures:
            self._note(failure)
        if undone.failures:
            first = undone.failures[0]
            self._fail(first.task.step, f"cannot be undone: {first.reason}: {first.message}", set())

    def _record_applied(self, step: Step) -> None:
        self.result.steps[step.target] = step
        if step.state not in (TargetState.FAILED, TargetState.CONTESTED):
            self.result.changed.append(step)

    def _note(self, failure: Failure) -> None:
        step = failure.task.step
        self.result.steps[step.target] = as_failed(step, failure.reason, failure.message)

    def _fail(self, step: Step, why: str, failing: set[Target]) -> None:
        self.result.failure = f"{step}: {why}"
        self.result.failing = frozenset(failing)

    def _mark_waiting(self) -> None:
        for task in self.changes:
            if task.step.target not in self.result.failing:
                self.result.steps[task.step.target] = as_waiting(task.step)

    def _drop(self, gone: Iterable[Target]) -> None:
        for target in gone:
            self.result.steps.pop(target, None)
