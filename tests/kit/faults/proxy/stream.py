"""One running watch: lines from the API server, in order, with faults in between.

Lines and faults wait in one queue, so a fault takes effect exactly between two lines. Made by
`call.Call` for every watch; `server.FaultProxy.disturb` puts faults in, `Hold` keeps lines back.
A client that does not watch in JSON gets its bytes as they come, and nothing can be held.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from aiohttp import web

    from kit.faults.proxy.faults import StreamFault
    from kit.faults.proxy.requests import Predicate, Request

END = object()


class StreamEndedError(Exception):
    """The watch is over, the way a server ends it."""


class StreamBrokenError(Exception):
    """The watch is over, the way a network ends it."""


@dataclass(eq=False)
class WatchStream:
    """What a fault can do to a watch."""

    request: "Request"
    response: "web.StreamResponse"
    holds: "list[Hold]"
    _queue: "asyncio.Queue[bytes | StreamFault | BaseException | object]" = field(
        default_factory=asyncio.Queue
    )

    def put(self, fault: "StreamFault") -> None:
        """Let a fault take its turn, after the lines that have come before it."""
        self._queue.put_nowait(fault)

    def requeue(self, lines: list[bytes]) -> None:
        """Let lines that were kept back go on, before those that have come after them."""
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        first = next((n for n, item in enumerate(waiting) if not _is_fault(item)), len(waiting))
        for item in (*waiting[:first], *lines, *waiting[first:]):
            self._queue.put_nowait(item)

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Pass lines on until either side or a fault ends it."""
        pump = asyncio.create_task(self._pump(lines))
        try:
            while True:
                await self._deliver(await self.next_line())
        except StreamEndedError:
            return
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    async def next_line(self) -> bytes:
        """The next line that would be sent; faults that come first happen first."""
        while True:
            match await self._queue.get():
                case bytes() as line:
                    return line
                case BaseException() as error:
                    raise StreamBrokenError from error
                case item if item is END:
                    raise StreamEndedError
                case fault:
                    await fault.disturb(self)  # type: ignore[attr-defined]  # the queue holds nothing else

    async def pass_lines(self, count: int) -> None:
        """Let so many lines through."""
        for _ in range(count):
            await self._deliver(await self.next_line())

    async def send(self, data: bytes) -> None:
        """Write to the client at once."""
        await self.response.write(data)

    def end(self) -> NoReturn:
        """End the stream cleanly."""
        raise StreamEndedError

    def reset(self) -> NoReturn:
        """End the stream with a reset connection."""
        raise StreamBrokenError

    async def _pump(self, lines: AsyncIterator[bytes]) -> None:
        try:
            async for line in lines:
                self._queue.put_nowait(line)
        except Exception as error:
            self._queue.put_nowait(error)
        else:
            self._queue.put_nowait(END)

    async def _deliver(self, line: bytes) -> None:
        event = _decode(line) if self.holds else None
        if event is None or not any(hold.takes(self, event, line) for hold in self.holds):
            await self.send(line)


@dataclass(eq=False)
class Hold:
    """Watch lines about chosen objects are kept back until `release`.

    Bookmarks of a stream stay behind its held lines, or a client that resumes from one would miss
    them, which no API server does. For the same reason a client must not re-connect meanwhile,
    unless it is told 410.
    """

    watches: "Predicate"
    namespace: str | None
    name: str | None
    when: Callable[[dict[str, Any]], bool]
    active: bool = True
    held: list[tuple[WatchStream, dict[str, Any], bytes]] = field(default_factory=list)
    _caught: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, stream: WatchStream, event: dict[str, Any], line: bytes) -> bool:
        """Keep a line back if it is one of ours."""
        if not self.active:
            return False
        if event.get("type") == "BOOKMARK":
            if not any(held is stream for held, _, _ in self.held):
                return False
        elif not self._chosen(stream, event):
            return False
        self.held.append((stream, event, line))
        self._caught.set()
        return True

    async def caught(self, *, within: float = 60.0) -> None:
        """Return as soon as something is held."""
        async with asyncio.timeout(within):
            await self._caught.wait()

    def release(self, *, only_last: bool = False) -> None:
        """Deliver what was held; with `only_last` as a re-list would: one event for each object."""
        self.active = False
        for stream in {id(stream): stream for stream, _, _ in self.held}.values():
            events = [(event, line) for held, event, line in self.held if held is stream]
            stream.requeue(_coalesce(events) if only_last else [line for _, line in events])
        self.held.clear()

    def _chosen(self, stream: WatchStream, event: dict[str, Any]) -> bool:
        metadata = event["object"].get("metadata", {})
        return (
            self.watches(stream.request)
            and self.namespace in (None, metadata.get("namespace", ""))
            and self.name in (None, metadata.get("name"))
            and self.when(event["object"])
        )


def _is_fault(item: object) -> bool:
    return not isinstance(item, bytes | BaseException) and item is not END


def _coalesce(events: list[tuple[dict[str, Any], bytes]]) -> list[bytes]:
    """For each object the one event that leads from before the first to after the last."""
    bookmarks: list[bytes] = []
    histories: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event, line in events:
        if event["type"] == "BOOKMARK":
            bookmarks = [line]
        else:
            metadata = event["object"]["metadata"]
            histories.setdefault((metadata.get("namespace", ""), metadata["name"]), []).append(event)
    lines = []
    for history in histories.values():
        existed, exists = history[0]["type"] != "ADDED", history[-1]["type"] != "DELETED"
        if existed or exists:
            kind = "DELETED" if not exists else "MODIFIED" if existed else "ADDED"
            lines.append(json.dumps({"type": kind, "object": history[-1]["object"]}).encode() + b"\n")
    return lines + bookmarks


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return event
