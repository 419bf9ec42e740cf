"""Serves the metrics of a process, by default with TLS and for clients that RBAC allows to read them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quintet.observe.metrics_server import MetricsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from quintet.admission.sources import CertificateSource
    from quintet.clock import Clock
    from quintet.kube.client import Client

SECURE, PLAIN = "secure", "plain"
_REVIEW_SECONDS = 5.0
_REFRESH_SECONDS = 60.0
_RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    """Where and to whom a process serves its metrics."""

    address: tuple[str, int] | None = None
    """None: at the address of the health checks, plain."""
    mode: str = SECURE
    certificates: Path | None = None
    """The folder with `tls.crt` and `tls.key`; None for a self-signed certificate in memory."""


@contextlib.asynccontextmanager
async def serving_metrics(options: MetricsOptions, client: Client, clock: Clock) -> AsyncIterator[int | None]:
    """Serve inside the context; yields the port, or None if metrics have no address of their own."""
    if options.address is None:
        yield None
    elif options.mode == PLAIN:
        server = MetricsServer(*options.address, clock)
        try:
            yield await server.start()
        finally:
            await server.stop()
    else:
        async with _serving_securely(options, options.address, client, clock) as port:
            yield port


@contextlib.asynccontextmanager
async def _serving_securely(
    options: MetricsOptions, address: tuple[str, int], client: Client, clock: Clock
) -> AsyncIterator[int]:
    # These need 10 MB more memory for certificates.
    from quintet.admission.sources import CertificateFiles, MemoryStore, SelfSignedCertificates
    from quintet.kube.access import AccessReviewer
    from quintet.processes.startup import host_name
    from quintet.web.server_tls import load_certificate, server_context

    source: CertificateSource = (
        CertificateFiles(options.certificates)
        if options.certificates
        else SelfSignedCertificates(MemoryStore(), (host_name(),))
    )
    context = server_context()

    async def refresh() -> bool:
        try:
            current = await source.current(clock.now())
            load_certificate(context, current.certificate, current.key)
        except Exception as error:  # the last certificate stays in use; without one, no client connects
            log.warning("Metrics certificate could not be loaded", extra={"error": str(error)})
            return False
        return True

    async def refresh_forever(loaded: bool) -> None:
        while True:
            await clock.sleep(_REFRESH_SECONDS if loaded else _RETRY_SECONDS)
            loaded = await refresh()

    loaded = await refresh()
    reviews = client.separate(timeout=_REVIEW_SECONDS)
    server = MetricsServer(*address, clock, AccessReviewer(reviews, clock).review)
    refreshing = asyncio.create_task(refresh_forever(loaded), name="metrics certificate")
    try:
        yield await server.start(tls=context)
    finally:
        refreshing.cancel()
        await asyncio.gather(refreshing, return_exceptions=True)
        await server.stop()
        await reviews.close()
