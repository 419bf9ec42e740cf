"""Connecting to one of several addresses of a name, of which some may be dead (RFC 8305, "happy eyeballs").

Used by `connection` and by `nats.dial`. The first address has a head start; if it has not answered by then,
the next one is tried beside it. Whoever is first wins, the others are called off.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

HEAD_START = 0.25
"""Seconds, as the RFC recommends."""


async def first_of(
    attempts: Sequence[Callable[[], Awaitable[T]]],
    failures: type[Exception],
    discard: Callable[[T], None],
) -> T:
    """Return the result of the first attempt that succeeds.

    If none does, the error of the first that failed is raised. An error that is none of `failures` ends the
    race at once. `discard` gets what came in second.
    """
    if len(attempts) == 1:
        return await attempts[0]()
    waiting, running = list(attempts), set[asyncio.Future[T]]()
    failure: Exception | None = None
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.ensure_future(waiting.pop(0)()))
            done, running = await asyncio.wait(
                running, timeout=HEAD_START if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            winners = [each for each in done if each.exception() is None]
            running.update(winners[1:])
            if winners:
                return winners[0].result()
            for each in done:
                error = each.exception()
                if not isinstance(error, failures):
                    each.result()  # raises it
                else:
                    failure = failure or error
    finally:
        await _call_off(running, discard)
    raise failure or ValueError("there is nothing to try")


async def _call_off(running: set[asyncio.Future[T]], discard: Callable[[T], None]) -> None:
    for each in running:
        each.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if not isinstance(result, BaseException):
            discard(result)
