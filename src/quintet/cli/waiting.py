"""Waits until one object is in a state, by a watch.

Called by commands with `-w`. Each state is handed to a function that says whether it is the end; a
watch that breaks off is begun again with a look at the object itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quintet.apis.meta import Object, ObjectKey, Resource
    from quintet.kube.client import Client

T = TypeVar("T", bound="Object")
R = TypeVar("R")
_PAUSE = 1.0


async def until(
    client: Client,
    resource: Resource,
    key: ObjectKey,
    kind: type[T],
    ends: Callable[[T], R | None],
    seconds: float,
) -> R:
    """What `ends` says of the first state for which it says anything.

    Raises `LocalError` when the time is over or the object is gone, and whatever refuses us.
    """
    from quintet.kube.errors import NotFound

    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await _watched(client, resource, key, kind, ends)
                if found is not None:
                    return found
                await asyncio.sleep(_PAUSE)
    except NotFound:
        message = f"{resource.kind} {key} was deleted while we waited"
        raise LocalError(message, "make it again, if that was not meant") from None
    except TimeoutError:
        raise LocalError(
            f"{resource.kind} {key} did not come to an end within {seconds:g} s",
            f"see `kubectl describe {resource.qualified} {key.name}`, or wait for longer with --timeout",
        ) from None


async def _watched(
    client: Client, resource: Resource, key: ObjectKey, kind: type[T], ends: Callable[[T], R | None]
) -> R | None:
    """The same until the stream ends; then None."""
    import msgspec

    from quintet.kube.client import decode_watch_event
    from quintet.kube.errors import Gone, Unreachable

    seen = await client.get(resource, key, kind)
    if (found := ends(seen)) is not None:
        return found
    decode = msgspec.json.Decoder(kind).decode
    try:
        async with client.watch(
            resource,
            namespace=key.namespace,
            fields=f"metadata.name={key.name}",
            resource_version=seen.metadata.resource_version,
        ) as batches:
            async for lines in batches:
                for line in lines:
                    event = decode_watch_event(line)
                    if event.type == "MODIFIED" and (found := ends(decode(event.object))) is not None:
                        return found
                    if event.type in ("DELETED", "ERROR"):
                        return None
    except (Gone, Unreachable):
        pass
    return None
