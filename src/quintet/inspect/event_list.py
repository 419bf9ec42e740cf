"""Lists and follows the Events of objects and of the objects that these own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from quintet.apis.meta import Object
from quintet.inspect import kinds
from quintet.inspect.events import EventSummary, parse_event, sort_by_time
from quintet.inspect.follow import WatchTarget, follow_changes
from quintet.inspect.relations.owners import ObjectRef, OwnerLookup, object_ref
from quintet.runtime.events import EVENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from quintet.inspect.session import Session

    Filter = Callable[[Sequence[ObjectRef]], bool]


class EventSelection:
    """The Events about one object, or about all objects of Quintet, and about what these own."""

    def __init__(self, session: Session, owners: OwnerLookup, matches: Filter, namespace: str) -> None:
        self._client = session.client
        self._owners = owners
        self._matches = matches
        self.namespace = namespace
        """Empty for all namespaces."""

    @classmethod
    async def create(cls, session: Session, named: kinds.ObjectName | None) -> EventSelection:
        """Select the Events of an object, or of all objects of Quintet."""
        owners = await OwnerLookup.of(session.client)
        if named is None:
            ours = {(kind.resource.group, kind.resource.kind) for kind in kinds.all_kinds()}
            return cls(
                session,
                owners,
                lambda refs: any((each.group, each.kind) in ours for each in refs),
                session.list_namespace,
            )
        key = session.key(named.kind.resource, named.name)
        uid = (await session.client.get(named.kind.resource, key, Object)).metadata.uid
        return cls(session, owners, lambda refs: any(each.uid == uid for each in refs), key.namespace)

    async def list(self) -> list[EventSummary]:
        """Return the Events, oldest first."""
        found = []
        async for page in self._client.pages(EVENTS, namespace=self.namespace):
            found += [parse_event(msgspec.json.decode(item)) for item in page.items]
        selected = await asyncio.gather(*map(self._is_selected, found))
        return sort_by_time(each for each, yes in zip(found, selected, strict=True) if yes)

    async def follow(
        self, shown: Sequence[EventSummary], report: Callable[[str], None]
    ) -> AsyncIterator[EventSummary]:
        """Yield every Event that is new or has changed since `shown`; ends only with an error."""
        seen = {each.id: each.resource_version for each in shown}
        async for change in follow_changes(self._client, [WatchTarget(EVENTS, self.namespace)], report):
            each = parse_event(change.body)
            if change.deleted or seen.get(each.id) == each.resource_version:
                continue
            if await self._is_selected(each):
                seen[each.id] = each.resource_version
                yield each

    async def _is_selected(self, event: EventSummary) -> bool:
        ref = object_ref(event.api_version, event.kind, event.namespace, event.name, event.uid)
        return self._matches(await self._owners.find_owners(ref))
