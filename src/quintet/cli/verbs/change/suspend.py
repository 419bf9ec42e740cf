"""The verb suspend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli.options import EXIT_CODES
from quintet.cli.verbs.change.annotation import annotate_object, object_and_dry_run

if TYPE_CHECKING:
    from quintet.inspect.session import Target


@click.command(epilog=EXIT_CODES)
@object_and_dry_run
def suspend(typed: tuple[str, ...], target: Target, dry_run: bool) -> None:
    """Suspend the reconciliation of an object and its children, until `quintet resume`.

    Pods keep running; the controller neither repairs nor changes anything and does not update the status.
    Deletion still works. Sets the annotation quintet.dev/suspended.
    """
    from quintet.apis.steering import SUSPENDED

    annotate_object(typed, target, {SUSPENDED: "true"}, "suspended", dry_run=dry_run)
