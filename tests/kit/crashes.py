"""What all tests share in which an operator is struck at one of its writes and started again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from kit.process import Program
from kit.proxy import Answer, DropReply, KillAfterCommit, KillBefore
from kit.proxy.faults import Fault

AT_ONCE = 4
"""Stories that are told side by side: they wait more than they work."""

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


async def keep_running(operator: Program) -> None:
    """What a kubelet does."""
    while True:
        await operator.ended()
        await operator.start()


async def at_writes(numbers: Iterable[int], story: Callable[[int], Awaitable[None]]) -> None:
    """The same story with something going wrong at each of these writes."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with slots:
            await story(number)

    async with asyncio.TaskGroup() as group:
        for number in numbers:
            group.create_task(one(number))
