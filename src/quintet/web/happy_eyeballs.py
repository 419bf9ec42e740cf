"""Connection attempts to several addresses of one host ("happy eyeballs", RFC 8305).

The first address gets a head start. If it has not connected by then, the next address is tried in parallel.
The first connection wins; the other attempts are cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

HEAD_START = 0.25
"""Seconds between two attempts, as RFC 8305 recommends."""


async def connect_first(
    attempts: Sequence[Callable[[], Awaitable[T]]],
    failures: type[Exception],
    discard: Callable[[T], None],
) -> T:
    """Return the result of the first attempt that succeeds.

    If all attempts fail, raise the error of the first failure. An error that is not one of `failures`
    ends the race immediately. `discard` is called with the result of an attempt that succeeded too late.
    """
    if len(attempts) == 1:
        return await attempts[0]()
    pending, running = list(attempts), set[asyncio.Future[T]]()
    failure: Exception | None = None
    try:
        while pending or running:
            if pending:
                running.add(asyncio.ensure_future(pending.pop(0)()))
            done, running = await asyncio.wait(
                running, timeout=HEAD_START if pending else None, return_when=asyncio.FIRST_COMPLETED
            )
            winners = [each for each in done if each.exception() is None]
            running.update(winners[1:])
            if winners:
                return winners[0].result()
            for each in done:
                error = each.exception()
                if not isinstance(error, failures):
                    each.result()  # raises the error
                else:
                    failure = failure or error
    finally:
        await _cancel(running, discard)
    raise failure or ValueError("no address to connect to")


async def _cancel(running: set[asyncio.Future[T]], discard: Callable[[T], None]) -> None:
    for each in running:
        each.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if not isinstance(result, BaseException):
            discard(result)
