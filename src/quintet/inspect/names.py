"""Lists the names of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from quintet.apis.meta import Object
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from quintet.apis.meta import Resource
    from quintet.inspect.session import Target

_decode = msgspec.json.Decoder(Object).decode


async def list_names(target: Target, resource: Resource) -> list[str]:
    """Return the names of all objects of a type in the namespace of the target, sorted."""
    async with connect(target) as session:
        namespace = session.namespace if resource.namespaced else ""
        pages = session.client.pages(resource, namespace=namespace, metadata_only=True)
        return sorted([_decode(item).metadata.name async for page in pages for item in page.items])
