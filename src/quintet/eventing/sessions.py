"""Live connections to the NATS servers of backends, shared by the controllers of one process.

The controller of backends opens them, to addresses that it has judged; that of Subscriptions borrows
them. A connection that is lost is not made again here: its backend is looked at anew from the first
stage on, because a name may lead elsewhere by then.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from quintet.apis.meta import ObjectKey
from quintet.clock import Clock
from quintet.nats.client import Client
from quintet.nats.options import Options

Listener = Callable[[ObjectKey], None]
"""Told the backend whose connection came or went."""


@dataclass(frozen=True, slots=True)
class _Session:
    client: Client
    version: str


class Sessions:
    """At most one connection for each backend and server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[tuple[ObjectKey, str], _Session] = {}
        self.listeners: list[Listener] = []

    def current(self, backend: ObjectKey, url: str, version: str | None = None) -> Client | None:
        """The connection of a backend to a server, if there is one (with a version: made with that)."""
        session = self._open.get((backend, url))
        if session is None or not session.client.connected or version not in (None, session.version):
            return None
        return session.client

    def urls(self, backend: ObjectKey) -> list[str]:
        """The servers to which a backend has connections."""
        return [url for key, url in self._open if key == backend]

    def lost(self, backend: ObjectKey) -> bool:
        """Whether a backend had a connection that is gone."""
        return any(not session.client.connected for (key, _), session in self._open.items() if key == backend)

    async def open(self, backend: ObjectKey, options: Options, version: str) -> Client:
        """Connect, or raise why not. A connection with other credentials is replaced only then."""
        place = (backend, options.url)
        if (current := self.current(backend, options.url, version)) is not None:
            return current
        known = self._open.get(place)
        client = await Client(options, self._clock).__aenter__()
        client.on_change.append(lambda connected: self._changed(place, client))
        self._open[place] = _Session(client, version)
        if known is not None:
            await _farewell(known.client)
        self._tell(backend)
        return client

    async def keep_only(self, backend: ObjectKey, urls: Collection[str]) -> None:
        """Close the connections of a backend to other servers than these."""
        for place in [place for place in self._open if place[0] == backend and place[1] not in urls]:
            await _farewell(self._open.pop(place).client)

    async def close(self) -> None:
        """Close everything."""
        while self._open:
            await _farewell(self._open.popitem()[1].client)

    def _changed(self, place: tuple[ObjectKey, str], client: Client) -> None:
        session = self._open.get(place)
        # A connection that was replaced is nobody's business any more.
        if session is not None and session.client is client:
            self._tell(place[0])

    def _tell(self, backend: ObjectKey) -> None:
        for listener in self.listeners:
            listener(backend)


async def _farewell(client: Client) -> None:
    client.on_change.clear()
    await client.close()
