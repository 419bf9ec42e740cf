"""The steps that are the same for every kind, around the steps that differ.

    fetch from the cache → suspended? → deleted? finalize → add a missing finalizer → the kind's
    `reconcile` → merge conditions → write the status if it changed → record Events → result

A reconcile that finds out that the object was deleted ends; the deletion will reach the cache. Any other
exception that is not an error of the API server or of leadership is a bug or a gap in a kind's code.
It is reported in the object's status (Ready=False, reason InternalError) and raised, so that the queue
logs it and retries. The next reconcile that succeeds removes the report.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from quintet.apis.meta import Condition, Object, ObjectKey, Resource, find_condition
from quintet.apis.steering import SUSPENDED, suspended
from quintet.clock import Clock
from quintet.kube.client import Client
from quintet.kube.errors import Forbidden, KubeError
from quintet.kube.namespaces import is_namespace_deleted
from quintet.runtime import conditions, finalizers
from quintet.runtime.apply import ForeignObject
from quintet.runtime.cache import Store
from quintet.runtime.controller import TIMEOUT
from quintet.runtime.events import NORMAL, WARNING, Event, Recorder
from quintet.runtime.queue import WorkQueue
from quintet.runtime.reconcile import ObjectDeleted, Outcome, Result, TerminalError
from quintet.runtime.status import StatusWriter

READY = "Ready"
INTERNAL_ERROR = "InternalError"

_SUSPENDED = Event(
    NORMAL,
    "Suspended",
    f"The controller skips this object and its children while the annotation {SUSPENDED} is true.",
)
_RESUMED = Event(NORMAL, "Resumed", "The controller reconciles this object again.")

T = TypeVar("T", bound=Object)
log = logging.getLogger(__name__)


class ObjectReconciler(ABC, Generic[T]):
    """The steps that a kind supplies."""

    finalizer: ClassVar[str] = ""
    """The finalizer that holds the object until `finalize` is done; empty if the kind needs none."""
    locks_status: ClassVar[bool] = False
    """Whether a status write must fail if anybody has changed the object since it was read."""

    @abstractmethod
    async def reconcile(self, obj: T, context: "Context[T]") -> Outcome:
        """Bring the object's children to its spec and return its new status."""

    async def finalize(self, obj: T, context: "Context[T]") -> Outcome | None:
        """Clean up after an object that is being deleted; None once nothing is left to clean up."""
        return None

    async def forget(self, key: ObjectKey) -> None:
        """Drop what is remembered of an object that is gone."""

    def events(self, obj: T, before: Any, after: Any) -> Iterable[Event]:
        """Return the Events for a change of the status."""
        return ()

    def failed_status(self, status: Any, ready: Condition) -> Any:
        """Return `status` with the fields that must agree with a Ready condition that is False."""
        return status


