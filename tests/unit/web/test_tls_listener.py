"""TLS connections whose handshake never completes, and what they leave for others."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import pytest

from kit.clock import VirtualClock, settle
from kit.eventually import eventually_true
from quintet.admission.certs import RotationPolicy, new_authority, new_leaf
from quintet.clock import SystemClock
from quintet.web.server import Request, Response, Server, ServerLimits
from quintet.web.server_tls import load_certificate, server_context

LIMITS = ServerLimits(handshakes=10)


def handle(request: Request) -> Response:
    return Response(200, b"ok")


@contextlib.asynccontextmanager
async def serving(
    host: str = "127.0.0.1", clock: VirtualClock | None = None
) -> AsyncIterator[tuple[Server, int]]:
    """Serve with a self-signed certificate; yields the server and its port."""
    now, policy = SystemClock().now(), RotationPolicy()
    leaf = new_leaf(new_authority(now, policy), ("localhost",), now, policy)
    context = server_context()
    load_certificate(context, leaf.certificate, leaf.key)
    server = Server(handle, LIMITS, clock or VirtualClock())
    try:
        yield server, await server.start(host, 0, tls=context)
    finally:
        await server.stop()


async def ask(port: int, host: str = "127.0.0.1") -> bytes:
    """Return the status line of a response over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    line = await reader.readline()
    writer.close()
    return line


@pytest.mark.parametrize("first_bytes", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
async def test_connection_without_handshake_gives_way_to_new_ones(first_bytes: bytes):
    async with serving() as (_, port):
        silent = []
        for _ in range(3 * LIMITS.handshakes):
            silent.append(await asyncio.open_connection("127.0.0.1", port))
            silent[-1][1].write(first_bytes)
        async with asyncio.timeout(30):
            for reader, _ in silent[: 2 * LIMITS.handshakes]:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b"", "the server closes it"
        assert await ask(port) == b"HTTP/1.1 200 OK\r\n"
        still_open = [reader for reader, _ in silent[-LIMITS.handshakes + 1 :] if not reader.at_eof()]
        assert len(still_open) == LIMITS.handshakes - 1, "only as many as needed are closed"
        for _, writer in silent:
            writer.close()


async def test_client_that_does_not_speak_tls_is_disconnected_and_no_longer_counts():
    async with serving() as (_, port):
        for _ in range(2 * LIMITS.handshakes):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        assert await ask(port) == b"HTTP/1.1 200 OK\r\n"


async def test_stop_ends_handshakes_in_progress():
    async with serving() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await settle()
        await server.stop()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with pytest.raises(OSError, match=r"refused|failed"):
            await asyncio.open_connection("127.0.0.1", port)


async def test_listener_without_file_descriptors_tries_again(monkeypatch: pytest.MonkeyPatch, caplog):
    accept, failures = socket.socket.accept, iter([OSError(24, "Too many open files")])

    def accept_later(listener: socket.socket) -> object:
        if (error := next(failures, None)) is not None:
            raise error
        return accept(listener)

    clock = VirtualClock()
    async with serving(clock=clock) as (_, port):
        monkeypatch.setattr(socket.socket, "accept", accept_later)
        response = asyncio.create_task(ask(port))
        await eventually_true(lambda: "Connection not accepted" in caplog.text)
        await clock.advance(1.0)
        assert await response == b"HTTP/1.1 200 OK\r\n"


async def test_server_without_host_listens_on_all_addresses():
    async with serving("") as (_, port):
        assert await ask(port) == b"HTTP/1.1 200 OK\r\n"
        if socket.has_dualstack_ipv6():
            assert await ask(port, "::1") == b"HTTP/1.1 200 OK\r\n"
