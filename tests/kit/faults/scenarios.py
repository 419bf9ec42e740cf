"""Stories in which an operator is hit by faults at its writes and started again.

The tests in `tests/faults` tell one story per kind. On the default level one telling hits the first write of each
type (`at_write=None`), so a story ends after as many faults as there are types of writes. On the exhaustive level
each telling hits one write, until every write has been hit (`side_by_side`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from kit.faults.proxy import (
    Answer,
    DropReply,
    FaultProxy,
    Injection,
    KillAfterCommit,
    KillBefore,
    changes_state,
)
from kit.faults.proxy.faults import Fault
from kit.faults.proxy.requests import Predicate, Request
from kit.faults.proxy.trace import Trace
from kit.process import Program

T = TypeVar("T")

AT_ONCE = 4
"""Stories that are told side by side: they wait more than they work."""
NEVER = 3600.0
PATIENCE = 600.0
"""For each chapter of a story: an operator may be started ten times in it, and a busy machine takes long for that."""
SHOWN_EXCHANGES, SHOWN_LOG_LINES = 120, 40

KILLED_BEFORE = "killed before the write"
KILLED_AFTER = "killed after the commit"
ANSWER_LOST = "the answer is lost"
CONFLICT = "refused with a conflict"
OVERLOAD = "refused for overload"
TROUBLE = "refused by a server in trouble"

FAULTS: dict[str, Callable[[Program], Fault]] = {
    KILLED_BEFORE: lambda operator: KillBefore(operator.kill),
    KILLED_AFTER: lambda operator: KillAfterCommit(operator.kill),
    ANSWER_LOST: lambda operator: DropReply(),
    CONFLICT: lambda operator: Answer(409, "Conflict"),
    OVERLOAD: lambda operator: Answer(429, "TooManyRequests", retry_after=1),
    TROUBLE: lambda operator: Answer(503, "ServiceUnavailable"),
}

ESSENTIAL = (KILLED_AFTER, ANSWER_LOST)
"""The faults of the default level: the server did the write and the operator does not know, dead or alive."""


async def keep_running(operator: Program) -> None:
    """What a kubelet does."""
    while True:
        await operator.ended()
        await operator.start()


def first_of_its_type(trace: Trace) -> Predicate:
    """Match a write if the trace has no earlier one with its verb, resource and subresource."""

    def match(request: Request) -> bool:
        return changes_state(request) and len(trace.writes(lambda each: _type(each) == _type(request))) == 1

    return match


def _type(request: Request) -> tuple[str, ...]:
    return request.verb, request.group, request.resource, request.subresource


@asynccontextmanager
async def hit_by(
    fault: str | Fault, proxy: FaultProxy, operator: Program | None = None, *, at_write: int | None
) -> AsyncIterator[Injection]:
    """Inject a fault at one write, or at the first write of each type; a failure inside shows what happened.

    A telling may have fewer writes than the reference had, because how often a stale record makes a write be
    repeated depends on timing; but a write that it had must have been hit.
    """
    if isinstance(fault, str):
        assert operator is not None, "a fault of the operator needs one"
        name, planned = fault, FAULTS[fault](operator)
    else:
        name, planned = type(fault).__name__, fault
    if at_write is None:
        where = "the first write of each type"
        injection = proxy.inject(planned, when=first_of_its_type(proxy.trace), times=None)
    else:
        where = f"write {at_write}"
        injection = proxy.inject(planned, at_write=at_write)
    with explaining(f"{name}, {where}", proxy, operator):
        yield injection
        writes = len(proxy.trace.writes())
        assert injection.hits or (at_write is not None and writes < at_write), (
            f"{writes} writes, none was hit"
        )


@contextmanager
def explaining(what: str, proxy: FaultProxy, operator: Program | None) -> Iterator[None]:
    """Add to an error inside what one needs to understand it: the ends of the proxy's trace and of the log."""
    try:
        yield
    except Exception as error:
        parts = [
            f"fault: {what}",
            _end("exchanges with the API server", [*map(str, proxy.trace)], SHOWN_EXCHANGES),
        ]
        if operator is not None:
            parts.append(_end("log of the operator", operator.log, SHOWN_LOG_LINES))
        error.add_note("\n".join(parts))
        raise


async def until_hit(injection: Injection, story: Coroutine[Any, Any, None]) -> None:
    """Tell a story until the fault happens; a story without the write is told to its end."""
    telling, hit = asyncio.create_task(story), asyncio.create_task(injection.hit(within=NEVER))
    await asyncio.wait([telling, hit], return_when=asyncio.FIRST_COMPLETED)
    for task in (telling, hit):
        task.cancel()
    told, _ = await asyncio.gather(telling, hit, return_exceptions=True)
    if isinstance(told, Exception) and not injection.hits:
        raise told


def _end(title: str, lines: list[str], shown: int) -> str:
    return "\n".join([f"{title} (the last {min(shown, len(lines))} of {len(lines)} lines):", *lines[-shown:]])


async def side_by_side(cases: Iterable[T], story: Callable[[T], Awaitable[None]]) -> None:
    """Tell the story once for each case, some at a time; the first failure ends all of them."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(case: T) -> None:
        async with slots:
            await story(case)

    async with asyncio.TaskGroup() as group:
        for case in cases:
            group.create_task(one(case))
