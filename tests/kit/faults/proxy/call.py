"""One request on its way through the proxy, and what a fault can do with it.

Writes are read completely, because a fault may need the server's response before the client gets it. Everything else
is streamed, watches line by line.
"""

import asyncio
import io
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from kit.faults.proxy.stream import Hold, StreamBrokenError, WatchStream

if TYPE_CHECKING:
    from kit.faults.proxy.faults import StreamFault
    from kit.faults.proxy.trace import Exchange, Trace
    from kit.faults.proxy.upstream import Upstream

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "trailer", "upgrade"}
)
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Reply:
    """A complete response of the API server."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


@dataclass
class Lines:
    """State shared by all calls of one proxy: the API server, the open watches and the held lines."""

    upstream: "Upstream"
    trace: "Trace"
    streams: set[WatchStream] = field(default_factory=set)
    holds: list[Hold] = field(default_factory=list)
    tasks: set[asyncio.Task[Reply]] = field(default_factory=set)
    outages: int = 0
    """The number of current outages; no watch opens during one, even if it was requested before."""


@dataclass
class Call:
    """A request that has arrived at the proxy."""

    incoming: web.Request
    data: bytes
    exchange: "Exchange"
    lines: Lines

    @property
    def is_watch(self) -> bool:
        """Return whether the response is a stream of watch events."""
        return self.exchange.request.verb == "watch"

    async def commit(self) -> Reply:
        """Forward the request and return the API server's response.

        The request is completed even if the client disconnects.
        """
        task = asyncio.create_task(self._exchange_whole())
        self.lines.tasks.add(task)
        task.add_done_callback(self.lines.tasks.discard)
        return await asyncio.shield(task)

    async def forward(self, *, disturbed_by: "StreamFault | None" = None) -> web.StreamResponse:
        """Forward the request unchanged; a watch may get a fault."""
        if self.exchange.request.mutating:
            reply = await self.commit()
            return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
        async with self._open() as answer:
            response = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
            if self.is_watch and answer.status == 200:
                await self._relay_watch(answer, response, disturbed_by)
            else:
                await response.prepare(self.incoming)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            return response

    def answer(self, status: int, body: Any, headers: Mapping[str, str]) -> web.StreamResponse:
        """Respond in place of the API server."""
        self.exchange.status = status
        return web.json_response(body, status=status, headers=headers)

    def reset(self) -> web.StreamResponse:
        """Break the client's connection with a RST."""
        transport = self.incoming.transport
        if transport is not None:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            transport.abort()
        return web.Response()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = _passed_on(self.incoming.headers)
        if self.is_watch or self.exchange.request.mutating:
            headers.popall("Accept-Encoding", None)  # lines and resourceVersions are read here
        url = URL(self.lines.upstream.server + self.incoming.raw_path, encoded=True)
        session = self.lines.upstream.session(headers)
        async with session.request(
            # A stream, because aiohttp warns about large bodies given as bytes.
            self.incoming.method,
            url,
            headers=headers,
            data=io.BytesIO(self.data) if self.data else None,
            allow_redirects=False,
        ) as answer:
            self.exchange.status = answer.status
            self.lines.trace.touch()
            yield answer

    async def _exchange_whole(self) -> Reply:
        async with self._open() as answer:
            body = await answer.read()
        self.exchange.resource_version = _resource_version(body)
        self.lines.trace.touch()
        return Reply(answer.status, _passed_on(answer.headers), body)

    async def _relay_watch(
        self, answer: aiohttp.ClientResponse, response: web.StreamResponse, fault: "StreamFault | None"
    ) -> None:
        if self.lines.outages:
            self.reset()
            return
        stream = WatchStream(self.exchange.request, response, self.lines.holds)
        if fault is not None:
            stream.put(fault)
        # Before the client gets the headers: a test with an open watch can disturb it.
        self.lines.streams.add(stream)
        try:
            await response.prepare(self.incoming)
            await stream.run(_split(answer))
        except StreamBrokenError:
            self.reset()
        finally:
            self.lines.streams.discard(stream)


async def _split(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield complete lines of any length, or bytes as they arrive if the response is not JSON."""
    if answer.content_type != "application/json":
        async for chunk in answer.content.iter_any():
            yield chunk
        return
    rest = b""
    async for chunk in answer.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def _passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict((key, value) for key, value in headers.items() if key.lower() not in HOP_BY_HOP)


def _resource_version(body: bytes) -> str | None:
    try:
        version = json.loads(body)["metadata"]["resourceVersion"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(version)
