"""The HTTPS server of the webhooks: `/mutate/<plural>.<group>` and `/validate/<plural>.<group>`.

Requests are bounded in size, number and time, because any user who may create objects causes them.
Validation runs in threads, so that a slow one does not delay the renewal of the leader's Lease.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from cryptography import x509

from quintet.admission import review
from quintet.admission.review import Admission, InvalidReviewError
from quintet.admission.sources import ServingCertificate
from quintet.clock import Clock
from quintet.observe import metrics
from quintet.web.messages import JSON
from quintet.web.server import Request, Response, Server, ServerLimits
from quintet.web.server_tls import load_certificate, server_context

LARGEST_BODY = 4 * 1024 * 1024
# Less than the 5 seconds after which the API server gives up.
TIME_LIMIT = 4.5
MOST_AT_ONCE = 32
THREADS = 8
# Go closes idle connections after 90 seconds. Closing later than the client never aborts a request.
KEEP_ALIVE = 120.0
GRACE = 5.0
# Of a review that is too large only the beginning is kept: it says who asks.
LIMITS = ServerLimits(
    body_bytes=LARGEST_BODY, excerpt_bytes=4096, body_seconds=TIME_LIMIT, idle_seconds=KEEP_ALIVE
)
NEVER = datetime.min.replace(tzinfo=UTC)

Handler = Callable[[Admission, bytes], bytes]

log = logging.getLogger(__name__)


class AdmissionServer:
    """Serves the webhooks of some kinds."""

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
        self._routes: dict[str, tuple[Admission, Handler]] = {
            f"/{verb}/{admission.path}": (admission, handler)
            for admission in admissions
            for verb, handler in (("mutate", review.mutate), ("validate", review.validate))
        }
        self._clock = clock
        self._address = host, port
        self._time_limit = time_limit
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="admission")
        self._tls = server_context()
        self._served: ServingCertificate | None = None
        self._ends = NEVER
        self._server = Server(self._route, limits, clock)

    def load(self, serving: ServingCertificate) -> None:
        """Use this certificate for new TLS handshakes; open connections stay."""
        if serving == self._served:
            return
        leaf = x509.load_pem_x509_certificate(serving.certificate)
        load_certificate(self._tls, serving.certificate, serving.key)
        self._served = serving
        self._ends = leaf.not_valid_after_utc
        metrics.webhook_certificate_end.set(self._ends.timestamp())
        log.info("Webhook certificate loaded", extra={"until": self._ends.isoformat()})

    def readiness_problem(self) -> str | None:
        """Return why the server is not ready; None if it is."""
        if self._served is None:
            return "the webhook certificate has not been loaded yet"
        return "the webhook certificate has expired" if self._ends <= self._clock.now() else None

    async def start(self) -> int:
        """Start to listen; return the port, which port 0 leaves to the system."""
        return await self._server.start(*self._address, tls=self._tls)

    def drain(self) -> None:
        """Keep serving, but close connections after each response, so that clients connect to another pod."""
        self._server.drain()

    async def stop(self) -> None:
        """Finish the requests in flight, then stop."""
        await self._server.stop(GRACE)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _route(self, request: Request) -> Response | Awaitable[Response]:
        found = self._routes.get(request.path)
        if found is None:
            return Response(404, b"no webhook at this path\n")
        if request.method != "POST":
            return Response(405, b"use POST to send an AdmissionReview\n", headers={"Allow": "POST"})
        return self._handle(request, *found)

    async def _handle(self, request: Request, admission: Admission, handler: Handler) -> Response:
        started, path = self._clock.monotonic(), request.path
        in_flight = metrics.webhook_in_flight.labels(path)
        in_flight.inc()
        code = 500
        try:
            response = await self._respond(request, admission, handler)
            code = response.status
            return response
        finally:
            in_flight.dec()
            metrics.webhook_requests.labels(path, str(code)).inc()
            metrics.webhook_seconds.labels(path).observe(self._clock.monotonic() - started)

    async def _respond(self, request: Request, admission: Admission, handler: Handler) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return Response(415, b"send application/json\n")
        kind, body = admission.resource.kind, request.body
        if request.truncated:
            text = f"{admission.too_large} The AdmissionReview of this {kind} exceeds {LARGEST_BODY} bytes."
            answer = review.reject_unread(bytearray(body), 413, "RequestEntityTooLarge", text)
            return _response(answer, 413, text)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._time_limit), self._slots:
                answer = await loop.run_in_executor(self._threads, handler, admission, body)
        except InvalidReviewError as error:
            return Response(400, f"{error}\n".encode())
        except TimeoutError:
            log.warning("Validation timed out", extra={"resource": admission.resource.qualified})
            text = f"validation of this {kind} took longer than {self._time_limit:g} s: try again"
            answer = review.reject_unread(bytearray(body), 504, "Timeout", text)
            return _response(answer, 408, text)
        return _response(answer)


def _response(answer: bytes | None, code: int = 500, text: str = "") -> Response:
    """Return the AdmissionReview, or an HTTP error if there is none."""
    return Response(code, f"{text}\n".encode()) if answer is None else Response(200, answer, JSON)
