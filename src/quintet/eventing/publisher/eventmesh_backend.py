"""The backend `beb`: publishes events to an EventMesh over HTTP with an OAuth2 token.

EventMesh has one source, its namespace, and types that include their source. The published values are passed
on in the attributes `originaltype` and `originalsource`.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from quintet.apis.subscription import clean_type
from quintet.apis.text import parse_number
from quintet.clock import Clock
from quintet.eventing import oauth
from quintet.eventing.decide.cloudevents import CloudEvent
from quintet.eventing.decide.eventmesh import MESSAGING, NAMESPACE, from_secret
from quintet.eventing.decide.headers import ORIGINAL_SOURCE, ORIGINAL_TYPE, SOURCE, TYPE, encode_value
from quintet.eventing.publisher.decide.responses import BackendError, PublishResult
from quintet.eventing.publisher.decide.subjects import SubjectMapper
from quintet.eventing.publisher.pending_acks import Done
from quintet.eventing.settings import BebSettings
from quintet.eventing.tokens import Token, TokenCache, TokenError
from quintet.web.http_client import HttpClient, HttpError, HttpTimeout
from quintet.web.pool import HttpResponse

logger = logging.getLogger(__name__)

UNAUTHORIZED: Final = 401
# Errors that the publisher can fix; any other error is between the proxy and EventMesh.
_FORWARDED_STATUSES: Final = frozenset((400, 413, 415, 422, 429, 507))
# Much shorter than the margin before a token expires, so that a failed renewal is retried in time.
_RENEW_CHECK_SECONDS: Final = 1.0


class EventMeshBackend:
    """Publishes events to one EventMesh."""

    def __init__(self, settings: BebSettings, event_type_prefix: str, seconds: float, clock: Clock) -> None:
        directory = Path(settings.credentials)
        self._mesh = from_secret(
            {key: path.read_bytes() for key in (MESSAGING, NAMESPACE) if (path := directory / key).is_file()}
        )
        self._qos = settings.qos
        self._clock = clock
        self._prefix = event_type_prefix
        self._subjects = SubjectMapper(event_type_prefix, event_type_prefix)
        self._event_client = HttpClient(self._mesh.publish_url, clock, seconds)
        self._token_client = HttpClient(self._mesh.token_url, clock, seconds)
        self._tokens = TokenCache(self._fetch_token, clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._problem: str | None = "no token was fetched yet"
        self.destination = self._event_client.host

    def check(self, event: CloudEvent) -> None:
        """Raise `NoSubjectError` if the event has no valid type for EventMesh."""
        self._subjects.find(event.source, event.type)

    def send(self, event: CloudEvent, tracing: Mapping[str, str], done: Done) -> None:
        """Publish an event and call back when EventMesh has accepted it."""
        headers = self._headers(event)
        headers.update(tracing)
        task = asyncio.create_task(self._publish(headers, event.data, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def problem(self) -> str | None:
        """Return why events cannot be published; None if they can."""
        return None if self._tokens.is_valid else self._problem

    async def run(self) -> None:
        """Keep the token valid until cancelled."""
        try:
            while True:
                try:
                    await self._tokens.current()
                except TokenError as error:
                    logger.warning("cannot publish events: %s", error)
                await self._clock.sleep(_RENEW_CHECK_SECONDS)
        finally:
            await self._tokens.close()
            self._event_client.close()
            self._token_client.close()

    async def wait_idle(self, timeout: float) -> None:
        """Wait until no event is in flight, at most until the timeout."""
        deadline = self._clock.monotonic() + timeout
        while self._tasks and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.02)

    def _headers(self, event: CloudEvent) -> dict[str, str]:
        destination = self._subjects.find(event.source, event.type)
        headers = event.headers
        headers[ORIGINAL_TYPE], headers[ORIGINAL_SOURCE] = headers[TYPE], headers[SOURCE]
        # A type with the prefix includes its source; otherwise the subject is prefix, source and type.
        has_prefix = event.type.startswith(f"{self._prefix}.")
        headers[TYPE] = encode_value(clean_type(event.type) if has_prefix else destination.subject)
        headers[SOURCE] = encode_value(self._mesh.namespace)
        headers["qos"] = self._qos
        return headers

    async def _publish(self, headers: dict[str, str], data: bytes, done: Done) -> None:
        try:
            done(_response_error(await self._post(headers, data), self.destination))
        except TokenError as error:
            done(BackendError(PublishResult(502, str(error), retry_after=1)))
        except HttpTimeout as error:
            done(BackendError(PublishResult(504, str(error), retry_after=1)))
        except HttpError as error:
            done(BackendError(PublishResult(502, str(error), retry_after=1)))
        except Exception as error:
            logger.exception("publishing an event failed")
            done(error)

    async def _post(self, headers: dict[str, str], data: bytes) -> HttpResponse:
        response = None
        for _ in range(2):
            token = await self._tokens.current()
            response = await self._event_client.post({**headers, "authorization": f"Bearer {token}"}, data)
            if response.status != UNAUTHORIZED:
                return response
            # A token can be revoked before it expires: retry once with a new one.
            self._tokens.invalidate(token)
        assert response is not None
        return response

    async def _fetch_token(self) -> Token:
        try:
            token = await oauth.fetch_token(self._mesh, self._token_client)
        except TokenError as error:
            self._problem = str(error)
            raise
        self._problem = None
        return token


def _response_error(response: HttpResponse, host: str) -> BackendError | None:
    if 200 <= response.status < 300:
        return None
    if response.status in _FORWARDED_STATUSES:
        reason = response.body[:1024].decode("utf-8", "replace") or f"{host} responded with {response.status}"
        after = parse_number(response.retry_after or "") or 0
        return BackendError(PublishResult(response.status, reason, after))
    if response.status == UNAUTHORIZED:
        return BackendError(PublishResult(502, f"{host} rejected the access token"))
    return BackendError(PublishResult(502, f"{host} responded with {response.status}", retry_after=1))
