"""Patches targets, impersonating the ServiceAccount of the config's namespace.

Every patch requires the resourceVersion that the step was decided on. After a conflict the step is decided
again on the current object.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from quintet.apis.casconfig import TargetState
from quintet.apis.casconfig.places import Path
from quintet.apis.meta import JsonObject
from quintet.clock import Clock
from quintet.controllers.casconfig.decide.plan import FoundObject, Step, Target
from quintet.controllers.casconfig.turns import Turns
from quintet.controllers.casconfig.watches import Watches, WatchScope
from quintet.kube.client import JSON, Client
from quintet.kube.errors import (
    TRANSIENT,
    ApiError,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    WriteFenced,
)

Decide = Callable[[FoundObject], Step | None]
"""Decides a step again, on the current object."""
ATTEMPTS = 6
AT_ONCE = 8
_LONGEST = 600

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """A step, and the watch that found its object."""

    scope: WatchScope
    pod: Path | None
    step: Step


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that could not be applied."""

    task: Task
    reason: str
    message: str


@dataclass(slots=True)
class WriteResult:
    """Result of applying several steps."""

    taken: list[Task] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    gone: set[Target] = field(default_factory=set)
    """Objects that were deleted meanwhile."""
    written: int = 0


class TargetWriter:
    """Sends patches; the only class here that changes targets."""

    def __init__(self, client: Client, watches: Watches, clock: Clock) -> None:
        self._client = client
        self._watches = watches
        self._clock = clock

    async def apply_all(
        self, tasks: Iterable[Task], again: Decide, *, first: frozenset[Target] = frozenset()
    ) -> WriteResult:
        """Apply steps until one fails; the `first` ones go one by one before all others."""
        outcome = WriteResult()
        waiting = sorted(tasks, key=lambda task: task.step.target not in first)
        while waiting and waiting[0].step.target in first and not outcome.failures:
            await self._take(waiting.pop(0), again, outcome)
        waiting.reverse()

        async def work() -> None:
            while waiting and not outcome.failures:
                await self._take(waiting.pop(), again, outcome)

        await _run_workers(work, min(AT_ONCE, len(waiting)))
        return outcome

    async def apply_each(self, tasks: Iterable[Task], again: Decide) -> WriteResult:
        """Apply independent steps; a failure does not stop the others."""
        outcome, waiting = WriteResult(), list(tasks)
        waiting.reverse()

        async def work() -> None:
            while waiting:
                await self._take(waiting.pop(), again, outcome)

        await _run_workers(work, min(AT_ONCE, len(waiting)))
        return outcome

    def turns(self) -> Turns:
        """Return turns for work on many targets."""
        return Turns(self._clock)

    def found(self, task: Task) -> FoundObject | None:
        """Return the cached object of a task."""
        seen = self._watches.known(task.scope, task.step.key)
        return FoundObject(task.scope.resource, task.pod, seen.decode()) if seen is not None else None

    async def get_live(self, task: Task) -> JsonObject:
        """Get the object of a task from the API server, with its managedFields."""
        return await self._client.impersonate(task.scope.service_account).get(
            task.step.resource, task.step.key, JsonObject
        )

    async def dry_run(self, task: Task, again: Decide) -> tuple[JsonObject, JsonObject] | Failure | None:
        """Return the object before and after a dry run of the patch; None if nothing would change.

        Decides on the object of the API server, because the cache may be behind and no event would correct
        that.
        """
        step, client = task.step, self._client.impersonate(task.scope.service_account)
        problem = Failure(task, "Conflict", "not tried")
        for _ in range(ATTEMPTS):
            try:
                before = await client.get(step.resource, step.key, JsonObject)
                now = again(object_from_response(task.scope, task.pod, before))
                if now is None or not now.patch:
                    return None
                after = await client.patch(
                    now.resource, now.key, list(now.patch), JsonObject, content_type=JSON, dry_run=True
                )
            except NotFound:
                return None
            except Conflict as error:
                problem = _failure(task, error)
            except ApiError as error:
                return _failure(task, error)
            else:
                return before, after
        return problem

    async def _take(self, task: Task, again: Decide, outcome: WriteResult) -> None:
        try:
            step = await self._send(task, again, outcome)
        except WriteFenced:
            raise
        except KubeError as error:
            log.warning("Target not changed", extra={"target": str(task.step), "error": str(error)})
            outcome.failures.append(_failure(task, error))
            return
        if step is None:
            outcome.gone.add(task.step.target)
        elif step.fails_batch or (step.state is TargetState.FAILED and not step.policies):
            outcome.failures.append(Failure(task, step.reason, step.message))
        else:
            outcome.taken.append(Task(task.scope, task.pod, step))

    async def _send(self, task: Task, again: Decide, outcome: WriteResult) -> Step | None:
        """Send the patch, with retries; return the step as applied, or None if the object is gone."""
        step: Step | None = self._current(task, again)
        client, problem = self._client.impersonate(task.scope.service_account), KubeError("not tried")
        for attempt in range(ATTEMPTS):
            if step is None or not step.patch:
                return step
            try:
                answer = await client.patch(
                    step.resource, step.key, list(step.patch), JsonObject, content_type=JSON
                )
                outcome.written += 1
                self._watches.record_write(task.scope, answer)
                return step
            except NotFound as error:
                if not _gone(step, error):
                    raise
                return None
            except (Conflict, Invalid) as error:
                problem = error
                step = await self._decide_again(client, task, step, again, error)
            except TRANSIENT as error:
                problem = error
                # The write may have succeeded without a response: the next attempt finds out.
                await self._clock.sleep(min(error.retry_after or 0.1 * 2**attempt, 5.0))
        raise problem

    def _current(self, task: Task, again: Decide) -> Step | None:
        """Return the step for the cached object, which may have changed since the batch started."""
        seen = self._watches.known(task.scope, task.step.key)
        if seen is None or seen.resource_version == _decided_version(task.step):
            return task.step
        return _keep_history(task.step, again(FoundObject(task.scope.resource, task.pod, seen.decode())))

    async def _decide_again(
        self, client: Client, task: Task, step: Step, again: Decide, error: Conflict | Invalid
    ) -> Step | None:
        """Decide again on the current object; raise the error if the object is unchanged."""
        try:
            live = await client.get(step.resource, step.key, JsonObject)
        except NotFound as missing:
            if not _gone(step, missing):
                raise
            return None
        version = live["metadata"]["resourceVersion"]
        if isinstance(error, Invalid) and version == _decided_version(step):
            raise error
        self._watches.record_write(task.scope, live)
        return _keep_history(task.step, again(object_from_response(task.scope, task.pod, live)))


