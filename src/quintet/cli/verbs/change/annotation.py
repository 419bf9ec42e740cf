"""What the verbs reconcile, suspend and resume share: each sets one annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.cli import options, output
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from quintet.apis.meta import ObjectMeta
    from quintet.inspect.session import Target

object_and_dry_run = options.with_options(
    (
        options.object_argument(),
        options.target_options,
        options.dry_run_option,
    )
)


def annotate_object(
    typed: tuple[str, ...],
    target: Target,
    annotations: dict[str, str | None],
    done: str,
    *,
    dry_run: bool,
) -> ObjectMeta:
    """Set annotations of the object that was typed, print the result and return its metadata."""
    kind, name = options.parse_object(typed)

    async def patch() -> ObjectMeta:
        from quintet.actions.annotate import annotate

        async with connect(target) as session:
            key = session.key(kind.resource, name)
            return await annotate(session.client, kind.resource, key, annotations, dry_run=dry_run)

    metadata = options.run(patch())
    output.result(f"{kind.resource.kind.lower()}/{name} {done}{' (dry run)' if dry_run else ''}")
    return metadata
