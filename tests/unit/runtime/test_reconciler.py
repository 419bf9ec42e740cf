"""The steps that the runtime takes around the steps of a kind, one test per rule."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from kit.clock import VirtualClock
from quintet.apis.meta import Condition, Object, ObjectKey, ObjectMeta, Resource, Struct, find_condition
from quintet.apis.steering import SUSPENDED
from quintet.kube.errors import Conflict, NotFound, ServerFault, Status, Unreachable, WriteFenced
from quintet.runtime.apply import ForeignObject
from quintet.runtime.cache import Store
from quintet.runtime.events import NORMAL, WARNING, Event
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.queue import WorkQueue
from quintet.runtime.reconcile import Outcome, Result, TerminalError
from quintet.runtime.reconciler import Context, ObjectReconciler, Reconciler
from quintet.runtime.status import StatusWriter

KEY = ObjectKey("ns", "a")
KINDS = Resource("example.com", "v1", "Kind", "kinds")
FINALIZER = "example.com/kind"
READY = Condition("Ready", "True", "Available", "all is well")
WAITING = Condition("Ready", "False", "Waiting", "not yet")


class KindStatus(Struct, frozen=True):
    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Kind(Object, frozen=True):
    status: KindStatus = KindStatus()


Step = Callable[[Kind, Context[Kind]], Any]


class KindReconciler(ObjectReconciler[Kind]):
    """A kind whose steps a test replaces."""

    def __init__(self) -> None:
        self.on_reconcile: Step = lambda kind, context: Outcome(KindStatus(conditions=(READY,)))
        self.on_finalize: Step = lambda kind, context: None
        self.calls: list[str] = []

    async def reconcile(self, kind: Kind, context: Context[Kind]) -> Outcome:
        self.calls.append("reconcile")
        outcome = self.on_reconcile(kind, context)
        return await outcome if asyncio.iscoroutine(outcome) else outcome

    async def finalize(self, kind: Kind, context: Context[Kind]) -> Outcome | None:
        self.calls.append("finalize")
        outcome: Outcome | None = self.on_finalize(kind, context)
        return outcome

    async def forget(self, key: ObjectKey) -> None:
        self.calls.append(f"forget {key}")

    def events(self, kind: Kind, before: KindStatus, after: KindStatus) -> Iterable[Event]:
        old, new = (find_condition(status.conditions, "Ready") for status in (before, after))
        if new is not None and (old is None or old.status != new.status):
            yield Event(NORMAL if new.status == "True" else WARNING, new.reason, new.message)


class HeldKind(KindReconciler):
    """The same with a finalizer."""

    finalizer = FINALIZER


class LockedKind(KindReconciler):
    """The same with status writes that need the version that was read."""

    locks_status = True


class FakeServer:
    """The client and the event recorder of a server with one object."""

    def __init__(self, store: Store[Kind]) -> None:
        self.store = store
        self.patches: list[dict[str, Any]] = []
        self.events: list[tuple[str, str]] = []
        self.failure: Exception | None = None

    async def patch(
        self, resource: Resource, key: ObjectKey, body: dict[str, Any], kind: type, subresource: str = ""
    ) -> Object:
        assert (resource, key) == (KINDS, KEY)
        if self.failure is not None:
            raise self.failure
        self.patches.append(body)
        kind_now = self.store.get(KEY)
        assert kind_now is not None
        version = str(kind_now.version + 1)
        changes = {"resource_version": version}
        if "finalizers" in body["metadata"]:
            changes["finalizers"] = tuple(body["metadata"]["finalizers"])
        metadata = msgspec.structs.replace(kind_now.metadata, **changes)
        stored = {**msgspec.to_builtins(kind_now.status), **body.get("status", {})}
        status = msgspec.convert({k: v for k, v in stored.items() if v is not None}, KindStatus)
        self.store.put(Kind(metadata, status))
        self.store.advance(int(version))
        return Object(metadata)

    def record(self, resource: Resource, key: ObjectKey, uid: str, type: str, reason: str, note: str) -> None:
        assert (resource, key, uid) == (KINDS, KEY, "uid-1")
        self.events.append((type, reason))


class Bench:
    """A reconciler of one object, whose writes reach the cache at once."""

    def __init__(self, kind: KindReconciler | None = None, **options: Any) -> None:
        self.kind = kind or KindReconciler()
        self.store: Store[Kind] = Store()
        self.server: Any = FakeServer(self.store)
        self.clock = VirtualClock()
        self.queue = WorkQueue("bench", self.clock)
        writer = StatusWriter(self.server, KINDS, self.store, OwnWrites(self.queue.add))
        self.reconciler = Reconciler(
            self.kind, KINDS, self.server, self.store, self.queue, writer, self.server, self.clock, **options
        )

    def put(self, *, generation: int = 1, **metadata: Any) -> None:
        known = self.store.get(KEY)
        version = known.version + 1 if known is not None else 1
        meta = ObjectMeta(
            name=KEY.name,
            namespace=KEY.namespace,
            uid="uid-1",
            generation=generation,
            resource_version=str(version),
            **metadata,
        )
        self.store.put(Kind(meta, known.status if known is not None else KindStatus()))

    async def reconcile(self) -> Result:
        return await self.reconciler.reconcile(KEY)

    @property
    def status(self) -> KindStatus:
        known = self.store.get(KEY)
        assert known is not None
        return known.status

    @property
    def ready(self) -> Condition:
        found = find_condition(self.status.conditions, "Ready")
        assert found is not None
        return found


def fail_with(error: Exception) -> Step:
    def step(kind: Kind, context: Context[Kind]) -> Outcome:
        raise error

    return step


async def test_unexpected_exception_sets_ready_to_internal_error_and_is_raised():
    bench = Bench()
    bench.put(generation=3)
    bench.kind.on_reconcile = fail_with(ZeroDivisionError("the secret is hunter2"))
    with pytest.raises(ZeroDivisionError):
        await bench.reconcile()
    assert (bench.ready.status, bench.ready.reason) == ("False", "InternalError")
    assert "ZeroDivisionError" in bench.ready.message
    assert "hunter2" not in bench.ready.message, "the text of an unexpected error may hold secrets"
    assert "Traceback" not in bench.ready.message
    assert bench.server.events == [("Warning", "InternalError")]


async def test_internal_error_leaves_observed_generation_of_the_status_and_sets_that_of_the_condition():
    bench = Bench()
    bench.put(generation=1)
    await bench.reconcile()
    bench.put(generation=2)
    bench.kind.on_reconcile = fail_with(KeyError("x"))
    with pytest.raises(KeyError):
        await bench.reconcile()
    assert (bench.status.observed_generation, bench.ready.observed_generation) == (1, 2)


async def test_internal_error_that_repeats_is_written_and_announced_once():
    bench = Bench()
    bench.put()
    bench.kind.on_reconcile = fail_with(KeyError("x"))
    for _ in range(3):
        with pytest.raises(KeyError):
            await bench.reconcile()
    assert len(bench.server.patches) == 1
    assert bench.server.events == [("Warning", "InternalError")]


async def test_reconcile_that_succeeds_replaces_an_internal_error():
    bench = Bench()
    bench.put()
    bench.kind.on_reconcile = fail_with(KeyError("x"))
    with pytest.raises(KeyError):
        await bench.reconcile()
    bench.kind.on_reconcile = lambda kind, context: Outcome(KindStatus(conditions=(READY,)))
    await bench.reconcile()
    assert bench.ready.reason == "Available"
    assert bench.server.events == [("Warning", "InternalError"), ("Normal", "Available")]


@pytest.mark.parametrize(
    "outcome",
    [Outcome(), Outcome(KindStatus(phase="Done"))],
    ids=["status is kept", "status without Ready"],
)
async def test_reconcile_that_succeeds_removes_an_internal_error_of_a_kind_without_ready(outcome):
    bench = Bench()
    bench.put()
    bench.kind.on_reconcile = fail_with(KeyError("x"))
    with pytest.raises(KeyError):
        await bench.reconcile()
    bench.kind.on_reconcile = lambda kind, context: outcome
    await bench.reconcile()
    assert bench.status.conditions == ()


async def test_internal_error_stays_while_retries_write_a_status_and_fail():
    bench = Bench()
    bench.put()

    async def write_and_fail(kind: Kind, context: Context[Kind]) -> Outcome:
        await context.write_status(KindStatus(phase="Acting", conditions=(READY,)))
        raise KeyError("x")

    async def write_and_succeed(kind: Kind, context: Context[Kind]) -> Outcome:
        await context.write_status(KindStatus(phase="Acting", conditions=(READY,)))
        return Outcome()

    bench.kind.on_reconcile = write_and_fail
    for _ in range(3):
        with pytest.raises(KeyError):
            await bench.reconcile()
    assert (bench.ready.reason, bench.status.phase) == ("InternalError", "Acting")
    assert len(bench.server.patches) == 2, "Ready must not change back and forth"
    bench.kind.on_reconcile = write_and_succeed
    await bench.reconcile()
    assert (bench.ready.reason, len(bench.server.patches)) == ("Available", 3)


@pytest.mark.parametrize(
    "error",
    [
        Conflict("PATCH /x", Status(code=409)),
        ServerFault("GET /x", Status(code=500)),
        Unreachable("connection refused"),
        WriteFenced("not leading"),
        ExceptionGroup("both", [Unreachable("a"), NotFound("GET /x", Status(code=404))]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_api_error_is_raised_and_does_not_change_the_status(error):
    bench = Bench()
    bench.put()
    bench.kind.on_reconcile = fail_with(error)
    with pytest.raises(type(error)):
        await bench.reconcile()
    assert bench.server.patches == []


@pytest.mark.parametrize(
    "error",
    [TerminalError("rename the object"), ForeignObject(KINDS, KEY)],
    ids=lambda error: type(error).__name__,
)
async def test_error_with_a_message_for_users_reaches_the_status_with_its_message(error):
    bench = Bench()
    bench.put()
    bench.kind.on_reconcile = fail_with(error)
    with pytest.raises(type(error)):
        await bench.reconcile()
    assert bench.ready.message == str(error)


async def test_unexpected_exception_in_a_group_reaches_the_status():
    bench = Bench()
    bench.put()
    bench.kind.on_reconcile = fail_with(ExceptionGroup("both", [Unreachable("a"), KeyError("x")]))
    with pytest.raises(ExceptionGroup):
        await bench.reconcile()
    assert "KeyError" in bench.ready.message


async def test_timeout_reaches_the_status():
    bench = Bench(timeout=0.01)
    bench.put()

    async def hang(kind: Kind, context: Context[Kind]) -> Outcome:
        await asyncio.Event().wait()
        return Outcome()

    bench.kind.on_reconcile = hang
    with pytest.raises(TimeoutError):
        await bench.reconcile()
    assert "TimeoutError" in bench.ready.message


async def test_exception_is_raised_when_the_status_cannot_be_written(caplog):
    bench = Bench()
    bench.put()
    bench.server.failure = Unreachable("connection refused")
    bench.kind.on_reconcile = fail_with(KeyError("x"))
    with pytest.raises(KeyError):
        await bench.reconcile()
    assert "Internal error not written to the status" in caplog.text


async def test_unexpected_exception_in_finalize_reaches_the_status():
    bench = Bench(HeldKind())
    bench.put(finalizers=(FINALIZER,), deletion_timestamp="2030-01-01T00:00:00Z")
    bench.kind.on_finalize = fail_with(KeyError("x"))
    with pytest.raises(KeyError):
        await bench.reconcile()
    assert bench.ready.reason == "InternalError"


async def test_observed_generation_is_set_in_status_and_conditions():
    bench = Bench()
    bench.put(generation=7)
    await bench.reconcile()
    assert (bench.status.observed_generation, bench.ready.observed_generation) == (7, 7)


async def test_status_that_does_not_reflect_the_spec_yet_keeps_observed_generation():
    bench = Bench()
    bench.put(generation=1)
    await bench.reconcile()
    bench.put(generation=2)

    async def mark(kind: Kind, context: Context[Kind]) -> Outcome:
        marked = msgspec.structs.replace(context.status, phase="Marked")
        assert await context.write_status(marked, observed=False)
        return Outcome()

    bench.kind.on_reconcile = mark
    await bench.reconcile()
    assert bench.status.phase == "Marked"
    assert (bench.status.observed_generation, bench.ready.observed_generation) == (1, 1)


async def test_status_is_not_written_when_nothing_changed():
    bench = Bench()
    bench.put()
    await bench.reconcile()
    await bench.clock.advance(60.0)
    await bench.reconcile()
    assert len(bench.server.patches) == 1


async def test_event_is_recorded_only_when_a_condition_changes():
    bench = Bench()
    bench.put()
    await bench.reconcile()
    bench.kind.on_reconcile = lambda kind, context: Outcome(KindStatus(phase="x", conditions=(READY,)))
    await bench.reconcile()
    bench.kind.on_reconcile = lambda kind, context: Outcome(KindStatus(conditions=(WAITING,)))
    await bench.reconcile()
    assert len(bench.server.patches) == 3
    assert bench.server.events == [("Normal", "Available"), ("Warning", "Waiting")]


async def test_status_is_written_before_failures_are_raised():
    bench = Bench()
    bench.put()
    error = Unreachable("connection refused")
    bench.kind.on_reconcile = lambda kind, context: Outcome(KindStatus(conditions=(WAITING,)), None, [error])
    with pytest.raises(Unreachable):
        await bench.reconcile()
    assert bench.ready.reason == "Waiting"


async def test_several_failures_are_raised_as_a_group():
    bench = Bench()
    bench.put()
    bench.kind.on_reconcile = lambda kind, context: Outcome(failures=[Unreachable("a"), Unreachable("b")])
    with pytest.raises(ExceptionGroup, match="Kind ns/a"):
        await bench.reconcile()


async def test_result_requeues_after_the_delay_of_the_outcome():
    bench = Bench()
    bench.put()
    bench.kind.on_reconcile = lambda kind, context: Outcome(requeue_after=5.0)
    assert await bench.reconcile() == Result.after(5.0)


async def test_context_has_the_number_of_consecutive_failures():
    bench = Bench()
    bench.put()
    bench.queue.retry(KEY)
    bench.queue.retry(KEY)
    seen = []
    bench.kind.on_reconcile = lambda kind, context: seen.append(context.failures) or Outcome()
    await bench.reconcile()
    assert seen == [2]


async def test_missing_finalizer_is_added_before_the_kind_reconciles():
    bench = Bench(HeldKind())
    bench.put(finalizers=("other",))
    assert await bench.reconcile() == Result.done()
    assert bench.kind.calls == []
    assert bench.server.patches[0]["metadata"]["finalizers"] == ["other", FINALIZER]
    await bench.reconcile()
    assert bench.kind.calls == ["reconcile"]


async def test_deleted_object_without_finalizer_is_skipped():
    for kind in (KindReconciler(), HeldKind()):
        bench = Bench(kind)
        bench.put(deletion_timestamp="2030-01-01T00:00:00Z", finalizers=("other",))
        assert await bench.reconcile() == Result.done()
        assert (kind.calls, bench.server.patches) == ([], [])


async def test_finalizer_is_removed_once_finalize_is_done():
    bench = Bench(HeldKind())
    bench.put(finalizers=("other", FINALIZER), deletion_timestamp="2030-01-01T00:00:00Z")
    bench.kind.on_finalize = lambda kind, context: Outcome(requeue_after=10.0)
    assert await bench.reconcile() == Result.after(10.0)
    assert bench.server.patches == []
    bench.kind.on_finalize = lambda kind, context: None
    assert await bench.reconcile() == Result.done()
    assert bench.server.patches[0]["metadata"]["finalizers"] == ["other"]


async def test_status_of_finalize_keeps_observed_generation():
    bench = Bench(HeldKind())
    bench.put(generation=2, finalizers=(FINALIZER,), deletion_timestamp="2030-01-01T00:00:00Z")
    bench.kind.on_finalize = lambda kind, context: Outcome(KindStatus(1, conditions=(WAITING,)))
    await bench.reconcile()
    assert (bench.status.observed_generation, bench.ready.observed_generation) == (1, 2)


async def test_kind_forgets_an_object_that_is_gone():
    bench = Bench()
    assert await bench.reconcile() == Result.done()
    assert bench.kind.calls == ["forget ns/a"]


async def test_locked_status_writes_carry_the_version_of_the_write_before():
    bench = Bench(LockedKind())
    bench.put()

    async def write_twice(kind: Kind, context: Context[Kind]) -> Outcome:
        await context.write_status(KindStatus(phase="One"))
        return Outcome(KindStatus(phase="Two"))

    bench.kind.on_reconcile = write_twice
    await bench.reconcile()
    assert [patch["metadata"]["resourceVersion"] for patch in bench.server.patches] == ["1", "2"]


async def test_locked_status_write_of_deleted_object_ends_the_reconcile_without_retry():
    bench = Bench(LockedKind())
    bench.put()
    bench.server.failure = NotFound("PATCH /x", Status(code=404))
    steps = []

    async def write_then_act(kind: Kind, context: Context[Kind]) -> Outcome:
        await context.write_status(KindStatus(phase="One"))
        steps.append("act")
        return Outcome()

    bench.kind.on_reconcile = write_then_act
    assert await bench.reconcile() == Result.done()
    assert steps == []


async def test_suspended_object_is_skipped_and_announced_once():
    bench = Bench()
    bench.put(annotations={SUSPENDED: "true"})
    assert [await bench.reconcile() for _ in range(3)] == [Result.done()] * 3
    assert (bench.kind.calls, bench.server.events) == ([], [("Normal", "Suspended")])


async def test_resumed_object_is_reconciled_and_announced_once():
    bench = Bench()
    bench.put(annotations={SUSPENDED: "true"})
    await bench.reconcile()
    bench.put()
    bench.kind.on_reconcile = lambda kind, context: Outcome()
    await bench.reconcile()
    await bench.reconcile()
    assert bench.kind.calls == ["reconcile", "reconcile"]
    assert bench.server.events == [("Normal", "Suspended"), ("Normal", "Resumed")]


async def test_suspended_object_that_is_deleted_is_finalized_and_not_announced_as_resumed():
    bench = Bench(HeldKind())
    held: dict[str, Any] = {"annotations": {SUSPENDED: "true"}, "finalizers": (FINALIZER,)}
    bench.put(**held)
    await bench.reconcile()
    bench.put(**held, deletion_timestamp="2030-01-01T00:00:00Z")
    await bench.reconcile()
    assert (bench.kind.calls, bench.server.events) == (["finalize"], [("Normal", "Suspended")])


async def test_new_object_with_the_name_of_a_suspended_one_is_not_announced_as_resumed():
    bench = Bench()
    bench.put(annotations={SUSPENDED: "true"})
    await bench.reconcile()
    bench.store.remove(KEY)
    await bench.reconcile()
    bench.put()
    bench.kind.on_reconcile = lambda kind, context: Outcome()
    await bench.reconcile()
    assert bench.server.events == [("Normal", "Suspended")]


@pytest.mark.parametrize("value", ["false", "", "True", "yes", "1"])
async def test_object_is_suspended_only_by_the_value_true(value):
    bench = Bench()
    bench.put(annotations={SUSPENDED: value})
    await bench.reconcile()
    assert bench.kind.calls == ["reconcile"]
