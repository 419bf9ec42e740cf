"""Sets the annotations that every controller understands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.apis.meta import Object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quintet.apis.meta import ObjectKey, ObjectMeta, Resource
    from quintet.kube.client import Client

MANAGER = "quintet-cli"
"""The field manager of changes that users make with the command line."""


async def annotate(
    client: Client,
    resource: Resource,
    key: ObjectKey,
    annotations: Mapping[str, str | None],
    *,
    dry_run: bool = False,
) -> ObjectMeta:
    """Set annotations of an object (None removes one) and return its metadata."""
    body = {"metadata": {"annotations": dict(annotations)}}
    return (await client.with_manager(MANAGER).patch(resource, key, body, Object, dry_run=dry_run)).metadata
