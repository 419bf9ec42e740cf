"""Accepts TLS connections, and limits those whose handshake is not complete.

A connection belongs to the server only after its handshake, but costs 50 KB from its first byte: asyncio
accepts any number of them, so that a client that never begins a handshake could fill the memory.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from quintet.clock import Clock

_BACKLOG = 1024
_AT_ONCE = 100
"""Connections to accept in one iteration of the event loop."""
_PAUSE_SECONDS = 0.5
"""Without free file descriptors."""

log = logging.getLogger(__name__)


class TlsListener:
    """Listens on one address; the handshake that takes longest gives way to a new connection."""

    def __init__(
        self,
        create_protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext,
        clock: Clock,
        *,
        handshakes: int,
        seconds: float,
    ) -> None:
        self._create_protocol = create_protocol
        self._tls = tls
        self._clock = clock
        self._most = handshakes
        self._seconds = seconds
        self._handshakes: dict[socket.socket, asyncio.Task[None]] = {}
        self._socket: socket.socket | None = None

    def start(self, host: str | None, port: int) -> int:
        """Listen, and return the port; without a host on all addresses."""
        if host:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        elif socket.has_dualstack_ipv6():
            self._socket = socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
            )
        else:
            self._socket = socket.create_server(("", port), backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._resume()
        return int(self._socket.getsockname()[1])

    def stop(self) -> None:
        """Accept no more connections; handshakes in progress go on."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._accept()
            self._socket.close()
            self._socket = None

    async def abort(self) -> None:
        """End the handshakes in progress."""
        tasks = list(self._handshakes.values())
        for connection in list(self._handshakes):
            self._evict(connection)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _resume(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if self._socket is None:
                return
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptor or memory
                log.warning("Connection not accepted", extra={"error": str(error)})
                asyncio.get_running_loop().remove_reader(self._socket)
                self._clock.call_later(_PAUSE_SECONDS, self._resume)
                return
            connection.setblocking(False)
            if len(self._handshakes) >= self._most:
                self._evict(next(iter(self._handshakes)))
            self._handshakes[connection] = asyncio.create_task(self._shake_hands(connection))

    def _evict(self, connection: socket.socket) -> None:
        task = self._handshakes.pop(connection)
        # The transport notices the end of the connection, whatever it does with the cancellation.
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        task.cancel()

    async def _shake_hands(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._create_protocol, connection, ssl=self._tls, ssl_handshake_timeout=self._seconds
            )
        except OSError:
            connection.close()  # a client that does not speak TLS, or does not trust us
        finally:
            self._handshakes.pop(connection, None)
