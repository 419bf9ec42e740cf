"""Connections to the NATS servers of backends, shared by the controllers of one process.

The backend controller opens them, to addresses that it has checked; the Subscription controller uses them. A
lost connection is not reopened here: the backend is reconciled again first, because its host name may have
another address by then.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.nats.client import NatsClient
from quintet.nats.options import NatsOptions

Listener = Callable[[ObjectKey], None]
"""Called with the backend whose connection was opened or lost."""


@dataclass(frozen=True, slots=True)
class _Session:
    client: NatsClient
    version: str


class Sessions:
    """At most one connection per backend and server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[tuple[ObjectKey, str], _Session] = {}
        self.listeners: list[Listener] = []

    def current(self, backend: ObjectKey, url: str, version: str | None = None) -> NatsClient | None:
        """Return the connection of a backend to a server; with a version, only one made with that."""
        session = self._open.get((backend, url))
        if session is None or not session.client.connected or version not in (None, session.version):
            return None
        return session.client

    def urls(self, backend: ObjectKey) -> list[str]:
        """Return the URLs of the servers to which a backend has connections."""
        return [url for key, url in self._open if key == backend]

    def has_lost(self, backend: ObjectKey) -> bool:
        """Return whether a connection of a backend is lost."""
        return any(not session.client.connected for (key, _), session in self._open.items() if key == backend)

    async def open(self, backend: ObjectKey, options: NatsOptions, version: str) -> NatsClient:
        """Return the connection to a server, opened if needed; raises `NatsError`.

        A connection with other credentials is replaced only after the new one is open.
        """
        key = (backend, options.url)
        if (current := self.current(backend, options.url, version)) is not None:
            return current
        known = self._open.get(key)
        client = await NatsClient(options, self._clock).__aenter__()
        client.on_change.append(lambda connected: self._on_change(key, client))
        self._open[key] = _Session(client, version)
        if known is not None:
            await _close(known.client)
        self._notify(backend)
        return client

    async def keep_only(self, backend: ObjectKey, urls: Collection[str]) -> None:
        """Close the connections of a backend to servers that are not listed."""
        for key in [key for key in self._open if key[0] == backend and key[1] not in urls]:
            await _close(self._open.pop(key).client)

    async def close(self) -> None:
        """Close all connections."""
        while self._open:
            await _close(self._open.popitem()[1].client)

    def _on_change(self, key: tuple[ObjectKey, str], client: NatsClient) -> None:
        session = self._open.get(key)
        # Ignore a connection that was replaced.
        if session is not None and session.client is client:
            self._notify(key[0])

    def _notify(self, backend: ObjectKey) -> None:
        for listener in self.listeners:
            listener(backend)


async def _close(client: NatsClient) -> None:
    client.on_change.clear()
    await client.close()
