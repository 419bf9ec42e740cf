"""What install, upgrade, uninstall and the demo do with the suite operator, step by step.

Called by `install` and `demo`. What is installed is decided in `manifests.operator`, how it is done in
`installing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet import __version__
from quintet.cli import output
from quintet.cli.installing import Installing, Lost, NotDone, own
from quintet.components import COMPONENTS
from quintet.imagenames import QUINTET as IMAGE
from quintet.imagenames import beside
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import FLAVOURS, Flavour, in_namespace
from quintet.manifests.operator import operator, quintet_object
from quintet.manifests.rbac import optional_roles
from quintet.manifests.text import as_yaml

if TYPE_CHECKING:
    from quintet.apis.meta import JsonObject
    from quintet.apis.resources import CustomResource
    from quintet.apis.suite import Quintet

SHOWN = 20
_COMPONENTS = tuple(COMPONENTS.values())


def chosen(flavour: str, namespace: str | None, image: str = "") -> Flavour:
    """One of the flavours, perhaps elsewhere or of another image."""
    return in_namespace(FLAVOURS[flavour], namespace, image)


def objects(flavour: Flavour, spec: JsonObject | None = None) -> list[JsonObject]:
    """What is applied for the operator; with a spec also the Quintet."""
    bodies = operator(_COMPONENTS, flavour)
    return bodies if spec is None else [*bodies, quintet_object(flavour, spec)]


def as_text(flavour: Flavour, spec: JsonObject | None = None) -> str:
    """The same for `kubectl apply -f -`."""
    return as_yaml(*objects(flavour, spec))


def kinds(flavour: Flavour) -> list[CustomResource]:
    """The kinds that its controllers serve."""
    return [kind for component in flavour.offered(_COMPONENTS) for kind in component.kinds]


def groundwork(flavour: Flavour) -> list[JsonObject]:
    """What controllers need of a cluster in which they do not run themselves."""
    offered = flavour.offered(_COMPONENTS)
    return [*map(custom_resource_definition, kinds(flavour)), *optional_roles(offered)]


async def bring(hands: Installing, flavour: Flavour, spec: JsonObject) -> None:
    """Apply the operator and ask for the controllers; nothing is waited for."""
    await hands.refuse_unsafe(kinds(flavour))
    flavour = await _of_the_same_registry(hands, flavour)
    await hands.apply(objects(flavour))
    await hands.ask(quintet_object(flavour, spec), changed=bool(spec))


async def install(hands: Installing, flavour: Flavour, spec: JsonObject, *, wait: bool) -> None:
    """Make it be there, and say so."""
    await bring(hands, flavour, spec)
    if not wait:
        output.result("Quintet is being installed. Look: kubectl get quintets quintet")
        return
    quintet = await hands.until_available(__version__)
    output.result(
        f"Quintet {__version__} is installed in {flavour.namespace}: {_names(quintet)}.\n"
        "Next: kubectl get quintets, then kubectl apply -f one of config/samples"
    )


async def upgrade(hands: Installing, flavour: Flavour, spec: JsonObject, *, wait: bool) -> None:
    """Bring what is there to this version."""
    before = await hands.installed()
    if before is None:
        raise NotDone("there is no Quintet in this cluster", "quintet install")
    await install(hands, flavour, spec, wait=wait)
    output.result(f"It was {before.status.version or 'of an unknown version'} before.")


async def wait(hands: Installing) -> None:
    """Wait for the controllers of whatever version there is."""
    quintet = await hands.until_available("")
    output.result(f"Quintet {quintet.status.version}: {quintet.status.ready} controllers are ready.")


async def uninstall(
    hands: Installing, flavour: Flavour, delete_data: bool, *, yes: bool, dry_run: bool
) -> None:
    """Remove the operator and its controllers, and if told so everything that was made with them."""
    losses = await hands.losses(kinds(flavour))
    bodies = objects(flavour)
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
        await hands.delete_definitions(kinds(flavour))
        await hands.delete_namespace(flavour.namespace)
        output.result("Quintet is gone, and so is everything that was made with it.")
    else:
        await hands.delete(own(bodies))
        output.result(
            f"Quintet is gone. Definitions, {_counted(losses)} and namespace {flavour.namespace} stay; "
            "`quintet uninstall --delete-data` removes them, `quintet install` takes them on again."
        )


async def _of_the_same_registry(hands: Installing, flavour: Flavour) -> Flavour:
    """Who has images of their own need not name them each time; a default would not be found there."""
    if flavour.image != IMAGE or (known := await hands.image_of(flavour)) is None:
        return flavour
    image = beside(IMAGE, known)
    if image != IMAGE:
        output.progress(f"the image is {image}, from where the present one came from")
    return in_namespace(flavour, None, image)


def _names(quintet: Quintet) -> str:
    return ", ".join(each.name for each in quintet.status.components)


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
