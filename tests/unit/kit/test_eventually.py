"""`eventually` returns when the state is reached, or reports the last state."""

import asyncio

import pytest

from kit.eventually import NotInTimeError, eventually, eventually_true


async def test_eventually_returns_result_when_probe_stops_raising():
    seen = iter([ValueError("not yet"), "there"])

    def probe():
        item = next(seen)
        if isinstance(item, Exception):
            raise item
        return item

    assert await eventually(probe) == "there"


async def test_eventually_true_accepts_coroutine_probe():
    values = iter([0, 0, 7])

    async def probe():
        return next(values)

    assert await eventually_true(probe) == 7


async def test_probe_can_wait_for_expected_error():
    values = iter(["fine", "fine", "refused"])

    def probe():
        with pytest.raises(ValueError, match="refused"):
            raise_if_refused(next(values))

    await eventually(probe)


def raise_if_refused(answer: str) -> None:
    if answer == "refused":
        raise ValueError(answer)


async def test_timeout_shows_last_value():
    with pytest.raises(NotInTimeError, match=r"last seen: still \[\]"):
        await eventually_true(list, within=0.05)


async def test_timeout_shows_last_exception():
    def probe():
        raise KeyError("status")

    with pytest.raises(NotInTimeError, match=r"last seen: KeyError\('status'\)") as failure:
        await eventually(probe, within=0.05)
    assert isinstance(failure.value.__cause__, KeyError)


async def test_blocked_probe_is_cancelled_at_timeout():
    with pytest.raises(NotInTimeError, match="itself was still waiting"):
        await eventually(asyncio.Event().wait, within=0.05)
