"""Faults between an operator and its API server.

`apply` acts on one request, `disturb` on a running watch. `server.FaultProxy.inject` and `.disturb` decide when.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from aiohttp import web

    from kit.faults.proxy.call import Call
    from kit.faults.proxy.stream import WatchStream

Kill = Callable[[], object]

TIME_TO_READ = 0.1
"""A client that learns of a reset before it has read what came before it never sees the half line."""


class Fault(Protocol):
    """A fault that acts on a request."""

    async def apply(self, call: "Call") -> "web.StreamResponse": ...


class StreamFault(Fault, Protocol):
    """A fault that acts on a watch from the next line on."""

    async def disturb(self, stream: "WatchStream") -> None: ...


@dataclass(frozen=True)
class KillBefore:
    """Kill the client before its request reaches the server."""

    kill: Kill

    async def apply(self, call: "Call") -> "web.StreamResponse":
        self.kill()
        return call.reset()


@dataclass(frozen=True)
class KillAfterCommit:
    """Kill the client after the server committed its request and before it gets the response."""

    kill: Kill

    async def apply(self, call: "Call") -> "web.StreamResponse":
        await call.commit()
        self.kill()
        return call.reset()


@dataclass(frozen=True)
class DropReply:
    """Let the server commit the request, then break the client's connection."""

    async def apply(self, call: "Call") -> "web.StreamResponse":
        await call.commit()
        return call.reset()


@dataclass(frozen=True)
class Refuse:
    """Reset the connection before the server sees the request; break a running watch."""

    async def apply(self, call: "Call") -> "web.StreamResponse":
        return call.reset()

    async def disturb(self, stream: "WatchStream") -> None:
        stream.reset()


@dataclass(frozen=True)
class Answer:
    """Respond with this `Status` (or `body`) without asking the server."""

    code: int
    reason: str = ""
    message: str = "answered by the fault proxy"
    retry_after: int | None = None
    body: Any = None

    async def apply(self, call: "Call") -> "web.StreamResponse":
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return call.answer(self.code, self.body or self.status(), headers)

    def status(self) -> dict[str, Any]:
        """Return the `Status` object that the API server would send."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.retry_after is not None:
            status["details"] = {"retryAfterSeconds": self.retry_after}
        return status


@dataclass(frozen=True)
class Delay:
    """Forward the request after a delay."""

    seconds: float

    async def apply(self, call: "Call") -> "web.StreamResponse":
        await asyncio.sleep(self.seconds)
        return await call.forward()


@dataclass(frozen=True)
class Before:
    """Run something just before the request is forwarded, such as a conflicting write."""

    act: Callable[[], Awaitable[object]]

    async def apply(self, call: "Call") -> "web.StreamResponse":
        await self.act()
        return await call.forward()


@dataclass(frozen=True)
class Stall:
    """Forward nothing and close nothing until `release`.

    A watch gets its headers and `after` lines first; other requests get nothing at all.
    """

    after: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Forward everything that was stalled."""
        self.released.set()

    async def apply(self, call: "Call") -> "web.StreamResponse":
        if call.is_watch:
            return await call.forward(disturbed_by=self)
        await self.released.wait()
        return await call.forward()

    async def disturb(self, stream: "WatchStream") -> None:
        await stream.pass_lines(self.after)
        await self.released.wait()


@dataclass(frozen=True)
class GoneEvent:
    """End a watch with an ERROR event of code 410 after `after` lines."""

    after: int = 0

    async def apply(self, call: "Call") -> "web.StreamResponse":
        return await call.forward(disturbed_by=self)

    async def disturb(self, stream: "WatchStream") -> None:
        await stream.pass_lines(self.after)
        status = Answer(410, "Expired", "too old resource version").status()
        await stream.send(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        stream.end()


@dataclass(frozen=True)
class CutMidLine:
    """Break a watch in the middle of a line after `after` complete lines."""

    after: int = 0

    async def apply(self, call: "Call") -> "web.StreamResponse":
        return await call.forward(disturbed_by=self)

    async def disturb(self, stream: "WatchStream") -> None:
        await stream.pass_lines(self.after)
        line = await stream.next_line()
        await stream.send(line[: len(line) // 2])
        await asyncio.sleep(TIME_TO_READ)
        stream.reset()
