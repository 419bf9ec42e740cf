"""Wait functions that poll until a state is reached.

`eventually` polls a probe that asserts or returns a value; `eventually_true` polls one that returns a truth value.
A timeout error shows the last state.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

import pytest

T = TypeVar("T")

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25

# `pytest.raises` without an error raises no Exception; in a probe it means "not yet".
NOT_YET = (Exception, pytest.fail.Exception)


class NotInTimeError(AssertionError):
    """The expected state was not reached in time; the message shows the last state."""


@overload
async def eventually(probe: Callable[[], Awaitable[T]], *, within: float = 60.0) -> T: ...


@overload
async def eventually(probe: Callable[[], T], *, within: float = 60.0) -> T: ...


async def eventually(probe: Callable[[], Any], *, within: float = 60.0) -> Any:
    """Call `probe` until it returns without raising, and give back what it returned."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    pause = FIRST_PAUSE
    attempts = 0
    seen = "nothing before that"
    while True:
        attempts += 1
        try:
            async with asyncio.timeout_at(max(deadline, loop.time() + FIRST_PAUSE)) as patience:
                return await _call(probe)
        except NOT_YET as error:
            if patience.expired() and isinstance(error, TimeoutError):
                raise NotInTimeError(
                    f"the probe itself was still waiting after {within:g} s; {seen}"
                ) from error
            if loop.time() + pause > deadline:
                raise NotInTimeError(
                    f"not within {within:g} s ({attempts} attempts); last seen: {_describe(error)}"
                ) from error
            seen = f"seen before that: {_describe(error)}"
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)


@overload
async def eventually_true(probe: Callable[[], Awaitable[T]], *, within: float = 60.0) -> T: ...


@overload
async def eventually_true(probe: Callable[[], T], *, within: float = 60.0) -> T: ...


async def eventually_true(probe: Callable[[], Any], *, within: float = 60.0) -> Any:
    """Call `probe` until it returns a true value, and return that value."""

    async def assert_true() -> Any:
        seen = await _call(probe)
        assert seen, f"still {seen!r}"
        return seen

    return await eventually(assert_true, within=within)


async def _call(probe: Callable[[], Any]) -> Any:
    result = probe()
    return await result if inspect.isawaitable(result) else result


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, AssertionError) and str(error) else repr(error)
