"""The life of the webhooks in a process: certificate, server, registration, and the end of them.

`cli` makes one and runs it around the manager, on every replica. Each round of `_keep` asks
for the present certificate, sees to it that the API server trusts it, and only then shows it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from quintet.admission.registration import Registration
from quintet.admission.server import AdmissionServer
from quintet.admission.sources import CertificateSource
from quintet.clock import Clock
from quintet.kube.errors import KubeError

INTERVAL = 10.0
RETRY = 1.0

log = logging.getLogger(__name__)


class Webhooks:
    """One replica's webhook server and everything that keeps it trusted."""

    def __init__(
        self,
        server: AdmissionServer,
        source: CertificateSource,
        clock: Clock,
        registration: Registration | None = None,
        *,
        interval: float = INTERVAL,
        drain: float = 0.0,
        remove: bool = False,
    ) -> None:
        self._server = server
        self._source = source
        self._clock = clock
        self._registration = registration
        self._interval = interval
        self._drain = drain
        """Seconds to serve on at the end, until the endpoints of a Service no longer lead here."""
        self._remove = remove
        """Whether the configurations end with this process."""
        self._problem: str | None = None
        self._settled = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Serve while inside; gives the port. The server listens before anybody is sent to it."""
        port = await self._server.start()
        keeping: asyncio.Task[None] | None = None
        try:
            await self.refresh()
            keeping = asyncio.create_task(self._keep(), name="webhooks")
            yield port
            if self._drain:
                self._server.drain()
                await self._clock.sleep(self._drain)
        finally:
            if keeping is not None:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
            await self._end()

    def finding(self) -> str | None:
        """For readiness: what keeps admissions from working, if anything does."""
        missing = self._server.finding()
        return f"{missing}: {self._problem}" if missing and self._problem else missing

    async def refresh(self) -> None:
        """One round. What goes wrong is logged and tried again; the last certificate stays in use."""
        try:
            serving = await self._source.current(self._clock.now())
            if self._server.finding() is not None:
                self._server.load(serving)  # there is nothing to lose
            settled = self._registration is None or await self._registration.ensure(serving.bundle)
            # Trusted by now, so it may be shown.
            self._server.load(serving)
            self._problem, self._settled = None, settled
        except Exception as error:  # whatever it is, this round must not be the last
            if self._problem != str(error):
                log.warning("Webhooks not brought up to date", extra={"error": str(error)})
            self._problem = str(error)

    async def _keep(self) -> None:
        while True:
            # Who has just become the leader registers at once, and not only with the next round.
            await self._clock.sleep(self._interval if self._settled else min(RETRY, self._interval))
            await self.refresh()

    async def _end(self) -> None:
        if self._registration is not None and self._remove:
            try:
                await self._registration.remove()
            except KubeError as error:
                log.warning("Webhook configurations left behind", extra={"error": str(error)})
        await self._server.stop()
