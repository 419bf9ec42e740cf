"""The verb install."""

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
def install(**options: Any) -> None:
    """Install Quintet: the operator, which then installs the controllers.

    An existing installation is upgraded to this version, so the command may be repeated. With --dry-run it
    prints the objects for `kubectl apply -f -`.
    """
    from quintet.install import operations

    flavour = operations.select_flavour(options["flavour"], options["namespace"], options["image"])
    spec = quintet_spec(options)
    if options["dry_run"]:
        output.result(operations.render_manifest(flavour, spec))
        return
    run_installer(
        options, lambda installer: operations.install(installer, flavour, spec, wait=options["wait"])
    )
