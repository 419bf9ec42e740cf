"""One open watch: lines from the API server in order, with faults in between.

Lines and faults wait in one queue, so a fault takes effect exactly between two lines. Watches in other formats than
JSON are relayed byte by byte and cannot be held.
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
    """The watch ended normally."""


class StreamBrokenError(Exception):
    """The watch ended by a broken connection."""


@dataclass(eq=False)
class WatchStream:
    """An open watch, as faults see it."""

    request: "Request"
    response: "web.StreamResponse"
    holds: "list[Hold]"
    _queue: "asyncio.Queue[bytes | StreamFault | BaseException | object]" = field(
        default_factory=asyncio.Queue
    )

    def put(self, fault: "StreamFault") -> None:
        """Queue a fault after the lines that have already arrived."""
        self._queue.put_nowait(fault)

    def requeue(self, lines: list[bytes]) -> None:
        """Queue held lines before the lines that arrived after them."""
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        first = next((n for n, item in enumerate(waiting) if not _is_fault(item)), len(waiting))
        for item in (*waiting[:first], *lines, *waiting[first:]):
            self._queue.put_nowait(item)

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Relay lines until either side or a fault ends the watch."""
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
        """Return the next line to send; faults queued before it are applied first."""
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
        """Relay this many lines."""
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
    """Watch events of selected objects that are held back until `release`.

    Bookmarks stay behind held events: a client that resumes from a bookmark would miss them otherwise. For the same
    reason a client must not reconnect in the meantime, unless it gets 410.
    """

    watches: "Predicate"
    namespace: str | None
    name: str | None
    when: Callable[[dict[str, Any]], bool]
    active: bool = True
    held: list[tuple[WatchStream, dict[str, Any], bytes]] = field(default_factory=list)
    _caught: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, stream: WatchStream, event: dict[str, Any], line: bytes) -> bool:
        """Hold the line if it belongs to a selected object, and return whether it is held."""
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
        """Wait until an event is held."""
        async with asyncio.timeout(within):
            await self._caught.wait()

    def release(self, *, only_last: bool = False) -> None:
        """Send the held events; with `only_last` one event per object, as after a new list."""
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
    """Return one event per object that leads from the first state to the last."""
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
