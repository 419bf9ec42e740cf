"""Options that the verbs install, upgrade, uninstall and wait share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quintet import kinds
from quintet.cli import options as shared
from quintet.cli import output
from quintet.cli.options import with_options

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from quintet.apis.meta import JsonObject
    from quintet.install.installer import Installer

CONTROLLERS = kinds.component_names()
FLAVOURS = ("quintet", "kiagnose")

cluster_options = with_options(
    (
        shared.cluster_options,
        click.option(
            "--flavour",
            type=click.Choice(FLAVOURS),
            default=FLAVOURS[0],
            show_default=True,
            help="kiagnose: only the controller of Checkups, with the object names of the Kiagnose design.",
        ),
        click.option(
            "--namespace", "-n", help="The namespace of the operator; default: that of the flavour."
        ),
        click.option("--timeout", default=300.0, show_default=True, help="Seconds to wait for each step."),
    )
)
install_options = with_options(
    (
        click.option(
            "--image",
            default="",
            help="The image of the operator and its controllers; default: from the registry of the "
            "installed operator.",
        ),
        click.option(
            "--controllers",
            type=click.Choice(CONTROLLERS),
            multiple=True,
            help="A controller to run; may be given several times; default: all.",
        ),
        click.option("--topology", type=click.Choice(["Separate", "Combined"]), help="Default: Separate."),
        click.option("--replicas", type=click.IntRange(1, 5), help="Pods of each controller; default: 2."),
        click.option(
            "--wait/--no-wait", default=True, show_default=True, help="Wait until all controllers are ready."
        ),
        click.option("--dry-run", is_flag=True, help="Print the objects instead of applying them."),
    )
)


def quintet_spec(options: dict[str, Any]) -> JsonObject:
    """Return the spec of the Quintet that the options describe."""
    given = {
        "controllers": list(options["controllers"]),
        "topology": options["topology"],
        "replicas": options["replicas"],
    }
    return {name: value for name, value in given.items() if value}


def run_installer(options: dict[str, Any], work: Callable[[Installer], Coroutine[Any, Any, str]]) -> None:
    """Run an operation on the cluster of the options and print its result."""
    import asyncio

    from quintet.clock import SystemClock
    from quintet.install.installer import Installer
    from quintet.kube.client import Client
    from quintet.kube.transport import Transport

    async def connect_and_run() -> str:
        async with Transport(options["target"].load()) as transport:
            return await work(
                Installer(Client(transport), SystemClock(), output.progress, options["timeout"])
            )

    output.result(asyncio.run(connect_and_run()))
