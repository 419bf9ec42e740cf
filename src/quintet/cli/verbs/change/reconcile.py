"""The verb reconcile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import output
from quintet.cli.options import EXIT_CODES
from quintet.cli.verbs.change.annotation import annotate_object, object_and_dry_run

if TYPE_CHECKING:
    from quintet.inspect.session import Target


@click.command(epilog=EXIT_CODES)
@object_and_dry_run
def reconcile(typed: tuple[str, ...], target: Target, dry_run: bool) -> None:
    """Reconcile an object now.

    Controllers reconcile on every change by themselves. Use this when the cause is outside the cluster, such
    as a server that works again, or to skip a waiting time. Sets the annotation quintet.dev/reconcile-at.
    """
    from quintet.apis.steering import RECONCILE_AT, SUSPENDED, suspended
    from quintet.clock import SystemClock, micro_timestamp

    # In microseconds, so that a second call within one second changes the value.
    now = micro_timestamp(SystemClock().now())
    metadata = annotate_object(typed, target, {RECONCILE_AT: now}, "reconcile requested", dry_run=dry_run)
    if suspended(metadata):
        output.progress(f"the object is suspended ({SUSPENDED}): run `quintet resume` to reconcile it")
