"""The HTTPS server that the API server asks: `/mutate/<plural>.<group>` and `/validate/<plural>.<group>`.

Run by `webhooks` on every replica; what is answered is decided in `review`. Requests are
bounded in size, number and time, because they come from anybody who may create an object.
The kinds' rules run in threads: a slow one must not hold up the leader's lease.
"""

import asyncio
import contextlib
import functools
import logging
import os
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from aiohttp import web
from cryptography import x509

from quintet.admission import review
from quintet.admission.review import Admission, BadReview
from quintet.admission.sources import Serving
from quintet.observe import metrics
from quintet.runtime.clock import Clock

LARGEST_BODY = 4 * 1024 * 1024
# The API server gives up after 5 seconds: an answer has to come before that.
TIME_LIMIT = 4.5
MOST_AT_ONCE = 32
THREADS = 8
# Go keeps idle connections for 90 seconds. Who closes second never cuts off a request in flight.
KEEP_ALIVE = 120.0
GRACE = 5.0
NEVER = datetime.min.replace(tzinfo=UTC)

Judge = Callable[[Admission, bytes], bytes]

log = logging.getLogger(__name__)


class AdmissionServer:
    """Answers the reviews of some kinds."""

    def __init__(
        self,
        admissions: Iterable[Admission],
        clock: Clock,
        *,
        host: str = "0.0.0.0",
        port: int = 9443,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        self._admissions = tuple(admissions)
        self._clock = clock
        self._address = host, port
        self._time_limit = time_limit
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="admission")
        self._tls = _tls_context()
        self._served: Serving | None = None
        self._ends = NEVER
        self._runner: web.AppRunner | None = None

    def load(self, serving: Serving) -> None:
        """Show this certificate in new handshakes; connections that are open stay as they are."""
        if serving == self._served:
            return
        leaf = x509.load_pem_x509_certificate(serving.certificate)
        with _as_file(serving.certificate + b"\n" + serving.key) as path:
            # Tried elsewhere first: half a pair would leave the live one without a working key.
            _tls_context().load_cert_chain(path)
            self._tls.load_cert_chain(path)
        self._served = serving
        self._ends = leaf.not_valid_after_utc
        log.info("Serving a certificate", extra={"until": self._ends.isoformat()})

    def finding(self) -> str | None:
        """For readiness: what keeps the server from being trusted."""
        if self._served is None:
            return "no certificate yet"
        return "the certificate has run out" if self._ends <= self._clock.now() else None

    async def start(self) -> int:
        """Begin to serve; returns the port, which matters when any free one was asked for."""
        app = web.Application()
        for admission in self._admissions:
            for verb, judge in (("mutate", review.mutate), ("validate", review.validate)):
                path = f"/{verb}/{admission.path}"
                app.router.add_post(path, functools.partial(self._handle, path, admission, judge))
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, keepalive_timeout=KEEP_ALIVE, shutdown_timeout=GRACE
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, *self._address, ssl_context=self._tls).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Answer what has been asked, then serve no more."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _handle(
        self, path: str, admission: Admission, judge: Judge, request: web.Request
    ) -> web.Response:
        started = self._clock.monotonic()
        in_flight = metrics.webhook_in_flight.labels(path)
        in_flight.inc()
        code = 500
        try:
            response = await self._answer(admission, judge, request)
            code = response.status
            return response
        except web.HTTPException as refusal:
            code = refusal.status
            raise
        finally:
            in_flight.dec()
            metrics.webhook_requests.labels(path, str(code)).inc()
            metrics.webhook_seconds.labels(path).observe(self._clock.monotonic() - started)

    async def _answer(self, admission: Admission, judge: Judge, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return web.Response(status=415, text="send application/json\n")
        kind, body = admission.resource.kind, bytearray()
        loop = asyncio.get_running_loop()
        answer: bytes | None
        try:
            async with asyncio.timeout(self._time_limit), self._slots:
                await _read(request, body)
                answer = await loop.run_in_executor(self._threads, judge, admission, bytes(body))
        except BadReview as error:
            return web.Response(status=400, text=f"{error}\n")
        except TooLarge:
            text = f"{admission.too_large} A review of this {kind} takes more than {LARGEST_BODY} bytes."
            answer = review.without_verdict(body, 413, "RequestEntityTooLarge", text)
            return _response(answer, 413, text)
        except TimeoutError:
            log.warning("No verdict in time", extra={"resource": admission.resource.qualified})
            text = f"no verdict on this {kind} within {self._time_limit:g} s: try again"
            answer = review.without_verdict(body, 504, "Timeout", text)
            return _response(answer, 408, text)
        return _response(answer)


class TooLarge(Exception):
    """The request is larger than we read."""


async def _read(request: web.Request, body: bytearray) -> None:
    """Read the body into `body`, which keeps its beginning if something goes wrong."""
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > LARGEST_BODY:
            del body[4096:]
            raise TooLarge


def _response(answer: bytes | None, code: int = 500, text: str = "") -> web.Response:
    """The answer, or a plain refusal where there is nobody to answer to."""
    if answer is None:
        return web.Response(status=code, text=f"{text}\n")
    return web.Response(body=answer, content_type="application/json")


def _tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path for OpenSSL to read from, without a key on a disk: a pod's may be read-only."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
