"""The steps of install, upgrade, wait and uninstall; each returns a message for the user."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from quintet import __version__
from quintet.apis.suite import QUINTET
from quintet.apis.text import shorten_list
from quintet.components import COMPONENTS
from quintet.imagenames import QUINTET as IMAGE
from quintet.imagenames import beside
from quintet.install.installer import Installer, InstallError, operator_objects
from quintet.install.user_objects import controller_of, spec_for_deletion, without_controller
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import FLAVOURS, Flavour, in_namespace
from quintet.manifests.operator import operator, quintet_object
from quintet.manifests.rbac import optional_roles
from quintet.manifests.text import as_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from quintet.apis.meta import JsonObject
    from quintet.apis.resources import CustomResource
    from quintet.apis.suite import Quintet
    from quintet.controllers.suite.decide.user_objects import UserObject

SHOWN = 20
_COMPONENTS = tuple(COMPONENTS.values())


def select_flavour(flavour: str, namespace: str | None, image: str = "") -> Flavour:
    """Return a flavour, with another namespace or image if given."""
    return in_namespace(FLAVOURS[flavour], namespace, image)


def objects(flavour: Flavour, spec: JsonObject | None = None) -> list[JsonObject]:
    """Return the objects of the operator and, with a spec, the Quintet."""
    bodies = operator(_COMPONENTS, flavour)
    return bodies if spec is None else [*bodies, quintet_object(flavour, spec)]


def render_manifest(flavour: Flavour, spec: JsonObject | None = None) -> str:
    """Return the objects as YAML for `kubectl apply -f -`."""
    return as_yaml(*objects(flavour, spec))


def kinds(flavour: Flavour) -> list[CustomResource]:
    """Return the kinds that the controllers of a flavour reconcile."""
    return [kind for component in flavour.offered_components(_COMPONENTS) for kind in component.kinds]


def prerequisites(flavour: Flavour) -> list[JsonObject]:
    """Return the CRDs and roles that controllers outside the cluster need."""
    offered = flavour.offered_components(_COMPONENTS)
    return [*map(custom_resource_definition, kinds(flavour)), *optional_roles(offered)]


async def apply(installer: Installer, flavour: Flavour, spec: JsonObject) -> None:
    """Apply the operator and the Quintet without waiting."""
    await installer.check_crd_changes([QUINTET, *kinds(flavour)])
    flavour = await _keep_registry(installer, flavour)
    await installer.apply(objects(flavour))
    await installer.apply_quintet(quintet_object(flavour, spec), changed=bool(spec))


async def install(installer: Installer, flavour: Flavour, spec: JsonObject, *, wait: bool) -> str:
    """Install Quintet and return a message for the user."""
    await apply(installer, flavour, spec)
    if not wait:
        return "The installation has started. Check it with: kubectl get quintets quintet"
    quintet = await installer.wait_until_available(flavour, __version__)
    return (
        f"Quintet {__version__} is installed in {flavour.namespace}: {_names(quintet)}.\n"
        "Next: kubectl get quintets, then kubectl apply -f one of config/samples"
    )


async def upgrade(installer: Installer, flavour: Flavour, spec: JsonObject, *, wait: bool) -> str:
    """Upgrade the installation to this version."""
    before = await installer.find_quintet()
    if before is None:
        raise InstallError("Quintet is not installed in this cluster", "quintet install")
    installed = await install(installer, flavour, spec, wait=wait)
    return f"{installed}\nThe version before was {before.status.version or 'unknown'}."


async def wait(installer: Installer, flavour: Flavour) -> str:
    """Wait until all controllers of the installed version are ready."""
    quintet = await installer.wait_until_available(flavour, "")
    return f"Quintet {quintet.status.version}: {quintet.status.ready} controllers are ready."


async def uninstall(
    installer: Installer,
    flavour: Flavour,
    delete_data: bool,
    *,
    confirm: Callable[[], None] | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> str:
    """Remove the operator and its controllers; with `delete_data`, also CRDs and the objects of users.

    `confirm` is called before objects of users are deleted and may raise an error. `force` waits for no
    controller to finish deletions.
    """
    found = await installer.list_user_objects(kinds(flavour))
    bodies = objects(flavour)
    _report_user_objects(installer, found, delete_data=delete_data)
    if dry_run:
        deleted = bodies if delete_data else operator_objects(bodies)
        return "\n".join(f"would delete {body['kind']} {body['metadata']['name']}" for body in deleted)
    if delete_data and found and confirm is not None:
        confirm()
    if not force:
        await _finish_deletions(installer, flavour, found, delete_data=delete_data)
    image = await installer.operator_image(flavour)
    if await installer.find_quintet() is not None:
        await installer.delete_quintet(flavour.namespace)
    if delete_data:
        await installer.delete(
            [body for body in bodies if body["kind"] not in ("CustomResourceDefinition", "Namespace")]
        )
        if force:
            await installer.delete_without_controllers(kinds(flavour))
        await installer.delete_crds(kinds(flavour))
        await installer.delete_namespace(flavour.namespace)
        return "Quintet, its CRDs and all objects of users are deleted."
    await installer.delete(operator_objects(bodies))
    if image is not None:
        await installer.record_former_image(flavour, image)
    return _describe_remains(await installer.list_user_objects(kinds(flavour)), flavour)


async def _finish_deletions(
    installer: Installer, flavour: Flavour, found: list[UserObject], *, delete_data: bool
) -> None:
    """Delete objects, or wait for those that are being deleted, while their controllers still run."""
    quintet = await installer.find_quintet()
    runs = quintet if await installer.operator_image(flavour) is not None else None
    unserved = without_controller(found, runs, await installer.list_namespaces())
    if delete_data and unserved:
        await _start_controllers(installer, flavour, quintet, unserved)
    if delete_data:
        await installer.delete_objects(found)
        return
    await installer.wait_until_deleted([each for each in found if each.deleting and each not in unserved])


async def _start_controllers(
    installer: Installer, flavour: Flavour, quintet: Quintet | None, unserved: list[UserObject]
) -> None:
    """Run the controllers that have to remove the finalizers of these objects."""
    spec = spec_for_deletion(quintet, unserved)
    names = ", ".join(sorted({controller_of(each) for each in unserved}))
    installer.progress(f"starting controllers that finish deletions: {names}")
    if await installer.operator_image(flavour) is None:
        flavour = await _keep_registry(installer, flavour)
        await installer.apply(objects(flavour))
    await installer.apply_quintet(quintet_object(flavour, spec), changed=True)


def _describe_remains(left: list[UserObject], flavour: Flavour) -> str:
    lines = [
        f"Quintet is removed. CRDs, {_count_objects(left)} and namespace {flavour.namespace} stay. "
        "Delete them with `quintet uninstall --delete-data`, or use them again with `quintet install`."
    ]
    held, waiting = (
        [each for each in left if each.needs_controller],
        [each for each in left if each.needs_controller and each.deleting],
    )
    if held:
        lines.append(
            f"{len(held)} of these objects have finalizers: `kubectl delete` does not finish for them until "
            "Quintet is installed again."
        )
    if waiting:
        lines.append(f"Being deleted, and waiting for that: {shorten_list(map(str, waiting))}.")
    return "\n".join(lines)


async def _keep_registry(installer: Installer, flavour: Flavour) -> Flavour:
    """Return the flavour with the registry of the installed operator, unless an image was given."""
    if flavour.image != IMAGE:
        return flavour
    known = await installer.operator_image(flavour) or await installer.former_image(flavour)
    if known is None:
        return flavour
    image = beside(IMAGE, known)
    if image != IMAGE:
        installer.progress(f"using image {image}, from the registry of the installed operator")
    return in_namespace(flavour, None, image)


def _names(quintet: Quintet) -> str:
    return ", ".join(each.name for each in quintet.status.components)


def _report_user_objects(installer: Installer, found: list[UserObject], *, delete_data: bool) -> None:
    if not found:
        return
    installer.progress(
        "These objects of users will be deleted:" if delete_data else "These objects of users stay:"
    )
    for kind, members in groupby(found, key=lambda each: each.kind.resource):
        shown = list(members)
        for each in shown[:SHOWN]:
            installer.progress(f"  {each}{' (being deleted)' if each.deleting else ''}")
        if len(shown) > SHOWN:
            installer.progress(f"  and {len(shown) - SHOWN} more of {kind.plural}")


def _count_objects(found: list[UserObject]) -> str:
    return f"{len(found)} object{'' if len(found) == 1 else 's'} of users"
