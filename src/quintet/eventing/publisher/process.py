"""The life of a publisher proxy: listen, connect, serve, and leave without losing an event.

Called by the command line. At SIGTERM it first says that it is not ready and serves on, until
everybody has heard; then it takes nothing new, answers what is under way, and goes.
"""

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from quintet.clock import Clock
from quintet.eventing.publisher.metrics import Metrics
from quintet.eventing.publisher.proxy import LIMITS, Proxy
from quintet.eventing.settings import PublisherSettings
from quintet.web.messages import Request, Response
from quintet.web.server import Server, ServerLimits

if TYPE_CHECKING:
    from quintet.eventing.publisher.mesh import MeshBackend
    from quintet.eventing.publisher.stream import StreamBackend

logger = logging.getLogger(__name__)

Address = tuple[str, int]
_OBJECTS_PER_COLLECTION = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Where to listen, and how to go."""

    address: Address
    metrics_address: Address
    leave_seconds: float
    """How long to serve on after SIGTERM, until nobody sends new requests."""
    grace_seconds: float
    """How long what is under way may take then."""


async def serve(settings: PublisherSettings, options: Options, clock: Clock) -> bool:
    """Serve until SIGTERM; False if the backend was given up instead."""
    backend = _backend(settings, clock)
    metrics = Metrics(backend.destination)
    proxy = Proxy(backend, metrics, clock)
    server = Server(proxy.handle, LIMITS, clock)
    numbers = Server(_shown(metrics, proxy), ServerLimits(body_bytes=1024, connections=20), clock)
    asked = asyncio.Event()
    # What is loaded stays, and events leave no cycles: looking for some at every few hundred
    # objects would be a few percent of the work.
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    with _signals(asked):
        running = asyncio.create_task(backend.run())
        try:
            for each, (host, port) in ((server, options.address), (numbers, options.metrics_address)):
                logger.info("listening on %s:%d", host or "*", await each.start(host, port))
            waiting = asyncio.create_task(asked.wait())
            await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            proxy.leave()
            if not running.done():
                logger.info("leaving: serving on for %g s", options.leave_seconds)
                await clock.sleep(options.leave_seconds)
            await server.stop(options.grace_seconds)
            await backend.settle(options.grace_seconds)
        finally:
            gave_up = running.done()
            running.cancel()
            await asyncio.wait((running,))
            await numbers.stop(0.1)
    if gave_up:
        running.result()
    logger.info("gone")
    return not gave_up


def _backend(settings: PublisherSettings, clock: Clock) -> "StreamBackend | MeshBackend":
    """Each backend is imported where it is used: the other's libraries stay out of memory."""
    prefix, seconds = settings.event_type_prefix, settings.request_seconds
    if settings.nats is not None:
        from quintet.eventing.publisher.stream import StreamBackend

        name = f"publisher-proxy {settings.namespace}/{settings.backend}"
        return StreamBackend(settings.nats, prefix, seconds, name, clock)
    if settings.beb is not None:
        from quintet.eventing.publisher.mesh import MeshBackend

        return MeshBackend(settings.beb, prefix, seconds, clock)
    raise ValueError("the settings name no backend: there must be `nats` or `beb`")


def _shown(metrics: Metrics, proxy: Proxy) -> Callable[[Request], Response]:
    registry = CollectorRegistry()
    registry.register(metrics)

    def handle(request: Request) -> Response:
        if request.path != "/metrics":
            return Response(404, b"there is nothing here but /metrics\n")
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"metrics are read by GET\n", headers={"Allow": "GET, HEAD"})
        metrics.healthy = proxy.finding() is None
        return Response(200, generate_latest(registry), CONTENT_TYPE_LATEST)

    return handle


@contextlib.contextmanager
def _signals(asked: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
