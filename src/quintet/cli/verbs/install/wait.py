"""The verb wait."""

from __future__ import annotations

from typing import Any

import click

from quintet.cli.options import EXIT_CODES
from quintet.cli.verbs.install.options import cluster_options, run_installer


@click.command(epilog=EXIT_CODES)
@cluster_options
def wait(**options: Any) -> None:
    """Wait until all controllers of the installation are ready, whatever its version."""
    from quintet.install import operations

    flavour = operations.select_flavour(options["flavour"], options["namespace"])
    run_installer(options, lambda installer: operations.wait(installer, flavour))
