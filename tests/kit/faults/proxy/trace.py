"""The requests that the proxy saw, in order.

An `Exchange` is added when its request arrives and completed when the response is known, so a trace also shows
requests in flight.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kit.faults.proxy.requests import CHATTER, Predicate, Request, anything

# A stalled request waits for the test and does not count as work in progress.
STALLED = "Stall"
READS = ("get", "list")


@dataclass(slots=True)
class Exchange:
    """One request and its response."""

    number: int
    request: Request
    write: int | None = None
    """Its place among the numbered writes, from 1; `None` for everything else."""
    user_agent: str = ""
    body: Any = None
    """What a write sent: decoded if it is JSON or YAML-in-JSON, else the bytes."""
    started: float = 0.0
    """On the clock of the event loop."""
    status: int | None = None
    """The status of the response, even if the client did not get it."""
    resource_version: str | None = None
    """Of the object that a write left behind."""
    fault: str | None = None
    """What was done to it."""

    def __str__(self) -> str:
        write = f"w{self.write}" if self.write else ""
        version = f" rv={self.resource_version}" if self.resource_version else ""
        fault = f" [{self.fault}]" if self.fault else ""
        return f"{self.number:>5} {write:>5} {self.request} → {self.status or '-'}{version}{fault}"


@dataclass
class Trace:
    """All exchanges so far; its string has one line per exchange."""

    numbered: Predicate
    exchanges: list[Exchange] = field(default_factory=list)
    write_count: int = 0
    """How many numbered writes there were."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _under_way: dict[int, Exchange] = field(default_factory=dict)

    def enter(self, request: Request, *, user_agent: str, body: Any) -> Exchange:
        """Record a request that has arrived."""
        write = None
        if self.numbered(request):
            write = self.write_count = self.write_count + 1
        exchange = Exchange(
            number=len(self.exchanges) + 1,
            request=request,
            write=write,
            user_agent=user_agent,
            body=body,
            started=asyncio.get_running_loop().time(),
        )
        self.exchanges.append(exchange)
        self._under_way[exchange.number] = exchange
        self.touch()
        return exchange

    def leave(self, exchange: Exchange) -> None:
        """Record the end of a request."""
        del self._under_way[exchange.number]
        self.touch()

    def touch(self) -> None:
        """Wake waiting callers after a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()

    def mark(self) -> int:
        """Return the current end of the trace, for `since`."""
        return len(self.exchanges)

    def requests(self, when: Predicate = anything, *, since: int = 0) -> list[Exchange]:
        """Return the matching exchanges after a mark."""
        return [exchange for exchange in self.exchanges[since:] if when(exchange.request)]

    def writes(self, when: Predicate = anything, *, since: int = 0) -> list[Exchange]:
        """Return the matching numbered writes after a mark."""
        return [exchange for exchange in self.requests(when, since=since) if exchange.write]

    async def wait_for(self, found: Callable[[Exchange], bool], *, since: int, within: float) -> Exchange:
        """Wait for the first exchange for which `found` returns true, and return it."""
        try:
            async with asyncio.timeout(within):
                while True:
                    for exchange in self.exchanges[since:]:
                        if found(exchange):
                            return exchange
                    await self.changed()
        except TimeoutError:
            raise AssertionError(f"no such request within {within:g} s; seen:\n{self}") from None

    async def quiet(self, seconds: float, when: Predicate, *, within: float) -> None:
        """Wait until no matching request has arrived for this long and none in flight can cause one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while loop.time() < deadline:
            if self._busy(when):
                # A pending response may cause more requests; the quiet time starts after it.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(deadline):
                        await self.changed()
                continue
            try:
                await self.wait_for(lambda e: when(e.request), since=self.mark(), within=seconds)
            except AssertionError:
                if not self._busy(when):
                    return
        raise AssertionError(f"never quiet for {seconds:g} s within {within:g} s; seen:\n{self}")

    def _busy(self, when: Predicate) -> bool:
        return any(
            when(each.request) or (each.request.verb in READS and not _chatter(each.request))
            for each in self._under_way.values()
            if each.request.verb != "watch" and each.fault != STALLED
        )

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self.exchanges)

    def __str__(self) -> str:
        return "\n".join(str(exchange) for exchange in self.exchanges) or "(nothing)"


def _chatter(request: Request) -> bool:
    return (request.group, request.resource) in CHATTER
