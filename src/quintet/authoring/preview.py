"""Previews the objects that a controller creates, with the same pure functions. No I/O.

The input is an object with all defaults. Values that are only known in the cluster, such as a uid or a
random name, are in angle brackets and explained in a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from quintet import imagenames

if TYPE_CHECKING:
    from collections.abc import Callable

    from quintet.apis.meta import JsonObject

UNKNOWN_UID = "<uid>"


class Images(NamedTuple):
    """The images and the namespace that the controllers are configured with; defaults of this version."""

    json_server: str = imagenames.JSON_SERVER
    eventing: str = imagenames.QUINTET
    nats: str = imagenames.NATS
    system_namespace: str = "quintet-system"


class Preview(NamedTuple):
    """The objects that a controller creates for an object, in this order, and notes about them."""

    children: tuple[JsonObject, ...] = ()
    notes: tuple[str, ...] = ()


def preview_children(obj: JsonObject, images: Images | None = None) -> Preview | None:
    """Return the preview of an object; None if its kind is not a kind of Quintet."""
    make = _MAKERS.get((obj["apiVersion"], obj["kind"]))
    return make(obj, images or Images()) if make is not None else None


def _jsonserver(obj: JsonObject, images: Images) -> Preview:
    from quintet.apis.jsonserver import JsonServer
    from quintet.controllers.jsonserver.decide import desired

    server = msgspec.convert(obj, JsonServer)
    notes = () if server.spec.image else (_image_note(images.json_server),)
    made = (
        desired.config_map(server),
        desired.service(server),
        desired.deployment(server, images.json_server),
    )
    return Preview(made, notes)


def _checkup(obj: JsonObject, images: Images) -> Preview:
    from quintet.apis.checkup import Checkup
    from quintet.apis.checkup.contract import object_name
    from quintet.controllers.checkup.decide import desired

    known = bool(obj["metadata"].get("uid"))
    checkup = msgspec.convert(_with_uid(obj), Checkup)
    run = max(checkup.status.run, 1)
    name = object_name(checkup.metadata.name, checkup.metadata.uid, run)
    notes = [f"The ServiceAccount {checkup.spec.service_account_name} must exist; nothing is created before."]
    if not known:
        name = f"{name.rpartition('-')[0]}-<digest>"
        notes.append("The names depend on the uid, which the API server sets.")
    made = (
        desired.config_map(checkup, name),
        desired.role(checkup, name),
        desired.role_binding(checkup, name),
        desired.job(checkup, name, run),
    )
    return Preview(made, tuple(notes))


def _statefulcluster(obj: JsonObject, images: Images) -> Preview:
    from quintet.apis.statefulcluster import Draw, StatefulCluster
    from quintet.controllers.statefulcluster.decide import desired, revisions

    cluster = msgspec.convert(_with_uid(obj), StatefulCluster)
    revision, template = revisions.name_for(cluster, 0), desired.template(cluster)
    made = [desired.revision(cluster, revision, 1)]
    claims = cluster.spec.volume_claim_templates
    for number in range(1, cluster.spec.replicas + 1):
        drawn = f"<{number}>"
        draw = Draw(f"{cluster.metadata.name}-{drawn}", drawn if claims else "")
        made += [desired.claim(cluster, each, drawn) for each in claims]
        made.append(desired.pod(cluster, draw, revision, template))
    notes = (
        "This is the first rollout: the part in angle brackets is chosen when a replica is created.",
        "Existing claims of earlier replicas may be used instead of new ones.",
    )
    return Preview(tuple(made), notes if cluster.spec.replicas else ())


def _eventingbackend(obj: JsonObject, images: Images) -> Preview:
    from quintet.apis.eventingbackend import EventingBackend
    from quintet.controllers.eventingbackend.decide import desired, server
    from quintet.controllers.eventingbackend.decide.plan import plan_of
    from quintet.controllers.eventingbackend.drivers import DRIVERS
    from quintet.eventing.children import DISPATCHER, PUBLISHER, SERVER, runs_server

    backend = msgspec.convert(obj, EventingBackend)
    config = plan_of(backend).wanted
    if config is None:
        return Preview(notes=("Nothing is created while spec.config has errors.",))
    plane = next(each for each in DRIVERS if each.backend is config.backend).data_plane(backend, config)
    pods = desired.Pods(image=images.eventing, secret=plane.secret)
    made, notes = [], [_image_note(images.eventing), "Publishers are created after the backend is ready."]
    if runs_server(config):
        notes.append(_image_note(images.nats))
        made += [
            server.network_policy(backend, images.system_namespace),
            server.service(backend),
            desired.budget(backend, SERVER),
            server.stateful_set(backend, config, images.nats, size=server.claim_size(config)),
        ]
    made += [
        desired.publisher_service(backend),
        desired.budget(backend, PUBLISHER),
        desired.publisher(backend, plane, pods, replicas=plane.publisher_replicas),
    ]
    if plane.dispatcher is not None:
        made += [
            desired.account(backend),
            desired.role(backend),
            desired.role_binding(backend),
            desired.dispatcher_service(backend),
            desired.budget(backend, DISPATCHER),
            desired.dispatcher(backend, plane.dispatcher, pods, replicas=plane.dispatcher_replicas),
        ]
    if plane.secret:
        notes.append(f"The pods restart with each version of Secret {plane.secret}.")
    return Preview(tuple(made), tuple(notes))


def _subscription(obj: JsonObject, images: Images) -> Preview:
    text = "It creates no objects, but a consumer in the stream of its backend, which delivers to spec.sink."
    return Preview(notes=(text,))


def _casconfig(obj: JsonObject, images: Images) -> Preview:
    text = (
        "It creates no objects: it changes existing ones, which only the cluster knows. "
        "With spec.mode: Preview, status.plan lists the changes (docs/casconfig.md)."
    )
    return Preview(notes=(text,))


def _quintet(obj: JsonObject, images: Images) -> Preview:
    return Preview(notes=("Run `quintet install --dry-run` to print the objects of an installation.",))


def _with_uid(obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "uid": metadata.get("uid") or UNKNOWN_UID}}


def _image_note(image: str) -> str:
    return f"{image} is the image of this version; a controller may be configured with another image."


_MAKERS: dict[tuple[str, str], Callable[[JsonObject, Images], Preview]] = {
    ("example.com/v1", "JsonServer"): _jsonserver,
    ("kiagnose.io/v1alpha1", "Checkup"): _checkup,
    ("openebs.io/v1alpha1", "CASConfig"): _casconfig,
    ("enge.me/v1alpha1", "StatefulCluster"): _statefulcluster,
    ("eventing.kyma-project.io/v1alpha1", "EventingBackend"): _eventingbackend,
    ("eventing.kyma-project.io/v1alpha2", "Subscription"): _subscription,
    ("quintet.dev/v1alpha1", "Quintet"): _quintet,
}
