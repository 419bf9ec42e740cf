"""Reads how many events of a Subscription are not delivered yet, and since when the oldest of them waits."""

import asyncio
import contextlib
from typing import Final

from msgspec import UNSET

from quintet.apis.subscription import Subscription
from quintet.apis.subscription.types import MOST_TYPES, Backlog
from quintet.clock import timestamp
from quintet.controllers.subscription.writer import BackendStream
from quintet.eventing.decide import naming
from quintet.eventing.dispatcher.retries import stored_at
from quintet.eventing.streams import retry_stream
from quintet.nats.config import ConsumerInfo, StoredMessage
from quintet.nats.errors import MessageNotFound, StreamNotFound

MOST_SUBJECTS: Final = MOST_TYPES
"""How many subjects are searched for the oldest event; more only while prefixes change."""


async def read_backlog(subscription: Subscription, location: BackendStream, info: ConsumerInfo) -> Backlog:
    """Return the events that are not delivered yet; raises `NatsError`."""
    first = await _find_first(location, info) if info.num_pending + info.num_ack_pending else []
    times = [each.time for each in first]
    stream = retry_stream(location.stream)
    subject = naming.retry_subject(location.stream, naming.consumer_name(subscription.metadata))
    retrying = 0
    with contextlib.suppress(StreamNotFound):
        state = (await location.jetstream.stream_info(stream, subject)).state
        retrying = (state.subjects or {}).get(subject, 0)
    if retrying and (waiting := await _find_message(location, stream, subject, 0)) is not None:
        times.append(stored_at(waiting.headers) or waiting.time)
    oldest = min((time for time in times if time is not None), default=None)
    return Backlog(
        info.num_pending, info.num_ack_pending, retrying, timestamp(oldest) if oldest is not None else ""
    )


async def _find_first(location: BackendStream, info: ConsumerInfo) -> list[StoredMessage]:
    """Return the first event of each subject of a consumer that is not acknowledged."""
    filters = info.config.filter_subjects if info.config is not None else UNSET
    subjects = filters[:MOST_SUBJECTS] if filters is not UNSET else ()
    # All earlier events of this consumer are acknowledged.
    first = info.ack_floor.stream_seq + 1
    found = await asyncio.gather(
        *(_find_message(location, location.stream, subject, first) for subject in subjects)
    )
    return [each for each in found if each is not None]


async def _find_message(
    location: BackendStream, stream: str, subject: str, first: int
) -> StoredMessage | None:
    try:
        return await location.jetstream.next_message(stream, subject, first)
    except (MessageNotFound, StreamNotFound):
        return None
