"""The backend beb: events go to an EventMesh over HTTP, with a token of OAuth2.

Used by `proxy`. EventMesh knows one source, its own namespace, and types that say where they come
from; what the publisher wrote travels in `originaltype` and `originalsource`.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from quintet.apis.subscription import clean_type
from quintet.clock import Clock
from quintet.eventing import oauth
from quintet.eventing.decide.cloudevents import Event
from quintet.eventing.decide.eventmesh import MESSAGING, NAMESPACE, from_secret
from quintet.eventing.decide.headers import encoded
from quintet.eventing.publisher.acks import Done
from quintet.eventing.publisher.decide.answers import Answer, BackendError
from quintet.eventing.publisher.decide.subjects import Subjects
from quintet.eventing.settings import BebSettings
from quintet.eventing.tokens import Token, TokenError, Tokens
from quintet.web.http_client import HttpClient, HttpError, HttpTimeout
from quintet.web.pool import HttpResponse

logger = logging.getLogger(__name__)

UNAUTHORIZED: Final = 401
# What is the publisher's own to mend; any other refusal is between us and EventMesh.
_PASSED_ON: Final = frozenset((400, 413, 415, 422, 429, 507))
# Much shorter than the time in which a token is renewed, so that a failed renewal is tried again in it.
_LOOK_SECONDS: Final = 1.0


class MeshBackend:
    """Publishes to one EventMesh."""

    def __init__(self, settings: BebSettings, event_type_prefix: str, seconds: float, clock: Clock) -> None:
        folder = Path(settings.credentials)
        self._mesh = from_secret(
            {key: path.read_bytes() for key in (MESSAGING, NAMESPACE) if (path := folder / key).is_file()}
        )
        self._qos = settings.qos
        self._clock = clock
        self._prefix = event_type_prefix
        self._subjects = Subjects(event_type_prefix, event_type_prefix)
        self._events = HttpClient(self._mesh.publish_url, clock, seconds)
        self._logins = HttpClient(self._mesh.token_url, clock, seconds)
        self._tokens = Tokens(self._fetched, clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._problem: str | None = "no token was fetched yet"
        self.destination = self._events.host

    def check(self, event: Event) -> None:
        """Raise `NoSubjectError` if no type for EventMesh can be made of it."""
        self._subjects.of(event.source, event.type)

    def send(self, event: Event, tracing: Mapping[str, str], done: Done) -> None:
        """Hand an event over and call back."""
        headers = self._headers(event)
        headers.update(tracing)
        task = asyncio.create_task(self._sent(headers, event.data, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def finding(self) -> str | None:
        """Why no event can be handed over now; None if it can."""
        return None if self._tokens.held else self._problem

    async def run(self) -> None:
        """See that there is a token, until cancelled."""
        try:
            while True:
                try:
                    await self._tokens.current()
                except TokenError as error:
                    logger.warning("events cannot be handed over: %s", error)
                await self._clock.sleep(_LOOK_SECONDS)
        finally:
            await self._tokens.close()
            self._events.close()
            self._logins.close()

    async def settle(self, seconds: float) -> None:
        """Wait until nothing is under way, but not for ever."""
        deadline = self._clock.monotonic() + seconds
        while self._tasks and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.02)

    def _headers(self, event: Event) -> dict[str, str]:
        place = self._subjects.of(event.source, event.type)
        headers = event.headers
        headers["ce-originaltype"], headers["ce-originalsource"] = headers["ce-type"], headers["ce-source"]
        # A complete type is that already; the other subject is prefix, source and type.
        complete = event.type.startswith(f"{self._prefix}.")
        headers["ce-type"] = encoded(clean_type(event.type) if complete else place.subject)
        headers["ce-source"] = encoded(self._mesh.namespace)
        headers["qos"] = self._qos
        return headers

    async def _sent(self, headers: dict[str, str], data: bytes, done: Done) -> None:
        try:
            done(_failure(await self._called(headers, data), self.destination))
        except TokenError as error:
            done(BackendError(Answer(502, str(error), retry_after=1)))
        except HttpTimeout as error:
            done(BackendError(Answer(504, str(error), retry_after=1)))
        except HttpError as error:
            done(BackendError(Answer(502, str(error), retry_after=1)))
        except Exception as error:
            logger.exception("handing an event over failed")
            done(error)

    async def _called(self, headers: dict[str, str], data: bytes) -> HttpResponse:
        called = None
        for _ in range(2):
            token = await self._tokens.current()
            called = await self._events.post({**headers, "authorization": f"Bearer {token}"}, data)
            if called.status != UNAUTHORIZED:
                return called
            # A token can be called back before its time: once more, with a new one.
            self._tokens.refused(token)
        assert called is not None
        return called

    async def _fetched(self) -> Token:
        try:
            token = await oauth.fetch(self._mesh, self._logins)
        except TokenError as error:
            self._problem = str(error)
            raise
        self._problem = None
        return token


def _failure(called: HttpResponse, host: str) -> BackendError | None:
    if 200 <= called.status < 300:
        return None
    if called.status in _PASSED_ON:
        reason = called.body[:1024].decode("utf-8", "replace") or f"{host} answered {called.status}"
        after = called.retry_after or ""
        return BackendError(Answer(called.status, reason, int(after) if after.isdigit() else 0))
    if called.status == UNAUTHORIZED:
        return BackendError(Answer(502, f"{host} does not take the token of this login"))
    return BackendError(Answer(502, f"{host} answered {called.status}", retry_after=1))
