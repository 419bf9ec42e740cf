"""The proxy: it records every request and applies the planned fault, if any.

It runs in the event loop of the test, so it survives an operator process that is stopped or killed. Upgraded
connections (exec, port-forward) are not supported.
"""

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml
from aiohttp import web

from kit.cluster import service_accounts
from kit.faults.proxy.call import Call, Lines
from kit.faults.proxy.certificate import LOOPBACK, serving_certificate
from kit.faults.proxy.faults import Fault, Refuse, StreamFault
from kit.faults.proxy.requests import Predicate, Request, anything, changes_state, matching, parse
from kit.faults.proxy.stream import Hold
from kit.faults.proxy.trace import Exchange, Trace
from kit.faults.proxy.upstream import PLACEHOLDER, Upstream
from quintet.web.server import stop_listening

LARGEST_BODY = 16 * 1024 * 1024


@dataclass(eq=False)
class Injection:
    """A fault that waits for its request."""

    fault: Fault
    when: Predicate
    at_write: int | None = None
    left: int | None = 1
    """How many more times; `None` = until removed."""
    hits: list[Exchange] = field(default_factory=list)
    _hit: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, exchange: Exchange) -> bool:
        """Return whether the fault applies to this request."""
        return self.left != 0 and self.at_write in (None, exchange.write) and self.when(exchange.request)

    def strike(self, exchange: Exchange) -> Fault:
        """Record that the fault hit this request."""
        self.left = None if self.left is None else self.left - 1
        self.hits.append(exchange)
        self._hit.set()
        return self.fault

    async def hit(self, *, within: float = 60.0) -> Exchange:
        """Wait for the first request that was hit, and return it."""
        async with asyncio.timeout(within):
            await self._hit.wait()
        return self.hits[0]

    def remove(self) -> None:
        """Stop applying the fault."""
        self.left = 0


class FaultProxy:
    """A proxy in front of an API server; the package docstring has an example."""

    def __init__(self, kubeconfig: Path, *, numbered: Predicate = changes_state) -> None:
        self.trace = Trace(numbered)
        self.url = ""
        self._kubeconfig = kubeconfig
        self._injections: list[Injection] = []

    async def __aenter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="fault-proxy-")
        scratch = Path(self._scratch.name)
        self._lines = Lines(Upstream(self._kubeconfig), self.trace)
        context, self.certificate = serving_certificate(scratch)
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A watch whose client has gone must not stay open towards the API server.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        assert self._runner.server is not None
        self._listener = await loop.create_server(self._runner.server, LOOPBACK, 0, ssl=context)
        self.url = f"https://{LOOPBACK}:{self._listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for stream in self._lines.streams:
            stream.put(Refuse())
        await stop_listening(self._listener)
        await self._runner.cleanup()
        await asyncio.gather(*self._lines.tasks, return_exceptions=True)
        await self._lines.upstream.close()
        self._scratch.cleanup()

    def write_kubeconfig(self, directory: Path, *, token: str | None = None) -> Path:
        """Write a kubeconfig that leads through the proxy, with `token` or with the proxy's own identity.

        It has the other contexts of the proxy's kubeconfig.
        """
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "clusters": [
                {
                    "name": "proxy",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority-data": base64.b64encode(self.certificate).decode(),
                    },
                }
            ],
            "users": [{"name": "proxy", "user": {"token": token or PLACEHOLDER}}],
        }
        service_accounts.add_contexts(
            config, service_accounts.context_tokens(yaml.safe_load(self._kubeconfig.read_text()))
        )
        path = directory / f"through-proxy-{self.url.rpartition(':')[2]}.kubeconfig"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path

    def inject(
        self,
        fault: Fault,
        *,
        at_write: int | None = None,
        when: Predicate = anything,
        times: int | None = 1,
    ) -> Injection:
        """Plan a fault at the write with this number or at the next `times` matching requests."""
        injection = Injection(fault, when, at_write, times)
        self._injections.append(injection)
        return injection

    def disturb(self, fault: StreamFault, when: Predicate = anything) -> int:
        """Apply a fault to the running watches and return their number."""
        chosen = [stream for stream in self._lines.streams if when(stream.request)]
        assert chosen, f"no running watch matches; running: {[str(s.request) for s in self._lines.streams]}"
        for stream in chosen:
            stream.put(fault)
        return len(chosen)

    def hold(
        self,
        resource: str,
        *,
        namespace: str | None = None,
        name: str | None = None,
        when: Callable[[dict[str, Any]], bool] = lambda obj: True,
    ) -> Hold:
        """Hold back watch events of these objects, or of these states of them, until released."""
        hold = Hold(matching("watch", resource), namespace, name, when)
        self._lines.holds.append(hold)
        return hold

    @asynccontextmanager
    async def outage(self, fault: Fault | None = None) -> AsyncIterator[Injection]:
        """Break running watches and apply the fault (a reset) to every request while inside."""
        injection = Injection(fault or Refuse(), anything, left=None)
        self._injections.insert(0, injection)
        self._lines.outages += 1
        for stream in self._lines.streams:
            stream.put(Refuse())
        try:
            yield injection
        finally:
            self._lines.outages -= 1
            injection.remove()

    @property
    def watches(self) -> list[Request]:
        """Return the open watches."""
        return [stream.request for stream in self._lines.streams]

    async def wait_for(
        self, when: Predicate, *, answered: bool = True, since: int = 0, within: float = 60.0
    ) -> Exchange:
        """Wait for the first matching request to be answered (or only to arrive), and return it."""

        def found(exchange: Exchange) -> bool:
            return when(exchange.request) and (not answered or exchange.status is not None)

        return await self.trace.wait_for(found, since=since, within=within)

    async def quiet(self, seconds: float, when: Predicate = changes_state, *, within: float = 60.0) -> None:
        """Wait until no write has arrived for this long."""
        await self.trace.quiet(seconds, when, within=within)

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        request = parse(incoming.method, incoming.path, dict(incoming.query), incoming.content_type)
        data = await incoming.read()
        exchange = self.trace.enter(
            request,
            user_agent=incoming.headers.get("User-Agent", ""),
            body=_decode(data, incoming.content_type) if request.verb != "get" and data else None,
        )
        call = Call(incoming, data, exchange, self._lines)
        try:
            injection = next((i for i in self._injections if i.takes(exchange)), None)
            if injection is None:
                return await call.forward()
            exchange.fault = type(injection.fault).__name__
            return await injection.strike(exchange).apply(call)
        except aiohttp.ClientError:
            return (
                call.reset()
            )  # the API server is unreachable: the client gets the same error as without the proxy
        finally:
            self.trace.leave(exchange)


def _decode(data: bytes, content_type: str) -> Any:
    """Decode a JSON or YAML body; return None if it is neither."""
    try:
        return json.loads(data)
    except ValueError:
        return yaml.safe_load(data) if content_type.endswith("+yaml") else data
