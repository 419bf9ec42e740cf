"""The request handler of the publisher proxy.

An event needs neither a task nor a future: the backend calls back when it has stored the event. The number of
events in flight is limited; beyond the limit, publishers get 503 with Retry-After.
"""

import functools
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from quintet.clock import Clock
from quintet.eventing.decide.cloudevents import CloudEvent, NotACloudEventError, parse_events
from quintet.eventing.decide.headers import B3_MULTI, TRACING
from quintet.eventing.publisher.decide.responses import (
    NO_METHOD,
    NO_PATH,
    PUBLISH,
    STORED,
    BusyError,
    PublishResult,
    result_for_batch,
    result_for_error,
)
from quintet.eventing.publisher.decide.subjects import NoSubjectError
from quintet.eventing.publisher.metrics import PublisherMetrics
from quintet.eventing.publisher.pending_acks import Done
from quintet.web.messages import TEXT, DeferredResponse, Request, Response
from quintet.web.server import ServerLimits

logger = logging.getLogger(__name__)

LIMITS: Final = ServerLimits(body_bytes=64 << 10, connections=1000, pipelined=1)
MAX_IN_FLIGHT: Final = 8192
"""Events that wait for the backend at the same time."""
_OK: Final = PublishResult(200, "ok")
_HEALTH_PATHS: Final = ("/healthz", "/readyz")
_INTERNAL: Final = 500


class PublisherBackend(Protocol):
    """Stores or forwards published events."""

    def check(self, event: CloudEvent) -> None:
        """Raise `NoSubjectError` if the backend cannot store the event."""
        ...

    def send(self, event: CloudEvent, tracing: Mapping[str, str], done: Done) -> None:
        """Send an event and call back once; may raise instead."""
        ...

    def problem(self) -> str | None:
        """Return why events cannot be sent; None if they can."""
        ...


class PublisherProxy:
    """Handles publish requests for one backend."""

    def __init__(
        self,
        backend: PublisherBackend,
        metrics: PublisherMetrics,
        clock: Clock,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self._backend = backend
        self._metrics = metrics
        self._clock = clock
        self._max_in_flight = max_in_flight
        self._stored = Response(STORED.status)
        self.shutting_down = False

    def start_shutdown(self) -> None:
        """Report not ready, and close each connection after its next response."""
        self.shutting_down = True
        self._stored = Response(STORED.status, headers={"Connection": "close"})

    def handle(self, request: Request) -> Response | DeferredResponse:
        """PublishResult a request, now or later."""
        if request.path == PUBLISH and request.method == "POST":
            return self._publish(request, self._clock.monotonic())
        result = self._handle_other(request)
        path = request.path if request.path in (PUBLISH, *_HEALTH_PATHS) else "other"
        self._metrics.count_request(result.status, request.method, path, 0.0)
        return self._response(result)

    def problem(self) -> str | None:
        """Return why events cannot be published; None if they can."""
        return "shutting down" if self.shutting_down else self._backend.problem()

    def _handle_other(self, request: Request) -> PublishResult:
        if request.path == PUBLISH:
            return NO_METHOD
        if request.path not in _HEALTH_PATHS:
            return NO_PATH
        if request.method not in ("GET", "HEAD"):
            return PublishResult(405, "only GET is allowed")
        if request.path == "/readyz" and (problem := self.problem()):
            return PublishResult(500, problem)
        return _OK

    def _publish(self, request: Request, started: float) -> Response | DeferredResponse:
        try:
            events = parse_events(request.headers, request.body)
        except NotACloudEventError as error:
            return self._count_response(result_for_error(error), self._clock.monotonic() - started)
        count = 1 if isinstance(events, CloudEvent) else len(events)
        if self._metrics.in_flight + count > self._max_in_flight:
            busy = BusyError(f"more than {self._max_in_flight} events are in flight")
            return self._count_response(result_for_error(busy), self._clock.monotonic() - started)
        tracing = _tracing_headers(request.headers)
        if isinstance(events, CloudEvent):
            return self._publish_event(events, tracing, started)
        return self._publish_batch(events, tracing, started)

    def _publish_event(
        self, event: CloudEvent, tracing: Mapping[str, str], started: float
    ) -> DeferredResponse:
        response = DeferredResponse()
        event_type, source = event.type, event.source  # so that the data is not kept in memory

        def done(error: Exception | None) -> None:
            now = self._clock.monotonic()
            if error is None:
                self._count_event(STORED.status, event_type, source, now - started)
                self._metrics.count_request(STORED.status, "POST", PUBLISH, now - started)
                response.set(self._stored)
            else:
                result = self._count_failure(error, event_type, source, now - started)
                response.set(self._count_response(result, now - started))

        self._send(event, tracing, done)
        return response

    def _publish_batch(
        self, events: list[CloudEvent], tracing: Mapping[str, str], started: float
    ) -> Response | DeferredResponse:
        errors: list[Exception | None] = [self._subject_error(event) for event in events]
        if not events or any(errors):
            # Nothing is stored of a batch that the publisher has to fix.
            return self._count_response(result_for_batch(errors), self._clock.monotonic() - started)
        response = DeferredResponse()
        names = [(event.type, event.source) for event in events]
        left = len(events)

        def done(number: int, error: Exception | None) -> None:
            nonlocal left
            seconds = self._clock.monotonic() - started
            if error is None:
                self._count_event(STORED.status, *names[number], seconds)
            else:
                self._count_failure(error, *names[number], seconds)
            errors[number] = error
            left -= 1
            if left == 0:
                response.set(self._count_response(result_for_batch(errors), seconds))

        for number, event in enumerate(events):
            self._send(event, tracing, functools.partial(done, number))
        return response

    def _subject_error(self, event: CloudEvent) -> NoSubjectError | None:
        try:
            self._backend.check(event)
        except NoSubjectError as error:
            return error
        return None

    def _send(self, event: CloudEvent, tracing: Mapping[str, str], done: Done) -> None:
        self._metrics.in_flight += 1
        try:
            self._backend.send(event, tracing, done)
        except Exception as error:
            done(error)

    def _count_event(self, status: int, event_type: str, source: str, seconds: float) -> None:
        """Count an event that is no longer in flight."""
        self._metrics.in_flight -= 1
        self._metrics.count_event(status, event_type, source, seconds)

    def _count_failure(self, error: Exception, event_type: str, source: str, seconds: float) -> PublishResult:
        result = result_for_error(error)
        if result.status == _INTERNAL:
            logger.error("cannot handle an event of type %s", event_type, exc_info=error)
        self._count_event(result.status, event_type, source, seconds)
        return result

    def _count_response(self, result: PublishResult, seconds: float) -> Response:
        self._metrics.count_request(result.status, "POST", PUBLISH, seconds)
        return self._response(result)

    def _response(self, result: PublishResult) -> Response:
        headers = {"Connection": "close"} if self.shutting_down else {}
        if result.retry_after:
            headers["Retry-After"] = str(result.retry_after)
        if result.status == NO_METHOD.status:
            headers["Allow"] = "POST" if result is NO_METHOD else "GET, HEAD"
        return Response(result.status, result.reason.encode(), TEXT, headers)


def _tracing_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the tracing headers of a request."""
    found = {name: headers[name] for name in TRACING if name in headers}
    if "x-b3-traceid" in headers:
        found.update((name, headers[name]) for name in B3_MULTI if name in headers)
    return found
