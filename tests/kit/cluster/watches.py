"""A watch read line by line, for tests of the fault proxy."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from kit.cluster.api import Api


class Watch:
    """An open watch, read line by line."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def line(self, within: float = 30) -> bytes:
        """Return the next line, or nothing at the end."""
        async with asyncio.timeout(within):
            return await self.answer.content.readline()

    async def event(self, within: float = 30) -> dict[str, Any]:
        """Return the next event."""
        decoded: dict[str, Any] = json.loads(await self.line(within))
        return decoded

    async def names(self, count: int) -> list[tuple[str, str]]:
        """Return type and name of the next events."""
        events = [await self.event() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    async def rest(self) -> tuple[bytes, Exception | None]:
        """Return all bytes until the end and the error that ended the stream."""
        seen = b""
        try:
            while chunk := await self.answer.content.readany():
                seen += chunk
        except aiohttp.ClientError as error:
            return seen, error
        return seen, None


@asynccontextmanager
async def open_watch(api: Api, path: str, version: str | None = None, **query: str) -> AsyncIterator[Watch]:
    """Watch a collection from now or from a resource version."""
    version = version or (await api.get(path))["metadata"]["resourceVersion"]
    params = {"watch": "true", "resourceVersion": version, **query}
    async with api.session.get(api.server + path, params=params) as answer:
        assert answer.status == 200, await answer.text()
        yield Watch(answer)
