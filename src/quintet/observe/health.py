"""The HTTP endpoints that a kubelet and a Prometheus ask: /healthz, /readyz, /metrics.

Run by `runtime.manager`, which registers the checks. A failing check names itself in
the answer, so `curl` alone tells what is wrong.
"""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

Check = Callable[[], str | None]
"""None if all is well, else what is wrong."""


class HealthServer:
    """Serves checks and metrics on one address."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self.health: dict[str, Check] = {}
        self.readiness: dict[str, Check] = {}
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Begin to serve; returns the port, which matters when any free one was asked for."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Serve no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(self.health)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(self.readiness)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(checks: dict[str, Check]) -> web.Response:
    findings = {name: _finding(check) for name, check in checks.items()}
    lines = [
        f"[+] {name}: ok" if wrong is None else f"[-] {name}: {wrong}" for name, wrong in findings.items()
    ]
    healthy = all(wrong is None for wrong in findings.values())
    return web.Response(status=200 if healthy else 503, text="\n".join(lines or ["ok"]) + "\n")


def _finding(check: Check) -> str | None:
    """A check that cannot tell is a finding too, and must not hide the others."""
    try:
        return check()
    except Exception as error:
        return f"the check itself failed: {error!r}"
