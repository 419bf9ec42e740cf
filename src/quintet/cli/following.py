"""Changes of objects as they come, for commands with `-w`: a watch that resumes, and nothing by polling.

Called by `status` and `events`. The work is done by `runtime.watch`; here its news become one stream, and
what can only be mended by the person ends it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from quintet.apis.meta import JsonObject, ObjectKey, Resource
from quintet.cli import output
from quintet.clock import SystemClock
from quintet.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from quintet.runtime.cache import Store
from quintet.runtime.watch import Selection, Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from quintet.kube.client import Client

_decode = msgspec.json.Decoder(JsonObject).decode


class What(NamedTuple):
    """Which objects to follow."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""


class Change(NamedTuple):
    """An object as it is now, or as it was before it went."""

    what: What
    body: JsonObject
    gone: bool = False


class _Snapshot(NamedTuple):
    key: ObjectKey
    version: int
    body: JsonObject


async def changes(client: Client, followed: Sequence[What]) -> AsyncIterator[Change]:
    """First everything that is there, then every change; ends by an error only."""
    logging.getLogger("quintet").addHandler(logging.NullHandler())
    news: asyncio.Queue[Change | KubeError] = asyncio.Queue()
    tasks = [asyncio.create_task(_watch(client, what, news).run()) for what in followed]
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


def _watch(client: Client, what: What, news: asyncio.Queue[Change | KubeError]) -> Watch[_Snapshot]:
    store: Store[_Snapshot] = Store()

    def changed(old: _Snapshot | None, new: _Snapshot | None, initial: bool) -> None:
        if new is not None:
            news.put_nowait(Change(what, new.body))
        elif old is not None:
            news.put_nowait(Change(what, old.body, gone=True))

    def troubled(error: Exception) -> None:
        if isinstance(error, Forbidden | NotFound | Unauthorized):
            news.put_nowait(error)
        else:
            output.progress(f"interrupted, trying again: {error}")

    store.subscribe(changed)
    selection = Selection(what.resource, _snapshot, what.namespace, what.labels, what.fields)
    return Watch(client, selection, store, SystemClock(), on_error=troubled)


def _snapshot(raw: msgspec.Raw) -> _Snapshot:
    body = _decode(raw)
    meta = body["metadata"]
    return _Snapshot(ObjectKey(meta.get("namespace", ""), meta["name"]), int(meta["resourceVersion"]), body)
