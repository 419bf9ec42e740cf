"""Requests in, answers out: which request is for whom, and what came of each event.

The handler of the web server; called once per request. An event costs neither task nor future: the
backend calls back when it has the event. How much may be under way is bounded; beyond that
publishers are told to come back, instead of waiting in memory.
"""

import functools
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from quintet.clock import Clock
from quintet.eventing.decide.cloudevents import Event, NotACloudEventError, read
from quintet.eventing.publisher.acks import Done
from quintet.eventing.publisher.decide.answers import (
    NO_METHOD,
    NO_PATH,
    PUBLISH,
    STORED,
    Answer,
    BusyError,
    of_batch,
    refusal,
)
from quintet.eventing.publisher.decide.subjects import NoSubjectError
from quintet.eventing.publisher.metrics import Metrics
from quintet.web.messages import TEXT, DeferredResponse, Request, Response
from quintet.web.server import ServerLimits

logger = logging.getLogger(__name__)

LIMITS: Final = ServerLimits(body_bytes=64 << 10, connections=1000, pipelined=1)
MOST_IN_FLIGHT: Final = 8192
"""Events that may wait for the backend at a time."""
TRACING: Final = ("traceparent", "tracestate", "baggage", "b3")
TRACING_OF_OLD: Final = tuple(
    f"x-b3-{part}" for part in ("traceid", "spanid", "parentspanid", "sampled", "flags")
)
_OK: Final = Answer(200, "ok")
_CHECKS: Final = ("/healthz", "/readyz")
_INTERNAL: Final = 500


class Backend(Protocol):
    """Where events go."""

    def check(self, event: Event) -> None:
        """Raise if the backend has no place for an event like this one."""
        ...

    def send(self, event: Event, tracing: Mapping[str, str], done: Done) -> None:
        """Hand an event over and call back once; may raise instead."""
        ...

    def finding(self) -> str | None:
        """Why nothing can be handed over now; None if it can."""
        ...


class Proxy:
    """Takes events in for one backend."""

    def __init__(
        self, backend: Backend, metrics: Metrics, clock: Clock, most_in_flight: int = MOST_IN_FLIGHT
    ) -> None:
        self._backend = backend
        self._metrics = metrics
        self._clock = clock
        self._most = most_in_flight
        self._stored = Response(STORED.status)
        self.leaving = False

    def leave(self) -> None:
        """Be ready no more, and let clients go elsewhere for their next request."""
        self.leaving = True
        self._stored = Response(STORED.status, headers={"Connection": "close"})

    def handle(self, request: Request) -> Response | DeferredResponse:
        """Answer a request, now or later."""
        if request.path == PUBLISH and request.method == "POST":
            return self._publish(request, self._clock.monotonic())
        answer = self._other(request)
        path = request.path if request.path in (PUBLISH, *_CHECKS) else "other"
        self._metrics.answered(answer.status, request.method, path, 0.0)
        return self._response(answer)

    def finding(self) -> str | None:
        """Why no events can be taken in; None if they can."""
        return "it is about to stop" if self.leaving else self._backend.finding()

    def _other(self, request: Request) -> Answer:
        if request.path == PUBLISH:
            return NO_METHOD
        if request.path not in _CHECKS:
            return NO_PATH
        if request.method not in ("GET", "HEAD"):
            return Answer(405, "this is read by GET")
        if request.path == "/readyz" and (problem := self.finding()):
            return Answer(500, problem)
        return _OK

    def _publish(self, request: Request, started: float) -> Response | DeferredResponse:
        try:
            found = read(request.headers, request.body)
        except NotACloudEventError as error:
            return self._told(refusal(error), self._clock.monotonic() - started)
        count = 1 if isinstance(found, Event) else len(found)
        if self._metrics.in_flight + count > self._most:
            busy = BusyError(f"more than {self._most} events are under way")
            return self._told(refusal(busy), self._clock.monotonic() - started)
        tracing = _tracing(request.headers)
        if isinstance(found, Event):
            return self._one(found, tracing, started)
        return self._batch(found, tracing, started)

    def _one(self, event: Event, tracing: Mapping[str, str], started: float) -> DeferredResponse:
        answer = DeferredResponse()
        event_type, source = event.type, event.source  # the data need not wait for the answer

        def done(error: Exception | None) -> None:
            now = self._clock.monotonic()
            if error is None:
                self._count(STORED.status, event_type, source, now - started)
                self._metrics.answered(STORED.status, "POST", PUBLISH, now - started)
                answer.set(self._stored)
            else:
                told = self._failed(error, event_type, source, now - started)
                answer.set(self._told(told, now - started))

        self._send(event, tracing, done)
        return answer

    def _batch(
        self, events: list[Event], tracing: Mapping[str, str], started: float
    ) -> Response | DeferredResponse:
        errors: list[Exception | None] = [self._misfit(event) for event in events]
        if not events or any(errors):
            # Of a batch that its publisher has to mend nothing is stored.
            return self._told(of_batch(errors), self._clock.monotonic() - started)
        answer = DeferredResponse()
        names = [(event.type, event.source) for event in events]
        left = len(events)

        def settled(number: int, error: Exception | None) -> None:
            nonlocal left
            seconds = self._clock.monotonic() - started
            if error is None:
                self._count(STORED.status, *names[number], seconds)
            else:
                self._failed(error, *names[number], seconds)
            errors[number] = error
            left -= 1
            if left == 0:
                answer.set(self._told(of_batch(errors), seconds))

        for number, event in enumerate(events):
            self._send(event, tracing, functools.partial(settled, number))
        return answer

    def _misfit(self, event: Event) -> NoSubjectError | None:
        try:
            self._backend.check(event)
        except NoSubjectError as error:
            return error
        return None

    def _send(self, event: Event, tracing: Mapping[str, str], done: Done) -> None:
        self._metrics.in_flight += 1
        try:
            self._backend.send(event, tracing, done)
        except Exception as error:
            done(error)

    def _count(self, status: int, event_type: str, source: str, seconds: float) -> None:
        """An event is no longer under way."""
        self._metrics.in_flight -= 1
        self._metrics.sent(status, event_type, source, seconds)

    def _failed(self, error: Exception, event_type: str, source: str, seconds: float) -> Answer:
        answer = refusal(error)
        if answer.status == _INTERNAL:
            logger.error("an event of type %s could not be handled", event_type, exc_info=error)
        self._count(answer.status, event_type, source, seconds)
        return answer

    def _told(self, answer: Answer, seconds: float) -> Response:
        self._metrics.answered(answer.status, "POST", PUBLISH, seconds)
        return self._response(answer)

    def _response(self, answer: Answer) -> Response:
        headers = {"Connection": "close"} if self.leaving else {}
        if answer.retry_after:
            headers["Retry-After"] = str(answer.retry_after)
        if answer.status == NO_METHOD.status:
            headers["Allow"] = "POST" if answer is NO_METHOD else "GET, HEAD"
        return Response(answer.status, answer.reason.encode(), TEXT, headers)


def _tracing(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers by which a trace goes on behind the stream."""
    found = {name: headers[name] for name in TRACING if name in headers}
    if "x-b3-traceid" in headers:
        found.update((name, headers[name]) for name in TRACING_OF_OLD if name in headers)
    return found
