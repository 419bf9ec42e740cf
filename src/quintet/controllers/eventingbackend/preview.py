"""Preview of the children of an EventingBackend."""

import msgspec

from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.meta import JsonObject
from quintet.controllers.eventingbackend.decide import desired, server
from quintet.controllers.eventingbackend.decide.plan import plan_of
from quintet.controllers.eventingbackend.drivers import DRIVERS
from quintet.controllers.preview import Images, Preview, image_note
from quintet.eventing.children import DISPATCHER, PUBLISHER, SERVER, runs_server


def preview(obj: JsonObject, images: Images) -> Preview:
    """Return the objects of the NATS server, the publisher and the dispatcher."""
    backend = msgspec.convert(obj, EventingBackend)
    config = plan_of(backend).wanted
    if config is None:
        return Preview(notes=("Nothing is created while spec.config has errors.",))
    plane = next(each for each in DRIVERS if each.backend is config.backend).data_plane(backend, config)
    pods = desired.Pods(image=images.eventing, secret=plane.secret)
    children = []
    notes = [image_note(images.eventing), "Publishers are created once the backend is ready."]
    if runs_server(config):
        notes.append(image_note(images.nats))
        children += [
            server.network_policy(backend, images.system_namespace),
            server.service(backend),
            desired.budget(backend, SERVER),
            server.stateful_set(backend, config, images.nats, size=server.claim_size(config)),
        ]
    children += [
        desired.publisher_service(backend),
        desired.budget(backend, PUBLISHER),
        desired.publisher(backend, plane, pods, replicas=plane.publisher_replicas),
    ]
    if plane.dispatcher is not None:
        children += [
            desired.account(backend),
            desired.role(backend),
            desired.role_binding(backend),
            desired.dispatcher_service(backend),
            desired.budget(backend, DISPATCHER),
            desired.dispatcher(backend, plane.dispatcher, pods, replicas=plane.dispatcher_replicas),
        ]
    if plane.secret:
        notes.append(f"The pods are restarted with each version of Secret {plane.secret}.")
    return Preview(tuple(children), tuple(notes))
