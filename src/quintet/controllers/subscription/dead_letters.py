"""Lists, replays and drops the dead letters of a Subscription.

A replayed event is moved to the retry stream, from which dispatchers deliver it like any other. If that
fails, it becomes a dead letter again.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import msgspec

from quintet.apis.subscription import Subscription
from quintet.apis.subscription.dead_letters import (
    LONGEST,
    MOST_LISTED,
    DeadLetter,
    DeadLetterAction,
    DeadLetterRequest,
    DeadLetterStatus,
    RequestStatus,
    find_request,
)
from quintet.apis.text import truncate
from quintet.clock import timestamp
from quintet.controllers.subscription import metrics
from quintet.controllers.subscription.writer import BackendStream
from quintet.eventing.decide import naming
from quintet.eventing.decide.headers import ID, ORIGINAL_TYPE, SOURCE, TYPE
from quintet.eventing.dispatcher.dead_letters import ANSWER
from quintet.eventing.dispatcher.retries import DUE, TRIES, event_headers
from quintet.eventing.streams import dead_letter_stream
from quintet.nats.config import StoredMessage
from quintet.nats.errors import MessageNotFound, StreamFull, StreamNotFound
from quintet.nats.jetstream import MESSAGE_ID

MOST_AT_ONCE: Final = 500
"""How many dead letters one reconciliation examines; the next one continues."""
NO_ROOM: Final = "waits until events that were replayed before are delivered"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one Subscription in the stream of its backend."""

    subscription: Subscription
    location: BackendStream

    async def update(self) -> DeadLetterStatus:
        """Execute the request of the Subscription, if it is not complete; return the status."""
        status = self.subscription.status.dead_letters.request
        try:
            request = find_request(self.subscription.metadata)
            if isinstance(request, DeadLetterRequest):
                status = await self._execute(request, status)
            elif request is not None:
                status = RequestStatus(complete=True, message=truncate(f"invalid: {request}", LONGEST))
            info = await self.location.jetstream.stream_info(self._stream, self._subject)
            metrics.show_storage(self.subscription.key, info.state.bytes, info.config.max_bytes)
            count = (info.state.subjects or {}).get(self._subject, 0)
            oldest = [describe(each) async for each in self._read(0, MOST_LISTED)] if count else []
        except StreamNotFound:
            return DeadLetterStatus(request=status)
        return DeadLetterStatus(count, tuple(oldest), status)

    async def _execute(self, request: DeadLetterRequest, status: RequestStatus) -> RequestStatus:
        if request.id != status.id:
            # A replayed event that fails becomes a new dead letter, which this request does not concern.
            last = (await self.location.jetstream.stream_info(self._stream)).state.last_seq
            status = RequestStatus(request.id, until=last)
        if status.complete:
            return status
        position, handled, examined, message = status.position, status.handled, 0, ""
        try:
            async for stored in self._read(position, MOST_AT_ONCE):
                if stored.sequence > status.until:
                    break
                examined += 1
                if request.includes(describe(stored)):
                    await self._handle(request.action, stored)
                    handled += 1
                position = stored.sequence
        except StreamFull:
            message = NO_ROOM
        return msgspec.structs.replace(
            status,
            position=position,
            handled=handled,
            complete=not message and examined < MOST_AT_ONCE,
            message=message,
        )

    async def _handle(self, action: DeadLetterAction, stored: StoredMessage) -> None:
        jetstream = self.location.jetstream
        if action is DeadLetterAction.REPLAY:
            headers = {
                **event_headers(stored.headers),
                TRIES: "0",
                DUE: "0",
                # Deduplicates it if this process dies before it deletes the dead letter. With the time,
                # because a recreated stream has the same sequence numbers.
                MESSAGE_ID: f"replay/{self._stream}/{stored.sequence}/{stored.time}",
            }
            subject = naming.retry_subject(self.location.stream, self._consumer)
            await jetstream.publish(subject, stored.payload, headers)
        await jetstream.delete_message(self._stream, stored.sequence)
        metrics.count_dead_letter(self.subscription.key, action)

    async def _read(self, after: int, most: int) -> AsyncIterator[StoredMessage]:
        """Yield dead letters with higher numbers, oldest first."""
        for _ in range(most):
            try:
                stored = await self.location.jetstream.next_message(self._stream, self._subject, after + 1)
            except MessageNotFound:
                return
            yield stored
            after = stored.sequence

    @property
    def _stream(self) -> str:
        return dead_letter_stream(self.location.stream)

    @property
    def _consumer(self) -> str:
        return naming.consumer_name(self.subscription.metadata)

    @property
    def _subject(self) -> str:
        return naming.dead_letter_subject(self.location.config.text("deadLetterSubject"), self._consumer)


def describe(stored: StoredMessage) -> DeadLetter:
    """Return a dead letter as a status shows it."""
    headers = {name.lower(): truncate(value, LONGEST) for name, value in (stored.headers or {}).items()}
    attempts = headers.get(TRIES.lower(), "")
    return DeadLetter(
        sequence=stored.sequence,
        id=headers.get(ID, ""),
        type=headers.get(ORIGINAL_TYPE) or headers.get(TYPE, ""),
        source=headers.get(SOURCE, ""),
        time=timestamp(stored.time) if stored.time is not None else "",
        attempts=int(attempts) if attempts.isdecimal() and len(attempts) < 10 else 0,
        result=headers.get(ANSWER.lower(), ""),
    )
