"""Tests of the work queue, in virtual time."""

import asyncio
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from kit.clock import VirtualClock, settle
from quintet.apis.meta import ObjectKey
from quintet.kube.rates import RETRIES_PER_SECOND, RETRY_BURST
from quintet.runtime.queue import INITIAL, LIVE, QueueClosed, WorkQueue

A, B, C = (ObjectKey("ns", name) for name in "abc")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> WorkQueue:
    return WorkQueue("test", clock, jitter=lambda: 1.0)


async def drain(queue: WorkQueue) -> list[ObjectKey]:
    """Return all keys that are ready, in order."""
    taken = []
    while True:
        getting = asyncio.ensure_future(queue.get())
        await settle()
        if not getting.done():
            getting.cancel()
            return taken
        taken.append(getting.result())
        queue.done(getting.result())


async def test_queue_returns_key_once_when_added_twice(queue):
    queue.add(A)
    queue.add(A)
    assert await drain(queue) == [A]


async def test_queue_returns_keys_of_one_priority_in_order_of_arrival(queue):
    for key in (B, A, C):
        queue.add(key)
    assert await drain(queue) == [B, A, C]


async def test_live_keys_go_before_keys_of_the_initial_list(queue):
    queue.add(A, INITIAL)
    queue.add(B, INITIAL)
    queue.add(C, LIVE)
    assert await drain(queue) == [C, A, B]


async def test_key_keeps_its_highest_priority(queue):
    queue.add(A, INITIAL)
    queue.add(B, INITIAL)
    queue.add(B, LIVE)
    queue.add(B, INITIAL)
    assert await drain(queue) == [B, A]


async def test_key_in_progress_is_not_given_to_a_second_worker(queue):
    queue.add(A)
    assert await queue.get() == A
    queue.add(A)
    second = asyncio.ensure_future(queue.get())
    await settle()
    assert not second.done(), "the key was handed out while somebody worked on it"
    queue.done(A)
    assert await second == A


async def test_key_added_during_its_reconcile_is_queued_once_more(queue):
    queue.add(A)
    await queue.get()
    queue.add(A)
    queue.add(A)
    queue.done(A)
    assert await drain(queue) == [A]


async def test_delayed_key_waits_for_its_delay(queue, clock):
    queue.add(A, after=10.0)
    assert await drain(queue) == []
    await clock.advance(9.9)
    assert await drain(queue) == []
    await clock.advance(0.2)
    assert await drain(queue) == [A]


async def test_delayed_key_is_ready_at_once_when_added_again(queue, clock):
    queue.add(A, after=10.0)
    queue.add(A)
    assert await drain(queue) == [A]
    await clock.advance(20.0)
    assert await drain(queue) == [], "the old delay brought the key back"


async def test_key_added_with_two_delays_keeps_the_shorter(queue, clock):
    queue.add(A, after=5.0)
    queue.add(A, after=50.0)
    await clock.advance(5.0)
    assert await drain(queue) == [A]
    await clock.advance(60.0)
    assert await drain(queue) == []


async def test_retry_delay_doubles_from_5_ms_to_1000_s(queue, clock):
    delays = []
    for _ in range(20):
        queue.add(A)
        await queue.get()
        delays.append(queue.retry(A))
        queue.done(A)
        await clock.advance(delays[-1])
    want_first = [0.005, 0.01, 0.02, 0.04]
    assert delays[:4] == pytest.approx(want_first)
    assert delays[-1] == 1000.0


async def test_forget_resets_the_retry_delay(queue, clock):
    for _ in range(5):
        queue.retry(A)
    queue.forget(A)
    assert queue.retry(A) == pytest.approx(0.005)


async def test_jitter_keeps_at_least_half_of_the_delay(clock):
    queue = WorkQueue("test", clock, jitter=lambda: 0.0)
    assert queue.retry(A) == pytest.approx(0.0025)


async def test_retry_waits_at_least_as_long_as_the_server_requests(queue):
    assert queue.retry(A, at_least=7.0) == 7.0


async def test_retries_of_all_keys_together_are_limited_after_a_burst(queue, clock):
    """5,000 objects that fail at once: 500 retries without a delay of the limit, the others 50 a second."""
    keys = [ObjectKey("ns", f"k{number}") for number in range(5000)]
    delays = [queue.retry(key) for key in keys]
    assert set(delays[:RETRY_BURST]) == {0.005}
    assert delays[-1] == pytest.approx((5000 - RETRY_BURST) / RETRIES_PER_SECOND)
    for seconds in range(1, 11):
        await clock.advance(1.0)
        assert len(queue) == pytest.approx(RETRY_BURST + seconds * RETRIES_PER_SECOND, abs=1)


