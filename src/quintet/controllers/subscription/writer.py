"""Reads and changes JetStream consumers, through the connections of the EventingBackend controller."""

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from quintet.apis.eventingbackend import CATALOG, Effective, EventingBackend, effective_from_status
from quintet.apis.meta import ObjectKey
from quintet.apis.subscription import Subscription
from quintet.clock import Clock
from quintet.controllers.subscription.decide.status import DeliveryProblem, Reason, backend_problem
from quintet.eventing.children import runs_server, server_url
from quintet.eventing.decide import consumers, naming
from quintet.eventing.sessions import Sessions
from quintet.eventing.streams import retry_stream
from quintet.nats.config import ConsumerInfo
from quintet.nats.errors import ConsumerNotFound, StreamNotFound
from quintet.nats.jetstream import JetStream

SWEEP_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class BackendStream:
    """The stream of a backend, reachable through its connection."""

    backend: EventingBackend
    config: Effective
    jetstream: JetStream

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self.config.text("streamName")


class ConsumerWriter:
    """Manages the consumers of Subscriptions on all backends."""

    def __init__(self, sessions: Sessions, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock
        self._swept = dict[ObjectKey, float]()

    def locate(self, backend: EventingBackend) -> BackendStream | DeliveryProblem:
        """Return the stream of a backend, or why it cannot be reached."""
        shown = backend.status
        type_ = CATALOG.get(shown.backend_type)
        if type_ is None or type_.name != "nats":
            return backend_problem(backend) or _no_connection(backend)
        config = effective_from_status(type_, shown.effective_config)
        client = self._sessions.current(backend.key, server_url(backend.key, config)) if config else None
        if config is None or client is None:
            return _no_connection(backend)
        return BackendStream(backend, config, JetStream(client))

    async def ensure(self, subscription: Subscription, location: BackendStream) -> ConsumerInfo:
        """Create or correct the consumer of a Subscription; raises `NatsError`."""
        want = consumers.desired_consumer(subscription, location.backend, location.config)
        try:
            found = await location.jetstream.consumer_info(location.stream, want.durable_name)
        except ConsumerNotFound:
            return await location.jetstream.create_or_update_consumer(location.stream, want)
        corrected = consumers.consumer_update(found.config, want) if found.config is not None else want
        if corrected is None:
            return found
        return await location.jetstream.create_or_update_consumer(location.stream, corrected)

    async def remove(self, subscription: Subscription, location: BackendStream) -> None:
        """Delete the consumer of a Subscription if it exists; raises `NatsError`."""
        await self._remove(location, naming.consumer_name(subscription.metadata))

    async def remove_from_former(self, location: BackendStream, name: str) -> int:
        """Delete the consumer from a backend that is no longer used; return the number of undelivered events.

        If two backends share a stream, the consumer already belongs to the new one.
        """
        try:
            info = await location.jetstream.consumer_info(location.stream, name)
        except (ConsumerNotFound, StreamNotFound):
            return 0
        if consumers.owner_uid(info) != location.backend.metadata.uid:
            return 0
        return info.num_pending + info.num_ack_pending + await self._remove(location, name)

    def is_sweep_due(self, location: BackendStream) -> bool:
        """Return whether to look for orphaned consumers now; True at most once per interval."""
        key, now = location.backend.key, self._clock.monotonic()
        if key in self._swept and now - self._swept[key] < SWEEP_SECONDS:
            return False
        self._swept[key] = now
        return True

    def reset_sweep(self, backend: ObjectKey) -> None:
        """Make the next sweep due now."""
        self._swept.pop(backend, None)

    async def orphans(self, location: BackendStream, known: Collection[str]) -> list[str]:
        """Return the consumers of a backend that may be orphaned; raises `NatsError`."""
        found = await location.jetstream.consumers(location.stream)
        return consumers.find_orphans(found, location.backend.metadata.uid, known)

    async def _remove(self, location: BackendStream, name: str) -> int:
        """Delete a consumer and the events that wait for a retry; return the number of these events."""
        purged = 0
        with contextlib.suppress(StreamNotFound):
            subject = naming.retry_subject(location.stream, name)
            purged = await location.jetstream.purge_stream(retry_stream(location.stream), subject)
        with contextlib.suppress(ConsumerNotFound, StreamNotFound):
            await location.jetstream.delete_consumer(location.stream, name)
        return purged


def removes_consumers(backend: EventingBackend) -> bool:
    """Return whether deleting a backend removes its consumers: with its own server, or if it had none."""
    type_ = CATALOG.get(backend.status.backend_type)
    config = effective_from_status(type_, backend.status.effective_config) if type_ is not None else None
    return backend.metadata.deleting and (config is None or runs_server(config))


def _no_connection(backend: EventingBackend) -> DeliveryProblem:
    return DeliveryProblem(
        Reason.BACKEND_NOT_READY,
        f"EventingBackend '{backend.metadata.name}' has no connection to its server; its status says why",
    )
