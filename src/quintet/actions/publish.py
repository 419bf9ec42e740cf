"""Publishes a test event through the publisher proxy of a backend, and waits for its delivery."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from quintet.apis.eventingbackend import (
    CATALOG,
    EVENTINGBACKENDS,
    EventingBackend,
    effective_from_status,
)
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.eventing.children import PUBLISHER, child_name
from quintet.eventing.decide.cloudevents import STRUCTURED
from quintet.eventing.decide.headers import PREFIX, TEST
from quintet.eventing.decide.test_reports import (
    DELIVERED,
    NOT_DELIVERED,
    matching_subscriptions,
    parse_note,
)
from quintet.inspect.events import parse_event
from quintet.inspect.follow import WatchTarget, follow_changes
from quintet.local.errors import LocalError
from quintet.runtime.events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quintet.apis.meta import ObjectKey
    from quintet.kube.client import Client

PORT = 80
"""The port of the Service of publisher proxies."""


class SampleEvent(NamedTuple):
    """An event to publish."""

    id: str
    source: str
    type: str
    data: Any

    attributes: tuple[tuple[str, str], ...] = ()
    """Further attributes by name."""

    def all_attributes(self) -> dict[str, str]:
        """Return all attributes by name."""
        return {
            **dict(self.attributes),
            "specversion": "1.0",
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "datacontenttype": "application/json",
            TEST.removeprefix(PREFIX): "true",
        }

    def encode(self) -> bytes:
        """Return the event in the JSON format of CloudEvents."""
        return msgspec.json.encode({**self.all_attributes(), "data": self.data})


async def find_backend(client: Client, namespace: str, name: str) -> EventingBackend:
    """Return the backend of this name, or the only one of the namespace."""
    decode = msgspec.json.Decoder(EventingBackend).decode
    pages = client.pages(EVENTINGBACKENDS, namespace=namespace)
    found = [decode(item) async for page in pages for item in page.items]
    chosen = [each for each in found if not name or each.metadata.name == name]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(each.metadata.name for each in found) or "none"
    what = f"no EventingBackend {name}" if name else "not exactly one EventingBackend"
    raise LocalError(f"there is {what} in namespace {namespace}: {names}", "name one of them")


async def find_receivers(client: Client, backend: EventingBackend, event: SampleEvent) -> list[Subscription]:
    """Return the Subscriptions that get an event from a backend."""
    type_ = CATALOG.get(backend.status.backend_type)
    config = effective_from_status(type_, backend.status.effective_config) if type_ is not None else None
    if config is None or type_ is None or type_.key("streamSubjectPrefix") is None:
        return []
    decode = msgspec.json.Decoder(Subscription).decode
    pages = client.pages(SUBSCRIPTIONS, namespace=backend.metadata.namespace)
    found = [decode(item) async for page in pages for item in page.items]
    return matching_subscriptions(found, backend.metadata.name, config, event.all_attributes())


async def publish(client: Client, backend: ObjectKey, event: SampleEvent) -> None:
    """Publish an event; raises `ApiError` with the response of the publisher proxy if it is not stored."""
    service = backend._replace(name=child_name(backend.name, PUBLISHER))
    await client.post_to_service(service, PORT, "publish", event.encode(), STRUCTURED)


async def wait_for_deliveries(
    client: Client,
    receivers: Sequence[Subscription],
    event: SampleEvent,
    report: Callable[[str], None],
    *,
    timeout: float,
) -> set[str]:
    """Report each attempt to deliver an event; return the Subscriptions that got none in time."""
    waiting = {each.metadata.name for each in receivers}
    if not waiting:
        return waiting
    target = WatchTarget(EVENTS, receivers[0].metadata.namespace, fields="regarding.kind=Subscription")
    changes = follow_changes(client, [target], report)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout), contextlib.aclosing(changes):
            async for change in changes:
                seen = parse_event(change.body)
                found = parse_note(seen.note) if seen.reason in (DELIVERED, NOT_DELIVERED) else None
                if found is None or found.event_id != event.id:
                    continue
                outcome = "delivered" if seen.reason == DELIVERED else "not delivered"
                report(f"subscription/{seen.name}: {outcome} in attempt {found.attempt} ({found.result})")
                if seen.reason == DELIVERED:
                    waiting.discard(seen.name)
                if not waiting:
                    break
    return waiting
