"""The HTTP server of the discovery API, on every replica of the operator.

Requests are limited in size and rate: every pod in the cluster can send them, and they are handled by the
event loop that also reconciles.
"""

import contextlib
import functools
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from quintet.apis.eventingbackend.discovery import (
    MAX_BODY_BYTES,
    DiscoveryRequest,
    DiscoveryResponse,
    respond,
)
from quintet.clock import Clock
from quintet.observe import metrics
from quintet.web.messages import JSON, Request, Response
from quintet.web.server import Server, ServerLimits

LIMITS: Final = ServerLimits(
    header_bytes=8 << 10,
    headers=64,
    body_bytes=MAX_BODY_BYTES,
    connections=256,
    head_seconds=5.0,
    body_seconds=10.0,
    idle_seconds=60.0,
)
# Headers that the HTTP server sets itself.
_SERVER_HEADERS: Final = frozenset({"Content-Type", "Content-Length"})


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: requests per second on average, and the burst size."""

    per_second: float
    burst: float


GET_RATE: Final = Rate(2000, 2000)
"""Documents are cached: a request takes some tens of microseconds."""
WHAT_IF_RATE: Final = Rate(25, 50)
"""The slowest what-if takes five milliseconds, so all of them together use an eighth of a core."""


class TokenBucket:
    """A rate limiter."""

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = rate.burst
        self._refilled_at = clock.monotonic()

    def acquire(self) -> float:
        """Take a token and return 0; without one, return the seconds until there is one."""
        now = self._clock.monotonic()
        refilled = self._tokens + (now - self._refilled_at) * self._rate.per_second
        self._tokens, self._refilled_at = min(self._rate.burst, refilled), now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate.per_second


class DiscoveryHandler:
    """Handles the requests of the discovery API."""

    def __init__(self, clock: Clock, *, get_rate: Rate = GET_RATE, what_if_rate: Rate = WHAT_IF_RATE) -> None:
        self._get_bucket = TokenBucket(get_rate, clock)
        self._what_if_bucket = TokenBucket(what_if_rate, clock)

    def handle(self, request: Request) -> Response:
        """Return the response to a request."""
        bucket = self._what_if_bucket if request.body else self._get_bucket
        response = _too_many_requests(wait) if (wait := bucket.acquire()) else _respond(request)
        metrics.discovery_requests.labels(str(response.status)).inc()
        return response


@contextlib.asynccontextmanager
async def serve(host: str, port: int, clock: Clock) -> AsyncIterator[int]:
    """Serve the discovery API inside the context; yields the port."""
    server = Server(DiscoveryHandler(clock).handle, LIMITS, clock)
    bound_port = await server.start(host, port)
    try:
        yield bound_port
    finally:
        await server.stop()


def _respond(request: Request) -> Response:
    # For HEAD the server omits the body, but needs it for Content-Length.
    method = "GET" if request.method == "HEAD" else request.method
    if request.body:
        return _response(respond(DiscoveryRequest(method=method, path=request.path, body=request.body)))
    tags = request.headers.get("if-none-match", "")
    return _response(_document(DiscoveryRequest(method=method, path=request.path, if_none_match=tags)))


@functools.lru_cache(maxsize=64)
def _document(asked: DiscoveryRequest) -> DiscoveryResponse:
    """Return the response to a GET; cached, because the catalog does not change at run time."""
    return respond(asked)


def _response(reply: DiscoveryResponse) -> Response:
    headers = {name: value for name, value in reply.headers.items() if name not in _SERVER_HEADERS}
    return Response(reply.status, reply.body, reply.headers.get("Content-Type", JSON), headers)


def _too_many_requests(wait: float) -> Response:
    seconds = str(math.ceil(wait))
    body = b'{"error":"too many requests: try again later"}'
    return Response(429, body, JSON, {"Retry-After": seconds})
