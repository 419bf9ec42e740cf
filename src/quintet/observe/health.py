"""The HTTP endpoints that a kubelet and a Prometheus ask: /healthz, /readyz, /metrics.

Run by `runtime.manager`, which registers the checks. A failing check names itself in
the answer, so `curl` alone tells what is wrong. Liveness is the process itself, that it
answers at all; what it needs of others, and first of all the API server, is readiness.
"""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from quintet.clock import Clock
from quintet.web.server import Request, Response, Server, ServerLimits

Check = Callable[[], str | None]
"""None if all is well, else what is wrong."""

# Those who ask are few and send no body.
_LIMITS = ServerLimits(body_bytes=0, connections=100)
_GRACE_SECONDS = 2.0


class HealthServer:
    """Serves checks and metrics on one address."""

    def __init__(self, host: str, port: int, clock: Clock) -> None:
        self._host = host
        self._port = port
        self.health: dict[str, Check] = {}
        self.readiness: dict[str, Check] = {}
        self._started: int | None = None
        self._server = Server(self._answer, _LIMITS, clock)

    async def start(self) -> int:
        """Serve from now on, or go on; returns the port, which matters when any free one was asked for."""
        if self._started is None:
            self._started = await self._server.start(self._host, self._port)
        return self._started

    async def stop(self) -> None:
        """Serve no more."""
        await self._server.stop(_GRACE_SECONDS)

    def _answer(self, request: Request) -> Response:
        if request.path not in ("/healthz", "/readyz", "/metrics"):
            return Response(404, b"there are /healthz, /readyz and /metrics\n")
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"only GET is answered here\n", headers={"Allow": "GET, HEAD"})
        if request.path == "/metrics":
            return Response(200, generate_latest(), CONTENT_TYPE_LATEST)
        return _verdict(self.health if request.path == "/healthz" else self.readiness)


def _verdict(checks: dict[str, Check]) -> Response:
    findings = {name: _finding(check) for name, check in checks.items()}
    lines = [
        f"[+] {name}: ok" if wrong is None else f"[-] {name}: {wrong}" for name, wrong in findings.items()
    ]
    healthy = all(wrong is None for wrong in findings.values())
    return Response(200 if healthy else 503, ("\n".join(lines or ["ok"]) + "\n").encode())


def _finding(check: Check) -> str | None:
    """A check that cannot tell is a finding too, and must not hide the others."""
    try:
        return check()
    except Exception as error:
        return f"the check itself failed: {error!r}"