class Context(Generic[T]):
    """One reconcile of one object: its failures so far, its status and its Events."""

    def __init__(
        self,
        obj: T,
        failures: int,
        kind: ObjectReconciler[T],
        resource: Resource,
        writer: StatusWriter,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self.failures = failures
        """How many reconciles of this object have failed in a row."""
        self.status: Any = obj.status  # type: ignore[attr-defined]  # every kind has one
        """The status as this reconcile has written it so far."""
        self._obj = obj
        self._kind = kind
        self._resource = resource
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._version = obj.metadata.resource_version
        self._internal_error = _find_internal_error(self.status)
        self._withheld: tuple[Any, bool] | None = None

    async def write_status(self, status: Any, *, observed: bool = True) -> bool:
        """Write a status in the middle of a reconcile; False if nothing changed.

        Set `observed` to False if the status does not reflect the current spec yet. A reported
        internal error stays until the reconcile has succeeded, so that retries do not flap.
        """
        self._withheld = status, observed
        if self._internal_error is not None:
            others = (each for each in status.conditions if each.type != READY)
            status = msgspec.structs.replace(status, conditions=(*others, self._internal_error))
        return await self._write(status, observed)

    async def complete(self, status: Any, *, observed: bool = True) -> None:
        """Write the status at the end of a successful reconcile; None keeps the status as it is."""
        error, self._internal_error = self._internal_error, None
        if error is None:
            if status is not None:
                await self._write(status, observed)
            return
        if status is None:
            status, observed = self._withheld or (self.status, False)
        await self._write(status, observed, drop=error)

    async def report(self, error: Exception) -> None:
        """Write an unexpected error to the status, and record an Event when it is new."""
        ready = Condition(READY, "False", INTERNAL_ERROR, _describe(error))
        is_new = _find_internal_error(self.status) is None
        status = self._kind.failed_status(self.status, ready)
        others = tuple(each for each in status.conditions if each.type != READY)
        status = msgspec.structs.replace(status, conditions=(*others, ready))
        if await self._write(status, observed=False, announce=False) and is_new:
            self.record(Event(WARNING, INTERNAL_ERROR, ready.message))

    def record(self, event: Event) -> None:
        """Record an Event about the object."""
        self._recorder.record(self._resource, self._obj.key, self._obj.metadata.uid, *event)

    async def _write(
        self, status: Any, observed: bool, *, drop: Condition | None = None, announce: bool = True
    ) -> bool:
        before, generation = self.status, self._obj.metadata.generation
        merged = conditions.merge(before.conditions, status.conditions, generation, self._clock.now())
        if drop is not None:
            merged = tuple(each for each in merged if each is not drop)
        changes: dict[str, Any] = {"conditions": merged}
        if observed:
            changes["observed_generation"] = generation
        after = msgspec.structs.replace(status, **changes)
        lock = self._version if self._kind.locks_status else ""
        version = await self._writer.write(self._obj, before, after, lock=lock)
        if version is None:
            return False
        self.status, self._version = after, version
        if announce:
            for event in self._kind.events(self._obj, before, after):
                self.record(event)
        return True


class Reconciler(Generic[T]):
    """The shared steps around one kind's steps."""

    def __init__(
        self,
        kind: ObjectReconciler[T],
        resource: Resource,
        client: Client,
        store: Store[T],
        queue: WorkQueue,
        writer: StatusWriter,
        recorder: Recorder,
        clock: Clock,
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        self._kind = kind
        self._resource = resource
        self._client = client
        self._store = store
        self._queue = queue
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._timeout = timeout
        self._suspended: dict[ObjectKey, str] = {}

    async def reconcile(self, key: ObjectKey) -> Result:
        """Reconcile the object with this key."""
        obj = self._store.get(key)
        if obj is None:
            self._suspended.pop(key, None)
            async with asyncio.timeout(self._timeout):
                await self._kind.forget(key)
            return Result.done()
        context = Context(
            obj,
            self._queue.failures[key],
            self._kind,
            self._resource,
            self._writer,
            self._recorder,
            self._clock,
        )
        if self._is_suspended(obj, context):
            return Result.done()
        try:
            async with asyncio.timeout(self._timeout):
                outcome = await self._run(obj, context)
        except ObjectDeleted:
            return Result.done()
        except Exception as error:
            if (unexpected := _find_unexpected(error)) is not None:
                await self._report(context, unexpected)
            raise
        if len(outcome.failures) == 1:
            raise outcome.failures[0]
        if outcome.failures:
            raise ExceptionGroup(f"{self._resource.kind} {key}", list(outcome.failures))
        return Result(outcome.requeue_after)

    def _is_suspended(self, obj: T, context: Context[T]) -> bool:
        """Return whether to skip the object; the Events about it are recorded once per process."""
        key, uid = obj.key, obj.metadata.uid
        if suspended(obj.metadata):
            if self._suspended.get(key) != uid:
                self._suspended[key] = uid
                context.record(_SUSPENDED)
            return True
        if self._suspended.pop(key, None) == uid and not obj.metadata.deleting:
            context.record(_RESUMED)
        return False

    async def _run(self, obj: T, context: Context[T]) -> Outcome:
        held = self._kind.finalizer in obj.metadata.finalizers
        if obj.metadata.deleting:
            return await self._finalize(obj, context) if held else Outcome()
        if self._kind.finalizer and not held:
            # The webhook adds it on creation; this object bypassed it. The change requeues the key.
            await finalizers.add(self._client, self._resource, obj, self._kind.finalizer)
            return Outcome()
        outcome = await self._kind.reconcile(obj, context)
        if outcome.failures and outcome.status is None:
            return outcome
        await context.complete(outcome.status)
        return outcome

    async def _finalize(self, obj: T, context: Context[T]) -> Outcome:
        try:
            outcome = await self._kind.finalize(obj, context)
        except Forbidden:
            # Our Role was deleted with the namespace, which deletes the children as well.
            if not await is_namespace_deleted(self._client, obj.metadata.namespace):
                raise
            outcome = None
        if outcome is None:
            await finalizers.remove(self._client, self._resource, obj, self._kind.finalizer)
            return Outcome()
        await context.complete(outcome.status, observed=False)
        return outcome

    async def _report(self, context: Context[T], error: Exception) -> None:
        try:
            await context.report(error)
        except (KubeError, ObjectDeleted) as refusal:
            log.warning("Internal error not written to the status", extra={"error": str(refusal)})


def _find_internal_error(status: Any) -> Condition | None:
    ready = find_condition(status.conditions, READY)
    return ready if ready is not None and ready.reason == INTERNAL_ERROR else None


def _find_unexpected(error: Exception) -> Exception | None:
    """Return the first error that a kind should have handled; errors of the API server are retried."""
    if isinstance(error, ExceptionGroup):
        return next((found for each in error.exceptions if (found := _find_unexpected(each))), None)
    return None if isinstance(error, KubeError) else error


def _describe(error: Exception) -> str:
    """Return a message without a stack trace, and without texts that may hold secrets."""
    if isinstance(error, (TerminalError, ForeignObject)):
        return str(error)
    return (
        f"the controller failed with an unexpected {type(error).__name__} and retries; "
        "its log has the details under the name of this object"
    )
