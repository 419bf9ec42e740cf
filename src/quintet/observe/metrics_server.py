"""The HTTP endpoint /metrics on an address of its own: plain, or with TLS for authorized clients only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from quintet.observe.health import GRACE_SECONDS, LIMITS
from quintet.web.server import Request, Response, Server

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from quintet.clock import Clock

    Authorize = Callable[[str, str, str], Awaitable["Denial | None"]]
    """Returns why the bearer of a token may not use a verb on a path; None if it may."""

PATH = "/metrics"
_SCHEME = "bearer"
_UNAUTHORIZED = 401


class Denial(NamedTuple):
    """Why a request is refused, with the status of the response: 401, 403 or 503."""

    status: int
    problem: str


class MetricsServer:
    """Serves the metrics of the process; with `authorize`, to clients whose bearer token it accepts."""

    def __init__(self, host: str, port: int, clock: Clock, authorize: Authorize | None = None) -> None:
        self._host = host
        self._port = port
        self._authorize = authorize
        self._server = Server(self._handle, LIMITS, clock)

    async def start(self, *, tls: ssl.SSLContext | None = None) -> int:
        """Start to listen, and return the port; port 0 chooses a free one."""
        return await self._server.start(self._host, self._port, tls=tls)

    async def stop(self) -> None:
        """Stop the server."""
        await self._server.stop(GRACE_SECONDS)

    def _handle(self, request: Request) -> Response | Awaitable[Response]:
        if request.path != PATH:
            return Response(404, b"not found: the only path is /metrics\n")
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"only GET is allowed\n", headers={"Allow": "GET, HEAD"})
        return _metrics() if self._authorize is None else self._respond(request, self._authorize)

    async def _respond(self, request: Request, authorize: Authorize) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != _SCHEME or not token.strip():
            denial: Denial | None = Denial(_UNAUTHORIZED, "send a bearer token of the cluster")
        else:
            denial = await authorize(token.strip(), request.path, request.method.lower())
        if denial is None:
            return _metrics()
        headers = {"WWW-Authenticate": "Bearer"} if denial.status == _UNAUTHORIZED else {}
        return Response(denial.status, f"{denial.problem}\n".encode(), headers=headers)


def _metrics() -> Response:
    return Response(200, generate_latest(), CONTENT_TYPE_LATEST)
