"""All plans for a story: each fault at each write, and at each step for the process, the API server and each watch."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from aiohttp import web

from kit.faults.proxy import (
    Answer,
    CutMidLine,
    Delay,
    DropReply,
    GoneEvent,
    KillAfterCommit,
    KillBefore,
    Refuse,
)
from kit.faults.proxy.call import Call, Reply
from kit.faults.proxy.faults import Fault, StreamFault
from kit.process import Program

SHORT = 1.5
"""Seconds for which a process is frozen, an event held back, a request late, and the API server away."""

AT_WRITES: dict[str, Callable[[Program], Fault]] = {
    "killed before": lambda operator: KillBefore(operator.kill),
    "killed after commit": lambda operator: KillAfterCommit(operator.kill),
    "frozen after commit": lambda operator: FreezeAfterCommit(operator),
    "response lost": lambda operator: DropReply(),
    "late": lambda operator: Delay(SHORT),
    "reset": lambda operator: Refuse(),
    "conflict": lambda operator: Answer(409, "Conflict"),
    "overload": lambda operator: Answer(429, "TooManyRequests", retry_after=1),
    "internal error": lambda operator: Answer(500, "InternalError"),
    "unavailable": lambda operator: Answer(503, "ServiceUnavailable"),
}
AT_STEPS = ("killed", "frozen", "outage", "stale lists after a restart")
AT_WATCHES: dict[str, Callable[[], StreamFault]] = {
    "gone": GoneEvent,
    "cut in a line": CutMidLine,
    "connection reset": Refuse,
}
HELD = ("events late", "only last events")


@dataclass(frozen=True)
class Plan:
    """One fault at one place of one story."""

    story: str
    fault: str
    write: int = 0
    """The number of the write that it hits, from 1."""
    step: str = ""
    """The step that it disturbs."""
    resource: str = ""
    """The type whose watches it disturbs."""

    def __str__(self) -> str:
        where = f"write {self.write}" if self.write else f"step {self.step!r}"
        return f"{self.story}: {self.fault} at {where}" + (f", {self.resource}" if self.resource else "")


def all_plans(story: str, steps: tuple[str, ...], writes: int, watched: tuple[str, ...]) -> Iterator[Plan]:
    """Yield every plan for a story whose run without faults had these writes and watches."""
    for number in range(1, writes + 1):
        for fault in AT_WRITES:
            yield Plan(story, fault, write=number)
    for step in steps:
        for fault in AT_STEPS:
            yield Plan(story, fault, step=step)
        for resource in watched:
            for fault in (*AT_WATCHES, *HELD):
                yield Plan(story, fault, step=step, resource=resource)


@dataclass(frozen=True)
class FreezeAfterCommit:
    """Stop the process after its write, for a while: the response waits in its socket."""

    operator: Program

    async def apply(self, call: Call) -> web.StreamResponse:
        reply = await call.commit()
        self.operator.signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(SHORT, self.operator.signal, signal.SIGCONT)
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body)


@dataclass
class FirstLists:
    """Remembers the first response to each list, to send it again to a later process: it sees an old state."""

    replaying: bool = False
    _seen: dict[str, Reply] = field(default_factory=dict)

    async def apply(self, call: Call) -> web.StreamResponse:
        path = call.incoming.raw_path
        if self.replaying and path in self._seen:
            reply = self._seen.pop(path)
        else:
            reply = await call.commit()
            self._seen.setdefault(path, reply)
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
