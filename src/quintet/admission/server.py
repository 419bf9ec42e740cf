"""The HTTPS server that the API server asks: `/mutate/<plural>.<group>` and `/validate/<plural>.<group>`.

Run by `webhooks` on every replica; what is answered is decided in `review`. Requests are
bounded in size, number and time, because they come from anybody who may create an object.
The kinds' rules run in threads: a slow one must not hold up the leader's lease.
"""

import asyncio
import contextlib
import logging
import os
import ssl
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from cryptography import x509

from quintet.admission import review
from quintet.admission.review import Admission, BadReview
from quintet.admission.sources import Serving
from quintet.clock import Clock
from quintet.observe import metrics
from quintet.web.messages import JSON
from quintet.web.server import Request, Response, Server, ServerLimits

LARGEST_BODY = 4 * 1024 * 1024
# The API server gives up after 5 seconds: an answer has to come before that.
TIME_LIMIT = 4.5
MOST_AT_ONCE = 32
THREADS = 8
# Go keeps idle connections for 90 seconds. Who closes second never cuts off a request in flight.
KEEP_ALIVE = 120.0
GRACE = 5.0
# Of a review that is too large only the beginning is kept: it says who asks.
LIMITS = ServerLimits(
    body_bytes=LARGEST_BODY, excerpt_bytes=4096, body_seconds=TIME_LIMIT, idle_seconds=KEEP_ALIVE
)
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
        limits: ServerLimits = LIMITS,
    ) -> None:
        self._routes: dict[str, tuple[Admission, Judge]] = {
            f"/{verb}/{admission.path}": (admission, judge)
            for admission in admissions
            for verb, judge in (("mutate", review.mutate), ("validate", review.validate))
        }
        self._clock = clock
        self._address = host, port
        self._time_limit = time_limit
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="admission")
        self._tls = _tls_context()
        self._served: Serving | None = None
        self._ends = NEVER
        self._server = Server(self._route, limits, clock)

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
        metrics.webhook_certificate_end.set(self._ends.timestamp())
        log.info("Serving a certificate", extra={"until": self._ends.isoformat()})

    def finding(self) -> str | None:
        """For readiness: what keeps the server from being trusted."""
        if self._served is None:
            return "no certificate yet"
        return "the certificate has run out" if self._ends <= self._clock.now() else None

    async def start(self) -> int:
        """Begin to serve; returns the port, which matters when any free one was asked for."""
        return await self._server.start(*self._address, tls=self._tls)

    def drain(self) -> None:
        """Answer on, and have the API server connect anew: it is led elsewhere by then."""
        self._server.drain()

    async def stop(self) -> None:
        """Answer what has been asked, then serve no more."""
        await self._server.stop(GRACE)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _route(self, request: Request) -> Response | Awaitable[Response]:
        found = self._routes.get(request.path)
        if found is None:
            return Response(404, b"there is no webhook at this path\n")
        if request.method != "POST":
            return Response(405, b"send a review by POST\n", headers={"Allow": "POST"})
        return self._handle(request, *found)

    async def _handle(self, request: Request, admission: Admission, judge: Judge) -> Response:
        started, path = self._clock.monotonic(), request.path
        in_flight = metrics.webhook_in_flight.labels(path)
        in_flight.inc()
        code = 500
        try:
            response = await self._answer(request, admission, judge)
            code = response.status
            return response
        finally:
            in_flight.dec()
            metrics.webhook_requests.labels(path, str(code)).inc()
            metrics.webhook_seconds.labels(path).observe(self._clock.monotonic() - started)

    async def _answer(self, request: Request, admission: Admission, judge: Judge) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return Response(415, b"send application/json\n")
        kind, body = admission.resource.kind, request.body
        if request.truncated:
            text = f"{admission.too_large} A review of this {kind} takes more than {LARGEST_BODY} bytes."
            answer = review.without_verdict(bytearray(body), 413, "RequestEntityTooLarge", text)
            return _response(answer, 413, text)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._time_limit), self._slots:
                answer = await loop.run_in_executor(self._threads, judge, admission, body)
        except BadReview as error:
            return Response(400, f"{error}\n".encode())
        except TimeoutError:
            log.warning("No verdict in time", extra={"resource": admission.resource.qualified})
            text = f"no verdict on this {kind} within {self._time_limit:g} s: try again"
            answer = review.without_verdict(bytearray(body), 504, "Timeout", text)
            return _response(answer, 408, text)
        return _response(answer)


def _response(answer: bytes | None, code: int = 500, text: str = "") -> Response:
    """The answer, or a plain refusal where there is nobody to answer to."""
    return Response(code, f"{text}\n".encode()) if answer is None else Response(200, answer, JSON)


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
