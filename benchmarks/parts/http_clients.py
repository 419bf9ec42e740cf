"""Measures the CPU time of a request to an API server: our client and aiohttp, each on both event loops.

A server in another process answers every PATCH of a Deployment with this Deployment, over TLS. Only the CPU
time of the client's process counts, so other work on the machine changes the figures little.
"""

import asyncio
import multiprocessing
import ssl
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import aiohttp
import uvloop

from benchmarks.parts.micro import SAMPLE
from quintet.admission.certs import RotationPolicy, new_authority, new_leaf
from quintet.clock import SystemClock
from quintet.kube.config import ClusterConfig
from quintet.kube.transport import Transport
from quintet.web.messages import JSON, Request, Response
from quintet.web.server import Server, ServerLimits
from quintet.web.server_tls import load_certificate, server_context

PATH = "/apis/apps/v1/namespaces/shop/deployments/app-books"
APPLY = "application/apply-patch+yaml"
AT_ONCE = 8
HEADINGS = ["client", "asyncio µs", "uvloop µs"]

Client = Callable[[int, bytes, int], Awaitable[None]]
"""Sends a number of requests to a port, and trusts a CA."""


async def quintet(port: int, authority: bytes, count: int) -> None:
    """Send the requests with the client of the controllers."""
    body = SAMPLE.read_bytes()
    async with Transport(ClusterConfig(f"https://localhost:{port}", ca_data=authority)) as transport:

        async def send() -> None:
            await transport.request("PATCH", PATH, body=body, content_type=APPLY)

        await _repeat(send, count)


async def aiohttp_client(port: int, authority: bytes, count: int) -> None:
    """Send the requests with aiohttp."""
    body, headers = SAMPLE.read_bytes(), {"Accept": JSON, "Content-Type": APPLY}
    tls = ssl.create_default_context(cadata=authority.decode())
    url = f"https://localhost:{port}{PATH}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:

        async def send() -> None:
            async with session.patch(url, data=body, headers=headers) as response:
                response.raise_for_status()
                await response.read()

        await _repeat(send, count)


CLIENTS: dict[str, Client] = {"aiohttp": aiohttp_client, "ours": quintet}


def measure(count: int = 5000, rounds: int = 3) -> dict[str, tuple[float, float]]:
    """Return the CPU microseconds of a request of each client, on asyncio's loop and on uvloop."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        port, authority = ours.recv()
        return {
            name: (
                min(_cpu_microseconds(client, port, authority, count, None) for _ in range(rounds)),
                min(
                    _cpu_microseconds(client, port, authority, count, uvloop.new_event_loop)
                    for _ in range(rounds)
                ),
            )
            for name, client in CLIENTS.items()
        }
    finally:
        server.terminate()
        server.join()


def rows(found: dict[str, tuple[float, float]]) -> list[list[str]]:
    """Return the rows of the table."""
    return [[name, f"{plain:.0f}", f"{fast:.0f}"] for name, (plain, fast) in found.items()]


def _cpu_microseconds(
    client: Client,
    port: int,
    authority: bytes,
    count: int,
    loop: Callable[[], asyncio.AbstractEventLoop] | None,
) -> float:
    async def work() -> float:
        await client(port, authority, AT_ONCE)  # connections, caches
        started = time.process_time()
        await client(port, authority, count)
        return (time.process_time() - started) / count * 1e6

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(work())


async def _repeat(send: Callable[[], Awaitable[None]], count: int) -> None:
    async def worker() -> None:
        for _ in range(count // AT_ONCE):
            await send()

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def _serve(pipe: Connection) -> None:
    asyncio.run(_answer(pipe))


async def _answer(pipe: Connection) -> None:
    clock, policy = SystemClock(), RotationPolicy()
    authority = new_authority(clock.now(), policy)
    leaf = new_leaf(authority, ("localhost",), clock.now(), policy)
    context = server_context()
    load_certificate(context, leaf.certificate, leaf.key)
    body = SAMPLE.read_bytes()

    def handle(_request: Request) -> Response:
        return Response(200, body, JSON)

    port = await Server(handle, ServerLimits(), clock).start("127.0.0.1", 0, tls=context)
    pipe.send((port, authority.certificate))
    await asyncio.Event().wait()
