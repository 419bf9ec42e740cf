"""The commands install, upgrade and uninstall: the suite operator comes, changes and goes.

Called by `main`; goes on to `suite`, which does the work. That is imported when it is called: it knows
every controller, and whoever asks for help need not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quintet.cli import output
from quintet.cli.options import with_options

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from quintet.apis.meta import JsonObject
    from quintet.cli.installing import Installing

EXIT_CODES = "Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly."
# As the components and flavours are called; a test compares them.
CONTROLLERS = ("jsonserver", "eventing", "statefulcluster", "casconfig", "checkup")
FLAVOURS = ("quintet", "kiagnose")


_WHERE = (
    click.option("--kubeconfig", metavar="PATH", help="The kubeconfig to use instead of the usual one."),
    click.option("--context", metavar="NAME", help="The context to use instead of the current one."),
    click.option(
        "--flavour",
        type=click.Choice(FLAVOURS),
        default=FLAVOURS[0],
        show_default=True,
        help="kiagnose: only the controller of Checkups, under the names of the Kiagnose design.",
    ),
    click.option("--namespace", "-n", help="Where the operator lives; default: that of the flavour."),
    click.option("--timeout", default=300.0, show_default=True, help="Seconds to wait for anything."),
)
_WHAT = (
    click.option(
        "--image",
        default="",
        help="The image of the operator and its controllers; default: from where the present one is.",
    ),
    click.option(
        "--controllers",
        type=click.Choice(CONTROLLERS),
        multiple=True,
        help="Which controllers run; may be given several times; default: all.",
    ),
    click.option("--topology", type=click.Choice(["Separate", "Combined"]), help="Default: Separate."),
    click.option("--replicas", type=click.IntRange(1, 5), help="Pods of each controller; default: 2."),
    click.option("--wait/--no-wait", default=True, show_default=True, help="Until all controllers serve."),
    click.option("--dry-run", is_flag=True, help="Print what would be applied, and do nothing."),
)


@click.command(epilog=EXIT_CODES)
@with_options(_WHERE)
@with_options(_WHAT)
def install(**options: Any) -> None:
    """Install Quintet: its operator, which then installs the controllers.

    What is there already is brought to this version, so the command may be called again. With --dry-run it
    prints the objects for `kubectl apply -f -`.
    """
    from quintet.cli import suite

    flavour, spec = suite.chosen(options["flavour"], options["namespace"], options["image"]), _spec(options)
    if options["dry_run"]:
        output.result(suite.as_text(flavour, spec))
        return
    _with(options, lambda hands: suite.install(hands, flavour, spec, wait=options["wait"]))


@click.command(epilog=EXIT_CODES)
@with_options(_WHERE)
@with_options(_WHAT)
def upgrade(**options: Any) -> None:
    """Bring an installation to the version of this command.

    Definitions first; one whose change could break objects is refused before anything is written. Then the
    operator, which rolls the controllers out one by one and goes back where one does not come up.
    """
    from quintet.cli import suite

    flavour, spec = suite.chosen(options["flavour"], options["namespace"], options["image"]), _spec(options)
    if options["dry_run"]:
        output.result(suite.as_text(flavour))
        return
    _with(options, lambda hands: suite.upgrade(hands, flavour, spec, wait=options["wait"]))


@click.command(epilog=EXIT_CODES)
@with_options(_WHERE)
@click.option("--delete-data", is_flag=True, help="Also delete every object of a user, and the definitions.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and do nothing.")
def uninstall(delete_data: bool, yes: bool, dry_run: bool, **options: Any) -> None:
    """Remove the operator and its controllers.

    Definitions and every object that users made stay, and so do the roles to see and delete these. With
    --delete-data all of that goes too: first it is listed, and you are asked.
    """
    from quintet.cli import suite

    flavour = suite.chosen(options["flavour"], options["namespace"])
    _with(options, lambda hands: suite.uninstall(hands, flavour, delete_data, yes=yes, dry_run=dry_run))


@click.command(epilog=EXIT_CODES)
@with_options(_WHERE)
def wait(**options: Any) -> None:
    """Wait until every controller of the installation serves, of whatever version the operator is."""
    from quintet.cli import suite

    _with(options, suite.wait)


def _spec(options: dict[str, Any]) -> JsonObject:
    given = {
        "controllers": list(options["controllers"]),
        "topology": options["topology"],
        "replicas": options["replicas"],
    }
    return {name: value for name, value in given.items() if value}


def _with(options: dict[str, Any], work: Callable[[Installing], Coroutine[Any, Any, None]]) -> None:
    import asyncio

    from quintet.cli.installing import Installing
    from quintet.clock import SystemClock
    from quintet.kube import config
    from quintet.kube.client import Client
    from quintet.kube.transport import Transport

    async def connected() -> None:
        found = config.load(options["kubeconfig"], options["context"])
        async with Transport(found) as transport:
            await work(Installing(Client(transport), SystemClock(), output.progress, options["timeout"]))

    asyncio.run(connected())
