"""The commands install, upgrade and uninstall: the suite operator comes, changes and goes.

Called by `main`. What is installed is decided in `manifests.operator`, how it is done in `installing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quintet import __version__
from quintet.cli import output
from quintet.cli.installing import Installing, Lost, NotDone, own
from quintet.components import COMPONENTS
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.transport import Transport
from quintet.manifests.installation import FLAVOURS, QUINTET, Flavour, in_namespace
from quintet.manifests.operator import a_quintet, operator
from quintet.manifests.text import as_yaml
from quintet.runtime.clock import SystemClock

if TYPE_CHECKING:
    from quintet.apis.meta import JsonObject
    from quintet.apis.resources import CustomResource

EXIT_CODES = "Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly."
SHOWN = 20
_COMPONENTS = tuple(COMPONENTS.values())
C = TypeVar("C", bound=Callable[..., Any])


def _where(command: C) -> C:
    for option in (
        click.option("--kubeconfig", metavar="PATH", help="The kubeconfig to use instead of the usual one."),
        click.option("--context", metavar="NAME", help="The context to use instead of the current one."),
        click.option("--flavour", type=click.Choice(list(FLAVOURS)), default=QUINTET.name, show_default=True),
        click.option("--namespace", "-n", help="Where the operator lives; default: that of the flavour."),
        click.option("--timeout", default=300.0, show_default=True, help="Seconds to wait for anything."),
    ):
        command = option(command)
    return command


def _what(command: C) -> C:
    for option in (
        click.option("--image", default="", help="The image of the operator and its controllers."),
        click.option(
            "--controllers",
            type=click.Choice(list(COMPONENTS)),
            multiple=True,
            help="Which controllers run; may be given several times; default: all.",
        ),
        click.option("--topology", type=click.Choice(["Separate", "Combined"]), help="Default: Separate."),
        click.option("--replicas", type=click.IntRange(1, 5), help="Pods of each controller; default: 2."),
        click.option(
            "--wait/--no-wait", default=True, show_default=True, help="Until all controllers serve."
        ),
        click.option("--dry-run", is_flag=True, help="Print what would be applied, and do nothing."),
    ):
        command = option(command)
    return command


@click.command(epilog=EXIT_CODES)
@_where
@_what
def install(**options: Any) -> None:
    """Install Quintet: its operator, which then installs the controllers.

    What is there already is brought to this version, so the command may be called again. With --dry-run it
    prints the objects for `kubectl apply -f -`.
    """
    flavour, spec = _flavour(options), _spec(options)
    if options["dry_run"]:
        output.result(as_yaml(*operator(_COMPONENTS, flavour), a_quintet(flavour, spec)))
        return
    _with(options, lambda hands: _install(hands, flavour, spec, wait=options["wait"]))


@click.command(epilog=EXIT_CODES)
@_where
@_what
def upgrade(**options: Any) -> None:
    """Bring an installation to the version of this command.

    Definitions first; one whose change could break objects is refused before anything is written. Then the
    operator, which rolls the controllers out one by one and goes back where one does not come up.
    """
    flavour, spec = _flavour(options), _spec(options)
    if options["dry_run"]:
        output.result(as_yaml(*operator(_COMPONENTS, flavour)))
        return
    _with(options, lambda hands: _upgrade(hands, flavour, spec, wait=options["wait"]))


@click.command(epilog=EXIT_CODES)
@_where
@click.option("--delete-data", is_flag=True, help="Also delete every object of a user, and the definitions.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and do nothing.")
def uninstall(delete_data: bool, yes: bool, dry_run: bool, **options: Any) -> None:
    """Remove the operator and its controllers.

    Definitions and every object that users made stay, and so do the roles to see and delete these. With
    --delete-data all of that goes too: first it is listed, and you are asked.
    """
    flavour = _flavour({**options, "image": ""})
    _with(options, lambda hands: _uninstall(hands, flavour, delete_data, yes=yes, dry_run=dry_run))


@click.command(epilog=EXIT_CODES)
@_where
def wait(**options: Any) -> None:
    """Wait until every controller of the installation serves, of whatever version the operator is."""
    _with(options, _wait)


async def _wait(hands: Installing) -> None:
    quintet = await hands.until_available("")
    output.result(f"Quintet {quintet.status.version}: {quintet.status.ready} controllers are ready.")


async def _install(hands: Installing, flavour: Flavour, spec: JsonObject, *, wait: bool) -> None:
    await hands.refuse_unsafe(_kinds(flavour))
    await hands.apply(operator(_COMPONENTS, flavour))
    await hands.ask(a_quintet(flavour, spec), changed=bool(spec))
    if not wait:
        output.result("Quintet is being installed. Look: kubectl get quintets quintet")
        return
    quintet = await hands.until_available(__version__)
    ready = ", ".join(each.name for each in quintet.status.components)
    output.result(
        f"Quintet {__version__} is installed in {flavour.namespace}: {ready}.\nNext: kubectl get quintets,"
        " then kubectl apply -f one of config/samples"
    )


async def _upgrade(hands: Installing, flavour: Flavour, spec: JsonObject, *, wait: bool) -> None:
    before = await hands.installed()
    if before is None:
        raise NotDone("there is no Quintet in this cluster", "quintet install")
    await _install(hands, flavour, spec, wait=wait)
    output.result(f"It was {before.status.version or 'of an unknown version'} before.")


async def _uninstall(
    hands: Installing, flavour: Flavour, delete_data: bool, *, yes: bool, dry_run: bool
) -> None:
    kinds = _kinds(flavour)
    losses = await hands.losses(kinds)
    bodies = operator(_COMPONENTS, flavour)
    _tell(losses, delete_data=delete_data)
    if dry_run:
        for body in bodies if delete_data else own(bodies):
            output.result(f"would delete {body['kind']} {body['metadata']['name']}")
        return
    if delete_data and losses and not yes:
        click.confirm("Delete all of these for ever?", abort=True, err=True)
    if delete_data:
        await hands.delete_data(losses)
    if await hands.installed() is not None:
        await hands.delete_quintet(flavour.namespace)
    if delete_data:
        await hands.delete(
            [body for body in bodies if body["kind"] not in ("CustomResourceDefinition", "Namespace")]
        )
        await hands.delete_definitions(kinds)
        await hands.delete_namespace(flavour.namespace)
        output.result("Quintet is gone, and so is everything that was made with it.")
    else:
        await hands.delete(own(bodies))
        output.result(
            f"Quintet is gone. Definitions, {_counted(losses)} and namespace {flavour.namespace} stay; "
            "`quintet uninstall --delete-data` removes them, `quintet install` takes them on again."
        )


def _tell(losses: list[Lost], *, delete_data: bool) -> None:
    if not losses:
        return
    output.progress("These objects of users will be lost:" if delete_data else "These objects of users stay:")
    for lost in losses:
        for key in lost.keys[:SHOWN]:
            output.progress(f"  {lost.kind.kind} {key}")
        if len(lost.keys) > SHOWN:
            output.progress(f"  and {len(lost.keys) - SHOWN} more of {lost.kind.plural}")


def _counted(losses: list[Lost]) -> str:
    count = sum(len(lost.keys) for lost in losses)
    return f"{count} object{'' if count == 1 else 's'} of users"


def _kinds(flavour: Flavour) -> list[CustomResource]:
    return [kind for component in flavour.offered(_COMPONENTS) for kind in component.kinds]


def _flavour(options: dict[str, Any]) -> Flavour:
    chosen = FLAVOURS[options["flavour"]]
    return in_namespace(chosen, options["namespace"] or chosen.namespace, options["image"])


def _spec(options: dict[str, Any]) -> JsonObject:
    given = {
        "controllers": list(options["controllers"]),
        "topology": options["topology"],
        "replicas": options["replicas"],
    }
    return {name: value for name, value in given.items() if value}


def _with(options: dict[str, Any], work: Callable[[Installing], Coroutine[Any, Any, None]]) -> None:
    async def connected() -> None:
        found = config.load(options["kubeconfig"], options["context"])
        async with Transport(found) as transport:
            await work(Installing(Client(transport), SystemClock(), output.progress, options["timeout"]))

    asyncio.run(connected())
