"""Writes that meet another writer."""

import asyncio

import pytest

from kit.clock import VirtualClock
from quintet.kube.conflicts import retry_on_conflict
from quintet.kube.errors import AlreadyExists, Conflict, KubeError, Status


async def run(*results: KubeError | str) -> tuple[str, int]:
    """Return the result and the number of attempts."""
    clock, left = VirtualClock(), list(results)

    async def write() -> str:
        result = left.pop(0)
        if isinstance(result, KubeError):
            raise result
        return result

    task = asyncio.create_task(retry_on_conflict(clock, write))
    await clock.advance(10.0)
    return await task, len(results) - len(left)


def conflict(kind: type[Conflict] = Conflict) -> Conflict:
    return kind("PUT /x", Status(code=409))


async def test_conflicting_write_is_repeated_until_it_succeeds():
    assert await run(conflict(), conflict(), "done") == ("done", 3)


async def test_write_is_given_up_after_five_conflicts():
    with pytest.raises(Conflict):
        await run(*[conflict()] * 5, "never")


@pytest.mark.parametrize("error", [conflict(AlreadyExists), KubeError("another error")])
async def test_other_error_is_not_repeated(error):
    with pytest.raises(type(error)):
        await run(error, "never")
