"""The verb upgrade."""

from __future__ import annotations

from typing import Any

import click

from quintet.cli import output
from quintet.cli.options import EXIT_CODES
from quintet.cli.verbs.install.options import (
    cluster_options,
    install_options,
    quintet_spec,
    run_installer,
)


@click.command(epilog=EXIT_CODES)
@cluster_options
@install_options
def upgrade(**options: Any) -> None:
    """Upgrade Quintet to the version of this command.

    First the CRDs: a change that could break existing objects is refused before anything is written. Then
    the operator, which rolls out one controller after the other and rolls back one that does not become
    ready.
    """
    from quintet.install import operations

    flavour = operations.select_flavour(options["flavour"], options["namespace"], options["image"])
    spec = quintet_spec(options)
    if options["dry_run"]:
        output.result(operations.render_manifest(flavour))
        return
    run_installer(
        options, lambda installer: operations.upgrade(installer, flavour, spec, wait=options["wait"])
    )
