"""The publisher proxy process: connect, serve, and shut down without losing an event.

After SIGTERM it is not ready but keeps serving, until clients have been moved to other pods; then it stops
listening, completes the requests in flight and exits.
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
from quintet.eventing.publisher.metrics import PublisherMetrics
from quintet.eventing.publisher.proxy import LIMITS, PublisherProxy
from quintet.eventing.settings import PublisherSettings
from quintet.web.messages import Request, Response
from quintet.web.server import Server, ServerLimits

if TYPE_CHECKING:
    from quintet.eventing.publisher.eventmesh_backend import EventMeshBackend
    from quintet.eventing.publisher.nats_backend import NatsBackend

logger = logging.getLogger(__name__)

Address = tuple[str, int]
_OBJECTS_PER_COLLECTION = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherOptions:
    """Listen addresses and shutdown times."""

    address: Address
    metrics_address: Address
    leave_seconds: float
    """How long to keep serving after SIGTERM, until no client sends new requests."""
    grace_seconds: float
    """How long requests in flight may take after that."""


async def serve(settings: PublisherSettings, options: PublisherOptions, clock: Clock) -> bool:
    """Serve until SIGTERM; return False if the backend gave up reconnecting."""
    backend = _create_backend(settings, clock)
    metrics = PublisherMetrics(backend.destination)
    proxy = PublisherProxy(backend, metrics, clock)
    server = Server(proxy.handle, LIMITS, clock)
    metrics_server = Server(
        _metrics_handler(metrics, proxy), ServerLimits(body_bytes=1024, connections=20), clock
    )
    stop = asyncio.Event()
    # Loaded modules stay in memory, and events leave no reference cycles, so frequent collections would only
    # cost a few percent of CPU time.
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    with _handle_signals(stop):
        running = asyncio.create_task(backend.run())
        try:
            for each, (host, port) in ((server, options.address), (metrics_server, options.metrics_address)):
                logger.info("listening on %s:%d", host or "*", await each.start(host, port))
            waiting = asyncio.create_task(stop.wait())
            await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            proxy.start_shutdown()
            if not running.done():
                logger.info("shutting down: serving for another %g s", options.leave_seconds)
                await clock.sleep(options.leave_seconds)
            await server.stop(options.grace_seconds)
            await backend.wait_idle(options.grace_seconds)
        finally:
            gave_up = running.done()
            running.cancel()
            await asyncio.wait((running,))
            await metrics_server.stop(0.1)
    if gave_up:
        running.result()
    logger.info("stopped")
    return not gave_up


def _create_backend(settings: PublisherSettings, clock: Clock) -> "NatsBackend | EventMeshBackend":
    """Return the backend of the settings; imported here, so that the other one uses no memory."""
    prefix, seconds = settings.event_type_prefix, settings.request_seconds
    if settings.nats is not None:
        from quintet.eventing.publisher.nats_backend import NatsBackend

        name = f"publisher-proxy {settings.namespace}/{settings.backend}"
        return NatsBackend(settings.nats, prefix, seconds, name, clock)
    if settings.beb is not None:
        from quintet.eventing.publisher.eventmesh_backend import EventMeshBackend

        return EventMeshBackend(settings.beb, prefix, seconds, clock)
    raise ValueError("the settings have no backend: set `nats` or `beb`")


def _metrics_handler(metrics: PublisherMetrics, proxy: PublisherProxy) -> Callable[[Request], Response]:
    registry = CollectorRegistry()
    registry.register(metrics)

    def handle(request: Request) -> Response:
        if request.path != "/metrics":
            return Response(404, b"not found: the only path is /metrics\n")
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"only GET is allowed\n", headers={"Allow": "GET, HEAD"})
        metrics.healthy = proxy.problem() is None
        return Response(200, generate_latest(registry), CONTENT_TYPE_LATEST)

    return handle


@contextlib.contextmanager
def _handle_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
