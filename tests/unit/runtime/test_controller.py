"""Tests of the workers, one per row of the table in `runtime.reconcile`, in virtual time."""

import asyncio
import contextlib

import pytest
from prometheus_client import REGISTRY

from kit.background import run_in_background
from kit.clock import VirtualClock, settle
from quintet.apis.meta import Object, ObjectKey, ObjectMeta
from quintet.kube.errors import ServerFault, Status, TooManyRequests, WriteFenced
from quintet.runtime import handlers
from quintet.runtime.cache import Store, Undecodable
from quintet.runtime.controller import Controller
from quintet.runtime.ownwrites import OwnWrites
from quintet.runtime.queue import INITIAL, WorkQueue
from quintet.runtime.reconcile import Result, TerminalError

A, B = ObjectKey("ns", "a"), ObjectKey("ns", "b")


class Bench:
    """A controller with a reconcile function whose results a test sets."""

    def __init__(self, **options) -> None:
        self.clock = VirtualClock()
        self.store: Store[Object] = Store()
        self.queue = WorkQueue("bench", self.clock, jitter=lambda: 1.0)
        self.writes = OwnWrites(self.queue.add)
        self.runs: list[tuple[float, ObjectKey]] = []
        self.outcomes: list[Result | BaseException] = []
        self.undecodable: list[Undecodable] = []
        self.controller = Controller(
            "bench", self.reconcile, self.queue, self.store, self.writes, self.clock,
            on_undecodable=self.undecodable.append, **options,
        )  # fmt: skip

    async def reconcile(self, key: ObjectKey) -> Result:
        self.runs.append((self.clock.elapsed, key))
        outcome = self.outcomes.pop(0) if self.outcomes else Result.done()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    @contextlib.asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.controller.run())
        await settle()
        yield self
        self.queue.close()
        await task

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.runs]


def a_fault(retry_after: float | None = None) -> ServerFault:
    return ServerFault("GET /x", Status(code=500), retry_after)


async def test_result_done_waits_for_the_next_change():
    async with Bench().running() as bench:
        bench.queue.add(A)
        await bench.clock.advance(5000.0)
        assert bench.times == [0.0]


async def test_result_after_requeues_the_key_after_the_delay():
    async with Bench().running() as bench:
        bench.outcomes = [Result.after(30.0), Result.done()]
        bench.queue.add(A)
        await bench.clock.advance(100.0)
        assert bench.times == [0.0, 30.0]


async def test_error_requeues_the_key_with_growing_delays():
    async with Bench().running() as bench:
        bench.outcomes = [a_fault(), a_fault(), a_fault(), Result.done()]
        bench.queue.add(A)
        await bench.clock.advance(10.0)
        assert bench.times == pytest.approx([0.0, 0.005, 0.015, 0.035])


async def test_error_with_retry_after_requeues_the_key_after_that_time():
    async with Bench().running() as bench:
        bench.outcomes = [TooManyRequests("PUT /x", Status(code=429), 12.0), Result.done()]
        bench.queue.add(A)
        await bench.clock.advance(60.0)
        assert bench.times == [0.0, 12.0]


async def test_error_group_requeues_the_key_after_the_longest_retry_after():
    async with Bench().running() as bench:
        bench.outcomes = [ExceptionGroup("phases", [a_fault(3.0), a_fault(9.0)]), Result.done()]
        bench.queue.add(A)
        await bench.clock.advance(60.0)
        assert bench.times == [0.0, 9.0]


async def test_terminal_error_is_not_retried_until_the_object_changes():
    async with Bench().running() as bench:
        bench.outcomes = [TerminalError("hopeless"), Result.done()]
        bench.queue.add(A)
        await bench.clock.advance(5000.0)
        assert bench.times == [0.0]
        bench.queue.add(A)
        await bench.clock.advance(1.0)
        assert bench.times == [0.0, 5000.0]


async def test_unexpected_exception_of_one_key_does_not_stop_other_keys():
    before = (
        REGISTRY.get_sample_value("controller_runtime_reconcile_panics_total", {"controller": "bench"}) or 0
    )
    async with Bench(workers=1).running() as bench:
        bench.outcomes = [ZeroDivisionError("bug")]
        bench.queue.add(A)
        bench.queue.add(B)
        await settle()
        assert [key for _, key in bench.runs] == [A, B]
        await bench.clock.advance(1.0)
        assert [key for _, key in bench.runs] == [A, B, A], "the crashed key was not tried again"
    after = REGISTRY.get_sample_value("controller_runtime_reconcile_panics_total", {"controller": "bench"})
    assert after == before + 1


async def test_fenced_write_is_retried_and_not_counted_as_error():
    before = REGISTRY.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "bench"})
    async with Bench().running() as bench:
        bench.outcomes = [WriteFenced("not leading"), WriteFenced("not leading"), Result.done()]
        bench.queue.add(A)
        await bench.clock.advance(5000.0)
        assert bench.times == pytest.approx([0.0, 0.005, 0.015])
    after = REGISTRY.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "bench"})
    assert after == before


async def test_key_waits_until_the_cache_has_seen_own_writes():
    async with Bench().running() as bench:
        bench.store.finish_list(set(), 10)
        bench.writes.record(A, bench.store, 15)
        bench.queue.add(A)
        await bench.clock.advance(60.0)
        assert bench.runs == [], "decided on a cache that had not seen our last write"
        bench.store.advance(15)
        await settle()
        assert [key for _, key in bench.runs] == [A]