async def test_limit_of_retries_delays_no_change_and_ends_when_retries_are_few(queue, clock):
    for number in range(1000):
        queue.retry(ObjectKey("ns", f"k{number}"))
    queue.add(A)
    assert A in await drain(queue)
    await clock.advance(60.0)
    assert queue.retry(B) == 0.005


async def test_key_that_changes_and_fails_all_the_time_does_not_delay_retries_of_others(queue, clock):
    for _ in range(5000):
        queue.add(A)
        assert await queue.get() == A
        queue.retry(A)
        queue.done(A)
    assert queue.retry(B) <= 2 / RETRIES_PER_SECOND


async def test_leader_that_takes_over_again_has_no_retries_left_over(queue):
    for number in range(1000):
        queue.retry(ObjectKey("ns", f"k{number}"))
    queue.pause()
    queue.resume()
    assert queue.retry(A) == 0.005


async def test_close_ends_every_waiting_worker(queue):
    workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await settle()
    queue.close()
    for worker in workers:
        with pytest.raises(QueueClosed):
            await worker


async def test_cancelled_worker_passes_its_wake_up_to_another(queue):
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await settle()
    queue.add(A)  # wakes the first ...
    first.cancel()  # ... which never gets to take it
    await settle()
    assert second.done(), "the key was lost with the cancelled worker"


async def test_delayed_keys_do_not_count_as_queue_depth(queue, clock):
    labels = {"name": "test", "controller": "test"}
    for number in range(500):
        queue.add(ObjectKey("ns", f"later-{number}"), after=60.0)
    queue.add(A)
    assert REGISTRY.get_sample_value("workqueue_depth", labels) == 1
    await clock.advance(61.0)
    assert REGISTRY.get_sample_value("workqueue_depth", labels) == 501


async def test_key_added_ten_thousand_times_is_stored_once(queue):
    """Like an object that is requeued after an hour, and changes every second."""
    key = ObjectKey("ns", "busy")
    before = sys.getrefcount(key)
    for _ in range(10_000):
        queue.add(key)
        await queue.get()
        queue.add(key, after=3600.0)
        queue.done(key)
    assert sys.getrefcount(key) - before < 10


async def test_key_with_changing_priority_is_stored_once(queue):
    """With live changes all the time, the queue never gets to the keys of the initial list."""
    key, busy = ObjectKey("ns", "raised"), ObjectKey("ns", "busy")
    before = sys.getrefcount(key)
    queue.add(busy)
    for _ in range(1000):
        queue.add(key, INITIAL)
        queue.add(key, LIVE)
        for _ in range(2):
            taken = await queue.get()
            queue.done(taken)
            if taken == busy:
                queue.add(busy)
    assert sys.getrefcount(key) - before < 10


async def test_retry_keeps_the_priority_of_the_key(queue, clock):
    queue.add(A, INITIAL)
    assert await queue.get() == A
    queue.retry(A)
    queue.done(A)
    await clock.advance(1.0)
    queue.add(B, INITIAL)
    queue.add(C, LIVE)
    assert await drain(queue) == [C, A, B]


async def test_paused_queue_ignores_keys_and_returns_the_dropped_ones(queue, clock):
    queue.add(A)
    queue.add(B, after=5.0)
    assert await queue.get() == A
    queue.add(A)
    assert queue.pause() == {A, B}
    queue.add(C)
    queue.done(A)
    await clock.advance(10.0)
    assert await drain(queue) == []
    queue.resume()
    queue.add(C)
    assert await drain(queue) == [C]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.just("add"),
                st.sampled_from("abc"),
                st.sampled_from([LIVE, INITIAL]),
                st.sampled_from([0, 1, 5]),
            ),
            st.tuples(st.just("get")),
            st.tuples(st.just("done")),
            st.tuples(st.just("advance"), st.sampled_from([0.5, 1.0, 10.0])),
        ),
        max_size=40,
    )
)
def test_random_operations_lose_no_key_and_give_none_to_two_workers(steps):
    async def scenario() -> None:
        clock = VirtualClock()
        queue = WorkQueue("property", clock)
        working: list[ObjectKey] = []
        owed: set[ObjectKey] = set()
        for step in steps:
            if step[0] == "add":
                key = ObjectKey("", step[1])
                queue.add(key, step[2], after=step[3])
                owed.add(key)
            elif step[0] == "advance":
                await clock.advance(step[1])
            elif step[0] == "done" and working:
                queue.done(working.pop(0))
            elif step[0] == "get":
                getting = asyncio.ensure_future(queue.get())
                await settle()
                if not getting.done():
                    getting.cancel()
                    await settle()
                    continue
                assert getting.result() not in working
                working.append(getting.result())
                owed.discard(getting.result())
        while working:
            queue.done(working.pop())
        await clock.advance(100.0)
        assert owed <= set(await drain(queue))
        queue.close()

    asyncio.run(scenario())
