"""The HTTP endpoints /healthz and /readyz, and /metrics unless metrics have an address of their own.

The response lists every check with its result. Liveness means only that the process responds; what depends
on others, such as the API server, belongs to readiness.
"""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from quintet.clock import Clock
from quintet.web.server import Request, Response, Server, ServerLimits

Check = Callable[[], str | None]
"""Returns None if the check passes, otherwise the problem."""

# The kubelet and Prometheus are few clients, and send no bodies.
LIMITS = ServerLimits(body_bytes=0, connections=100)
GRACE_SECONDS = 2.0


class HealthServer:
    """Serves health checks on one address, on a developer's machine also metrics."""

    def __init__(self, host: str, port: int, clock: Clock, *, metrics: bool = True) -> None:
        self._host = host
        self._port = port
        self._paths = ("/healthz", "/readyz", "/metrics") if metrics else ("/healthz", "/readyz")
        self.health: dict[str, Check] = {}
        self.readiness: dict[str, Check] = {}
        self.warnings: dict[str, Check] = {}
        """Problems that /readyz shows, though the process is ready."""
        self._listening_port: int | None = None
        self._server = Server(self._handle, LIMITS, clock)

    async def start(self) -> int:
        """Start the server if it does not run, and return its port; port 0 chooses a free one."""
        if self._listening_port is None:
            self._listening_port = await self._server.start(self._host, self._port)
        return self._listening_port

    async def stop(self) -> None:
        """Stop the server."""
        await self._server.stop(GRACE_SECONDS)

    def _handle(self, request: Request) -> Response:
        if request.path not in self._paths:
            return Response(404, f"not found: the paths are {', '.join(self._paths)}\n".encode())
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"only GET is allowed\n", headers={"Allow": "GET, HEAD"})
        if request.path == "/metrics":
            return Response(200, generate_latest(), CONTENT_TYPE_LATEST)
        if request.path == "/healthz":
            return _run_checks(self.health)
        return _run_checks(self.readiness, self.warnings)


def _run_checks(checks: dict[str, Check], warnings: dict[str, Check] | None = None) -> Response:
    problems = {name: _run_check(check) for name, check in checks.items()}
    lines = [
        f"[+] {name}: ok" if problem is None else f"[-] {name}: {problem}"
        for name, problem in problems.items()
    ]
    for name, check in (warnings or {}).items():
        if problems.get(name) is None and (problem := _run_check(check)) is not None:
            lines.append(f"[!] {name}: {problem}")
    healthy = all(problem is None for problem in problems.values())
    return Response(200 if healthy else 503, ("\n".join(lines or ["ok"]) + "\n").encode())


def _run_check(check: Check) -> str | None:
    """Return the problem that a check finds; an exception counts as a problem too."""
    try:
        return check()
    except Exception as error:
        return f"the check raised {error!r}"