async def _run_workers(work: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
    """Run several workers; an exception of one (e.g. a lost lease) cancels all and is raised."""
    tasks = [asyncio.create_task(work()) for _ in range(count)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def object_from_response(scope: WatchScope, pod: Path | None, obj: JsonObject) -> FoundObject:
    """Return the object of a response in the form that decisions use."""
    if scope.whole:
        return FoundObject(scope.resource, pod, obj)
    metadata = {"apiVersion": scope.resource.api_version, "kind": scope.resource.kind}
    return FoundObject(scope.resource, pod, {**metadata, "metadata": obj["metadata"]})


def _keep_history(first: Step, now: Step | None) -> Step | None:
    """Return the new step with the history of the first attempt.

    A write whose response was lost is ours: what it set is not the previous value.
    """
    if now is None or now.uid != first.uid:
        return now
    return replace(now, before=first.before, held=first.held)


def _gone(step: Step, error: NotFound) -> bool:
    """Return whether the object is gone. A response without its name means that the type is not served."""
    details = error.status.details
    return details is not None and details.name == step.key.name


def _decided_version(step: Step) -> str:
    """Return the resourceVersion that the patch requires."""
    return next((each["value"] for each in step.patch if each["path"] == "/metadata/resourceVersion"), "")


def _failure(task: Task, error: KubeError) -> Failure:
    text = error.message if isinstance(error, ApiError) else str(error)
    if len(text) > _LONGEST:
        # The API server quotes the whole refused value first and gives the reason last.
        text = f"{text[: _LONGEST // 3]} … {text[-_LONGEST // 2 :]}"
    return Failure(task, type(error).__name__, text)
