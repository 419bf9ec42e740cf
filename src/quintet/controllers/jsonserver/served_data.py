"""Reads the served data through the Service, to verify it.

Pods run untrusted programs, so time and size of the response are limited.
"""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from quintet.controllers.jsonserver.decide.options import READER
from quintet.web.connection import Connection, ConnectionTarget, connect

ReadData = Callable[[str], Awaitable[tuple[bytes | None, str]]]
"""Reads a URL; returns the body, or None and the reason."""

_LIMIT = 4 * 1024 * 1024
_SECONDS = 3.0


async def read_over_http(url: str, seconds: float = _SECONDS) -> tuple[bytes | None, str]:
    """Read the data with an HTTP request to the Service."""
    try:
        async with asyncio.timeout(seconds):
            connection = await connect(ConnectionTarget(url, None))
            try:
                return await _fetch(connection, url)
            finally:
                connection.close()
    except TimeoutError:
        return None, f"no response in {seconds:g} s"
    except OSError as error:
        return None, type(error).__name__


async def _fetch(connection: Connection, url: str) -> tuple[bytes | None, str]:
    parts = urlsplit(url)
    connection.send(
        f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n"
        f"User-Agent: {READER}\r\nConnection: close\r\n\r\n".encode()
    )
    if (status := await connection.head()) != 200:
        return None, f"HTTP {status}"
    body = bytearray()
    async for piece in connection.pieces(_SECONDS):
        body += piece
        if len(body) > _LIMIT:
            return None, "the response is larger than the data"
    return bytes(body), ""
