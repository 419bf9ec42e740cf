"""The webhooks of a process: its server, certificate and registration, refreshed every few seconds.

Each refresh first registers the CA bundle of a new certificate and only then serves the certificate.
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
    """The webhook server of one replica, with its certificate and registration."""

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
        """Seconds to keep serving at shutdown, until the Service no longer routes to this pod."""
        self._remove = remove
        """Whether to delete the webhook configurations at shutdown."""
        self._problem: str | None = None
        self._registered = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Serve inside the context; yields the port. The server listens before it registers webhooks."""
        port = await self._server.start()
        refreshing: asyncio.Task[None] | None = None
        try:
            await self.refresh()
            refreshing = asyncio.create_task(self._refresh_forever(), name="webhooks")
            yield port
            if self._drain:
                self._server.drain()
                await self._clock.sleep(self._drain)
        finally:
            if refreshing is not None:
                refreshing.cancel()
                await asyncio.gather(refreshing, return_exceptions=True)
            await self._shut_down()

    def readiness_problem(self) -> str | None:
        """Return why the webhooks are not ready; None if they are."""
        missing = self._server.readiness_problem()
        return f"{missing}: {self._problem}" if missing and self._problem else missing

    async def refresh(self) -> None:
        """Load and register the current certificate. Errors are logged; the last certificate stays in use."""
        try:
            serving = await self._source.current(self._clock.now())
            if self._server.readiness_problem() is not None:
                self._server.load(serving)  # any certificate is better than none
            registered = self._registration is None or await self._registration.ensure(serving.bundle)
            # The API server trusts it now.
            self._server.load(serving)
            self._problem, self._registered = None, registered
        except Exception as error:  # no error may end the refresh loop
            if self._problem != str(error):
                log.warning("Webhooks could not be refreshed", extra={"error": str(error)})
            self._problem = str(error)

    async def _refresh_forever(self) -> None:
        while True:
            # A new leader registers soon, not only after a whole interval.
            await self._clock.sleep(self._interval if self._registered else min(RETRY, self._interval))
            await self.refresh()

    async def _shut_down(self) -> None:
        if self._registration is not None and self._remove:
            try:
                await self._registration.remove()
            except KubeError as error:
                log.warning("Webhook configurations could not be deleted", extra={"error": str(error)})
        await self._server.stop()