async def test_new_leader_reconciles_every_object_once():
    bench = Bench()
    for name in ("a", "b"):
        bench.store.put(Object(ObjectMeta(name=name, namespace="ns", resource_version="1")))
    async with bench.running():
        assert sorted(key for _, key in bench.runs) == [A, B]


async def test_undecodable_object_is_reported_and_not_reconciled():
    async with Bench().running() as bench:
        broken = Undecodable(A, 3, "uid", "Expected `int`, got `str` - at `$.spec.replicas`")
        bench.store.put_undecodable(broken)
        bench.queue.add(A)
        await bench.clock.advance(5000.0)
        assert bench.undecodable == [broken]
        assert bench.runs == []


async def test_closed_controller_finishes_reconciles_in_progress():
    bench = Bench()
    release = asyncio.Event()
    ended = []

    async def slow(key: ObjectKey) -> Result:
        await release.wait()
        ended.append(key)
        return Result.done()

    bench.controller._reconcile = slow
    task = asyncio.create_task(bench.controller.run())
    await settle()
    bench.queue.add(A)
    await settle()
    bench.queue.close()
    await settle()
    assert not task.done()
    release.set()
    await task
    assert ended == [A]


def an_object(name: str, version: int = 1) -> Object:
    return Object(ObjectMeta(name=name, namespace="ns", resource_version=str(version)))


def depth() -> float | None:
    return REGISTRY.get_sample_value("workqueue_depth", {"name": "bench", "controller": "bench"})


async def test_standby_queues_no_keys():
    bench = Bench()
    bench.store.subscribe(handlers.enqueue(bench.queue, handlers.own_key))
    for number in range(150):
        bench.store.put(an_object(f"kept-{number}"))
    bench.store.finish_list(set(bench.store.all_keys()), 1)
    for number in range(500):
        bench.store.put(an_object(f"gone-{number}", 2))
        bench.store.remove(ObjectKey("ns", f"gone-{number}"))
    assert depth() == 0
    async with bench.running():
        assert len(bench.runs) == 150, "who begins to lead looks at what there is, and at nothing else"


async def test_controller_queues_no_keys_after_losing_leadership():
    bench = Bench()
    bench.store.subscribe(handlers.enqueue(bench.queue, handlers.own_key))
    bench.store.put(an_object("a"))
    await end_term(bench)
    for number in range(150):
        bench.store.put(an_object(f"new-{number}", 2))
    assert depth() == 0


async def test_new_leadership_reconciles_objects_deleted_meanwhile():
    bench = Bench()
    bench.store.subscribe(handlers.enqueue(bench.queue, handlers.own_key))
    bench.store.put(an_object("a"))
    bench.store.put(an_object("b"))
    await end_term(bench)
    bench.store.remove(B)
    bench.runs.clear()
    async with bench.running():
        assert sorted(key for _, key in bench.runs) == [A, B], "what is remembered of b can be forgotten"
    assert bench.queue.failures == {}


async def end_term(bench: Bench) -> None:
    """Run the controller as leader, then end its leadership."""
    term = asyncio.create_task(bench.controller.run())
    await settle()
    term.cancel()
    await asyncio.gather(term, return_exceptions=True)


@pytest.mark.parametrize(
    "outcome", [pytest.param(a_fault(), id="a failure"), pytest.param(Result.after(1.0), id="a delay")]
)
async def test_requeued_key_of_the_initial_list_waits_behind_other_keys(outcome):
    """With one worker, and reconciles that take longer than the delay of the requeued key."""
    bench = Bench(workers=1)
    order: list[str] = []

    async def slow(key: ObjectKey) -> Result:
        order.append(key.name)
        await bench.clock.sleep(10.0)
        if key.name.startswith("bad") and isinstance(outcome, BaseException):
            raise outcome
        return outcome if key.name.startswith("bad") and isinstance(outcome, Result) else Result.done()

    bench.controller._reconcile = slow
    names = [*(f"bad-{number}" for number in range(4)), "good"]
    for name in names:
        bench.store.put(an_object(name))
    async with bench.running():
        await bench.clock.advance(60.0)
        assert order[:5] == names
        bench.queue.close()
        await bench.clock.advance(10.0)


async def test_key_of_the_initial_list_stays_behind_live_changes_after_waiting_for_the_cache():
    bench = Bench(workers=1)
    async with bench.running():
        bench.writes.record(A, bench.store, 15)
        bench.queue.add(A, INITIAL)
        await settle()
        bench.store.advance(15)
        bench.queue.add(B)
        await settle()
        assert [key for _, key in bench.runs] == [B, A]


async def test_key_waits_until_every_cache_has_the_list_of_its_namespace():
    clock = VirtualClock()
    queue, primary, children = WorkQueue("parked", clock), Store[Object](), Store[Object]()
    seen: list[ObjectKey] = []

    async def reconcile(key: ObjectKey) -> Result:
        seen.append(key)
        return Result.done()

    for cache in (primary, children):
        for namespace in ("a", "b"):
            cache.add_source(namespace)
    controller = Controller(
        "parked", reconcile, queue, primary, OwnWrites(queue.add), clock, caches=(primary, children)
    )
    primary.finish_list(set(), 1, "a")
    primary.finish_list(set(), 1, "b")
    children.finish_list(set(), 1, "a")
    async with run_in_background(controller.run()):
        await settle()
        for namespace in ("a", "b"):
            queue.add(ObjectKey(namespace, "x"))
        await settle()
        assert seen == [ObjectKey("a", "x")], "the children in b are unknown"
        children.finish_list(set(), 2, "b")
        await settle()
        assert seen == [ObjectKey("a", "x"), ObjectKey("b", "x")]
