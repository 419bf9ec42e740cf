"""Waiting ends with the state, or says what was there instead."""

import asyncio

import pytest

from kit.eventually import NotInTimeError, eventually, eventually_true


async def test_it_returns_what_the_probe_returned_once_it_stopped_raising():
    seen = iter([ValueError("not yet"), "there"])

    def probe():
        item = next(seen)
        if isinstance(item, Exception):
            raise item
        return item

    assert await eventually(probe) == "there"


async def test_probes_may_be_coroutines():
    values = iter([0, 0, 7])

    async def probe():
        return next(values)

    assert await eventually_true(probe) == 7


async def test_a_probe_may_wait_for_an_error_to_come():
    values = iter(["fine", "fine", "refused"])

    def probe():
        with pytest.raises(ValueError, match="refused"):
            raise_if_refused(next(values))

    await eventually(probe)


def raise_if_refused(answer: str) -> None:
    if answer == "refused":
        raise ValueError(answer)


async def test_the_last_state_is_shown_when_time_runs_out():
    with pytest.raises(NotInTimeError, match=r"last seen: still \[\]"):
        await eventually_true(list, within=0.05)


async def test_the_last_exception_is_shown_when_time_runs_out():
    def probe():
        raise KeyError("status")

    with pytest.raises(NotInTimeError, match=r"last seen: KeyError\('status'\)") as failure:
        await eventually(probe, within=0.05)
    assert isinstance(failure.value.__cause__, KeyError)


async def test_a_probe_that_never_answers_is_cut_off():
    with pytest.raises(NotInTimeError, match="itself was still waiting"):
        await eventually(asyncio.Event().wait, within=0.05)
