"""A clock that tests can speed up."""

import asyncio

from kit.clock import FastClock

AN_HOUR = 3600.0


async def test_timer_set_before_fast_phase_fires_in_it():
    clock, fired = FastClock(), asyncio.Event()
    clock.call_later(AN_HOUR, fired.set)
    with clock.running_fast(1e6):
        await fired.wait()


async def test_sleep_started_in_fast_phase_ends_in_it():
    clock = FastClock()
    before = clock.monotonic(), clock.now()
    with clock.running_fast(1e6):
        await clock.sleep(AN_HOUR)
    assert clock.monotonic() - before[0] >= AN_HOUR
    assert (clock.now() - before[1]).total_seconds() >= AN_HOUR


async def test_fast_clock_returns_to_normal_speed_and_never_goes_back():
    clock, fired = FastClock(), asyncio.Event()
    with clock.running_fast(1e6):
        timer = clock.call_later(1e12, fired.set)
        inside = clock.monotonic()
    first, second = clock.monotonic(), clock.monotonic()
    assert inside <= first <= second < first + AN_HOUR
    timer.cancel()
    assert not fired.is_set()


async def test_cancelled_timer_never_fires():
    clock, fired = FastClock(), asyncio.Event()
    clock.call_later(AN_HOUR, fired.set).cancel()
    with clock.running_fast(1e6):
        await clock.sleep(2 * AN_HOUR)
    assert not fired.is_set()
