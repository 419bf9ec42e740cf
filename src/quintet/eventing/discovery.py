"""The discovery API over HTTP, on every replica of the operator.

What is answered is decided in `apis.eventingbackend.discovery`; here it is bounded in size and rate,
because anybody in the cluster may ask and the event loop is the one that reconciles. Run by `cli.run`.
"""

import contextlib
import functools
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from quintet.apis.eventingbackend.discovery import MAX_BODY_BYTES, Asked, Reply, respond
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
# What the handler adds by itself, because it depends on how an answer is sent.
_OF_THE_SERVER: Final = frozenset({"Content-Type", "Content-Length"})


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests a second on average, and so many at once."""

    per_second: float
    at_once: float


READING: Final = Rate(2000, 2000)
"""Documents are made once: one costs some tens of microseconds."""
ASKING: Final = Rate(25, 50)
"""The worst what-if takes five milliseconds, so all of them together take an eighth of a core."""


class Bucket:
    """Lets requests through at a rate."""

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._left = rate.at_once
        self._looked = clock.monotonic()

    def wait(self) -> float:
        """Take one request; 0 if it may go on, else the seconds until one may."""
        now = self._clock.monotonic()
        refilled = self._left + (now - self._looked) * self._rate.per_second
        self._left, self._looked = min(self._rate.at_once, refilled), now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / self._rate.per_second


class Discovery:
    """Answers requests."""

    def __init__(self, clock: Clock, *, reading: Rate = READING, asking: Rate = ASKING) -> None:
        self._reading = Bucket(reading, clock)
        self._asking = Bucket(asking, clock)

    def handle(self, request: Request) -> Response:
        """The answer to one request."""
        bucket = self._asking if request.body else self._reading
        response = _too_many(wait) if (wait := bucket.wait()) else _answer(request)
        metrics.discovery_requests.labels(str(response.status)).inc()
        return response


@contextlib.asynccontextmanager
async def serving(host: str, port: int, clock: Clock) -> AsyncIterator[int]:
    """Answer while inside; gives the port."""
    server = Server(Discovery(clock).handle, LIMITS, clock)
    taken = await server.start(host, port)
    try:
        yield taken
    finally:
        await server.stop()


def _answer(request: Request) -> Response:
    # The server leaves the body out for HEAD, and needs it to tell its length.
    method = "GET" if request.method == "HEAD" else request.method
    if request.body:
        return _response(respond(Asked(method=method, path=request.path, body=request.body)))
    tags = request.headers.get("if-none-match", "")
    return _response(_document(Asked(method=method, path=request.path, if_none_match=tags)))


@functools.lru_cache(maxsize=64)
def _document(asked: Asked) -> Reply:
    """The catalog does not change while we run, and neither does what is said about it."""
    return respond(asked)


def _response(reply: Reply) -> Response:
    headers = {name: value for name, value in reply.headers.items() if name not in _OF_THE_SERVER}
    return Response(reply.status, reply.body, reply.headers.get("Content-Type", JSON), headers)


def _too_many(wait: float) -> Response:
    seconds = str(math.ceil(wait))
    body = b'{"error":"too many requests: try again later"}'
    return Response(429, body, JSON, {"Retry-After": seconds})
