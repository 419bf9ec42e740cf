"""The verb uninstall."""

from __future__ import annotations

from typing import Any

import click

from quintet.cli.options import EXIT_CODES
from quintet.cli.verbs.install.options import cluster_options, run_installer


@click.command(epilog=EXIT_CODES)
@cluster_options
@click.option("--delete-data", is_flag=True, help="Also delete all objects of users and the CRDs.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--force",
    is_flag=True,
    help="Do not wait for controllers to finish deletions; what they would clean up stays.",
)
@click.option(
    "--image",
    default="",
    help="The image of controllers that have to be started to finish deletions; default: that of the last "
    "installation.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be deleted; change nothing.")
def uninstall(delete_data: bool, yes: bool, dry_run: bool, force: bool, **options: Any) -> None:
    """Remove the operator and its controllers.

    The CRDs, all objects of users, and the roles to view and delete these objects stay. --delete-data deletes
    them too, after listing them and asking for confirmation. Objects have finalizers: it starts controllers
    that do not run, so that they clean up.
    """
    from quintet.install import operations

    flavour = operations.select_flavour(options["flavour"], options["namespace"], options["image"])
    confirm = None if yes else _confirm
    run_installer(
        options,
        lambda installer: operations.uninstall(
            installer, flavour, delete_data, confirm=confirm, dry_run=dry_run, force=force
        ),
    )


def _confirm() -> None:
    click.confirm("Permanently delete all of these objects?", abort=True, err=True)
