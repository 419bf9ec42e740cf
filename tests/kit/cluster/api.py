"""A plain API client for tests that shares no code with `quintet.kube`: paths in, JSON out."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from kit.cluster.kubeconfig import Access

JsonObject = dict[str, Any]
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class RefusedError(Exception):
    """The API server rejected a request; `status` holds its `Status` object."""

    def __init__(self, code: int, status: Any) -> None:
        self.code = code
        self.status = status
        super().__init__(f"{code}: {status.get('message') if isinstance(status, dict) else status}")


class Api:
    """A connection to one API server with one identity."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self.session = session
        self.server = server

    @classmethod
    @asynccontextmanager
    async def connect(cls, kubeconfig: Path) -> AsyncIterator["Api"]:
        """Connect as the user of a kubeconfig."""
        access = Access.read(kubeconfig)
        async with access.session() as session:
            yield cls(session, access.server)

    async def get(self, path: str, **query: str) -> JsonObject:
        """Read an object or a list."""
        return await self.send("GET", path, None, "", query)

    async def exists(self, path: str) -> bool:
        """Return whether an object exists."""
        try:
            await self.get(path)
        except RefusedError as error:
            if error.code != 404:
                raise
            return False
        return True

    async def create(self, path: str, body: JsonObject, **query: str) -> JsonObject:
        """POST to a collection."""
        return await self.send("POST", path, body, "application/json", query)

    async def update(self, path: str, body: JsonObject, **query: str) -> JsonObject:
        """PUT an object."""
        return await self.send("PUT", path, body, "application/json", query)

    async def merge(self, path: str, body: JsonObject, **query: str) -> JsonObject:
        """Merge-patch an object."""
        return await self.send("PATCH", path, body, MERGE, query)

    async def apply(self, path: str, body: JsonObject, *, manager: str, force: bool = False) -> JsonObject:
        """Server-side apply an object."""
        query = {"fieldManager": manager, "force": str(force).lower()}
        return await self.send("PATCH", path, body, APPLY, query)

    async def delete(self, path: str, body: JsonObject | None = None, **query: str) -> JsonObject:
        """Delete an object or a collection."""
        return await self.send("DELETE", path, body, "application/json", query)

    async def send(
        self, method: str, path: str, body: Any, content_type: str, query: dict[str, str]
    ) -> JsonObject:
        """Send a request; raise `RefusedError` for a response status of 400 or more."""
        headers = {"Content-Type": content_type} if body is not None else {}
        data = json.dumps(body).encode() if body is not None else None
        async with self.session.request(
            method, self.server + path, data=data, headers=headers, params=query
        ) as answer:
            text = await answer.text()
        try:
            decoded: Any = json.loads(text)
        except ValueError:
            decoded = text
        if answer.status >= 400:
            raise RefusedError(answer.status, decoded)
        assert isinstance(decoded, dict), f"{method} {path} answered {text!r}"
        return decoded
