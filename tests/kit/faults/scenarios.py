"""Scenarios in which faults hit the writes of an operator, which is restarted after each crash.

Each kind has one scenario in `tests/faults`. By default one run of it hits the first write of each type
(`at_write=None`). The exhaustive tests repeat the scenario once per write (`run_concurrently`).
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
"""Concurrent scenarios: they mostly wait."""
NEVER = 3600.0
PATIENCE = 600.0
"""For each step of a scenario: an operator may be restarted ten times in it, which takes long on a busy machine."""
SHOWN_EXCHANGES, SHOWN_LOG_LINES = 120, 40

KILLED_BEFORE = "killed before the write"
KILLED_AFTER = "killed after the commit"
RESPONSE_LOST = "response lost"
CONFLICT = "rejected with a conflict"
OVERLOAD = "rejected by an overloaded server"
UNAVAILABLE = "rejected by an unavailable server"

FAULTS: dict[str, Callable[[Program], Fault]] = {
    KILLED_BEFORE: lambda operator: KillBefore(operator.kill),
    KILLED_AFTER: lambda operator: KillAfterCommit(operator.kill),
    RESPONSE_LOST: lambda operator: DropReply(),
    CONFLICT: lambda operator: Answer(409, "Conflict"),
    OVERLOAD: lambda operator: Answer(429, "TooManyRequests", retry_after=1),
    UNAVAILABLE: lambda operator: Answer(503, "ServiceUnavailable"),
}

ESSENTIAL = (KILLED_AFTER, RESPONSE_LOST)
"""The faults of the default tests: the server committed the write and the operator does not know."""


async def keep_running(operator: Program) -> None:
    """Restart the operator whenever it ends, as a kubelet does."""
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
async def inject_at_write(
    fault: str | Fault, proxy: FaultProxy, operator: Program | None = None, *, at_write: int | None
) -> AsyncIterator[Injection]:
    """Inject a fault at one write or at the first write of each type; an error inside gets diagnostics.

    A run may have fewer writes than the reference run, because the number of conflicts depends on timing. If the run
    has the write, the fault must hit it.
    """
    if isinstance(fault, str):
        assert operator is not None, "a fault that kills the operator needs the operator"
        name, planned = fault, FAULTS[fault](operator)
    else:
        name, planned = type(fault).__name__, fault
    if at_write is None:
        where = "the first write of each type"
        injection = proxy.inject(planned, when=first_of_its_type(proxy.trace), times=None)
    else:
        where = f"write {at_write}"
        injection = proxy.inject(planned, at_write=at_write)
    with add_diagnostics(f"{name}, {where}", proxy, operator):
        yield injection
        writes = len(proxy.trace.writes())
        assert injection.hits or (at_write is not None and writes < at_write), (
            f"{writes} writes, none was hit"
        )


@contextmanager
def add_diagnostics(what: str, proxy: FaultProxy, operator: Program | None) -> Iterator[None]:
    """Add the last lines of the proxy's trace and of the operator's log to an error inside."""
    try:
        yield
    except Exception as error:
        parts = [
            f"fault: {what}",
            _last_lines("requests to the API server", [*map(str, proxy.trace)], SHOWN_EXCHANGES),
        ]
        if operator is not None:
            parts.append(_last_lines("operator log", operator.log, SHOWN_LOG_LINES))
        error.add_note("\n".join(parts))
        raise


async def run_until_hit(injection: Injection, scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario until the fault happens, or to its end if it never does."""
    running, hit = asyncio.create_task(scenario), asyncio.create_task(injection.hit(within=NEVER))
    await asyncio.wait([running, hit], return_when=asyncio.FIRST_COMPLETED)
    for task in (running, hit):
        task.cancel()
    result, _ = await asyncio.gather(running, hit, return_exceptions=True)
    if isinstance(result, Exception) and not injection.hits:
        raise result


def _last_lines(title: str, lines: list[str], shown: int) -> str:
    return "\n".join([f"{title} (the last {min(shown, len(lines))} of {len(lines)} lines):", *lines[-shown:]])


async def run_concurrently(cases: Iterable[T], scenario: Callable[[T], Awaitable[None]]) -> None:
    """Run the scenario once per case, a few at a time; the first failure cancels the others."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(case: T) -> None:
        async with slots:
            await scenario(case)

    async with asyncio.TaskGroup() as group:
        for case in cases:
            group.create_task(one(case))
