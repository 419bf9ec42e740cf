"""The objects that a controller makes for an object of ours, from the same pure functions. No I/O.

Called by `preview` and `diff` with an object as it is stored, so with all defaults. What cannot be
known before it happens (a name that is drawn, a uid) stands there in angle brackets, and is said.
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
    """What the controllers were set up with; by default what those of this version are."""

    json_server: str = imagenames.JSON_SERVER
    eventing: str = imagenames.QUINTET
    nats: str = imagenames.NATS
    system_namespace: str = "quintet-system"


class Made(NamedTuple):
    """What is made for one object, in this order, and what is to be said about it."""

    children: tuple[JsonObject, ...] = ()
    notes: tuple[str, ...] = ()


def children(obj: JsonObject, images: Images | None = None) -> Made | None:
    """What is made for an object; None if its kind is none of ours."""
    make = _MAKERS.get((obj["apiVersion"], obj["kind"]))
    return make(obj, images or Images()) if make is not None else None


def _jsonserver(obj: JsonObject, images: Images) -> Made:
    from quintet.apis.jsonserver import JsonServer
    from quintet.controllers.jsonserver.decide import desired

    server = msgspec.convert(obj, JsonServer)
    notes = () if server.spec.image else (_image_note(images.json_server),)
    made = (
        desired.config_map(server),
        desired.service(server),
        desired.deployment(server, images.json_server),
    )
    return Made(made, notes)


def _checkup(obj: JsonObject, images: Images) -> Made:
    from quintet.apis.checkup import Checkup
    from quintet.apis.checkup.contract import object_name
    from quintet.controllers.checkup.decide import desired

    known = bool(obj["metadata"].get("uid"))
    checkup = msgspec.convert(_with_uid(obj), Checkup)
    run = max(checkup.status.run, 1)
    name = object_name(checkup.metadata.name, checkup.metadata.uid, run)
    notes = [f"The ServiceAccount {checkup.spec.service_account_name} must be there; nothing is made before."]
    if not known:
        name = f"{name.rpartition('-')[0]}-<digest>"
        notes.append("The names of these depend on the uid, which the API server gives.")
    made = (
        desired.config_map(checkup, name),
        desired.role(checkup, name),
        desired.role_binding(checkup, name),
        desired.job(checkup, name, run),
    )
    return Made(made, tuple(notes))


def _statefulcluster(obj: JsonObject, images: Images) -> Made:
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
        "This is a first rollout: the part in angle brackets is drawn when a replica is made.",
        "Where claims of earlier replicas are there, they may be used instead of new ones.",
    )
    return Made(tuple(made), notes if cluster.spec.replicas else ())


def _eventingbackend(obj: JsonObject, images: Images) -> Made:
    from quintet.apis.eventingbackend import EventingBackend
    from quintet.controllers.eventingbackend.decide import desired, server
    from quintet.controllers.eventingbackend.decide.plan import plan_of
    from quintet.controllers.eventingbackend.drivers import DRIVERS
    from quintet.eventing.children import DISPATCHER, PUBLISHER, SERVER, runs_server

    backend = msgspec.convert(obj, EventingBackend)
    config = plan_of(backend).wanted
    if config is None:
        return Made(notes=("Nothing is made while spec.config has mistakes.",))
    plane = next(each for each in DRIVERS if each.backend is config.backend).data_plane(backend, config)
    pods = desired.Pods(image=images.eventing, secret=plane.secret)
    made, notes = [], [_image_note(images.eventing), "Publishers are made once the backend was found ready."]
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
        notes.append(f"The pods are restarted with each version of Secret {plane.secret}.")
    return Made(tuple(made), tuple(notes))


def _subscription(obj: JsonObject, images: Images) -> Made:
    text = "It makes no objects, but a consumer in the stream of its backend, which delivers to spec.sink."
    return Made(notes=(text,))


def _casconfig(obj: JsonObject, images: Images) -> Made:
    text = (
        "It makes no objects: it changes those that are in the cluster, so only the cluster can tell. "
        "Set spec.mode: Preview, and status.plan says what would be changed (docs/casconfig.md)."
    )
    return Made(notes=(text,))


def _quintet(obj: JsonObject, images: Images) -> Made:
    return Made(notes=("What an installation consists of is printed by `quintet install --dry-run`.",))


def _with_uid(obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "uid": metadata.get("uid") or UNKNOWN_UID}}


def _image_note(image: str) -> str:
    return f"{image} is what this version runs; a controller may have been set up with another image."


_MAKERS: dict[tuple[str, str], Callable[[JsonObject, Images], Made]] = {
    ("example.com/v1", "JsonServer"): _jsonserver,
    ("kiagnose.io/v1alpha1", "Checkup"): _checkup,
    ("openebs.io/v1alpha1", "CASConfig"): _casconfig,
    ("enge.me/v1alpha1", "StatefulCluster"): _statefulcluster,
    ("eventing.kyma-project.io/v1alpha1", "EventingBackend"): _eventingbackend,
    ("eventing.kyma-project.io/v1alpha2", "Subscription"): _subscription,
    ("quintet.dev/v1alpha1", "Quintet"): _quintet,
}
