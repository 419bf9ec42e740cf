"""The verb resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli.options import EXIT_CODES
from quintet.cli.verbs.change.annotation import annotate_object, object_and_dry_run

if TYPE_CHECKING:
    from quintet.inspect.session import Target


@click.command(epilog=EXIT_CODES)
@object_and_dry_run
def resume(typed: tuple[str, ...], target: Target, dry_run: bool) -> None:
    """Resume the reconciliation of a suspended object.

    The controller reverts what was changed in the meantime to the object's spec.
    """
    from quintet.apis.steering import SUSPENDED

    annotate_object(typed, target, {SUSPENDED: None}, "resumed", dry_run=dry_run)
