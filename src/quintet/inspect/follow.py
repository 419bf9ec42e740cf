"""Follows changes of objects with watches that resume after interruptions.

Errors that only the user can fix end the stream.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from quintet.apis.meta import JsonObject, ObjectKey, Resource
from quintet.clock import SystemClock
from quintet.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from quintet.runtime.cache import Store
from quintet.runtime.watch import Selection, Watch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from quintet.kube.client import Client

_decode = msgspec.json.Decoder(JsonObject).decode


class WatchTarget(NamedTuple):
    """The objects to watch."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""


class Change(NamedTuple):
    """An object after a change, or its last state if it was deleted."""

    target: WatchTarget
    body: JsonObject
    deleted: bool = False


class _Snapshot(NamedTuple):
    key: ObjectKey
    version: int
    body: JsonObject


async def follow_changes(
    client: Client, followed: Sequence[WatchTarget], report: Callable[[str], None]
) -> AsyncGenerator[Change, None]:
    """Yield all existing objects, then every change; ends only with an error."""
    logging.getLogger("quintet").addHandler(logging.NullHandler())
    news: asyncio.Queue[Change | KubeError] = asyncio.Queue()
    tasks = [asyncio.create_task(_watch(client, what, news, report).run()) for what in followed]
    try:
        while True:
            item = await news.get()
            if isinstance(item, KubeError):
                raise item
            yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _watch(
    client: Client, what: WatchTarget, news: asyncio.Queue[Change | KubeError], report: Callable[[str], None]
) -> Watch[_Snapshot]:
    store: Store[_Snapshot] = Store()

    def on_change(old: _Snapshot | None, new: _Snapshot | None, initial: bool) -> None:
        if new is not None:
            news.put_nowait(Change(what, new.body))
        elif old is not None:
            news.put_nowait(Change(what, old.body, deleted=True))

    def on_error(error: Exception) -> None:
        if isinstance(error, Forbidden | NotFound | Unauthorized):
            news.put_nowait(error)
        else:
            report(f"the watch was interrupted, retrying: {error}")

    store.subscribe(on_change)
    selection = Selection(what.resource, _snapshot, what.namespace, what.labels, what.fields)
    return Watch(client, selection, store, SystemClock(), on_error=on_error)


def _snapshot(raw: msgspec.Raw) -> _Snapshot:
    body = _decode(raw)
    meta = body["metadata"]
    return _Snapshot(ObjectKey(meta.get("namespace", ""), meta["name"]), int(meta["resourceVersion"]), body)
