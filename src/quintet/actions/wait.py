"""Waits with a watch until an object reaches a state."""

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


async def wait_for(
    client: Client,
    resource: Resource,
    key: ObjectKey,
    kind: type[T],
    ends: Callable[[T], R | None],
    seconds: float,
) -> R:
    """Return the first value other than None that `ends` returns for a state of the object.

    Raises `LocalError` after a timeout or when the object is deleted. A watch that breaks off is restarted.
    """
    from quintet.kube.errors import NotFound

    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await _watch(client, resource, key, kind, ends)
                if found is not None:
                    return found
                await asyncio.sleep(_PAUSE)
    except NotFound:
        message = f"{resource.kind} {key} was deleted while waiting for it"
        raise LocalError(message, "create it again, if it was deleted by mistake") from None
    except TimeoutError:
        raise LocalError(
            f"{resource.kind} {key} did not reach the expected state within {seconds:g} s",
            f"run `kubectl describe {resource.qualified} {key.name}`, or wait longer with --timeout",
        ) from None


async def _watch(
    client: Client, resource: Resource, key: ObjectKey, kind: type[T], ends: Callable[[T], R | None]
) -> R | None:
    """Return the result of `ends`; None when the watch ends before."""
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
