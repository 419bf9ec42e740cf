"""Whatever the catalog allows: pods understand what they are told, and can begin to work with it."""

import msgspec
from hypothesis import given, settings

from kit.clock import VirtualClock
from quintet.apis.eventingbackend import CATALOG, effective, entries
from quintet.controllers.eventingbackend.decide import desired
from quintet.controllers.eventingbackend.decide.desired import DataPlane, Pods
from quintet.controllers.eventingbackend.drivers import DRIVERS
from quintet.eventing import streams
from quintet.eventing.publisher.nats_backend import NatsBackend
from quintet.eventing.settings import VARIABLE, DispatcherSettings, PublisherSettings
from unit.eventingbackend.samples import a_backend
from unit.eventingbackend.test_fuzzed_configs import RIGHT_CONFIGS

# What a driver wants of pods needs none of its tools.
BY_NAME = {kind.backend.name: kind.__new__(kind) for kind in DRIVERS}
PODS = Pods(image="quintet:1", secret="", secret_version="")


def told(deployment):
    """What the pods of a Deployment find in their environment, as a kubelet hands it over."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (value,) = (each["value"] for each in container["env"] if each["name"] == VARIABLE)
    return value.replace("$$", "$")


@settings(max_examples=300)
@given(RIGHT_CONFIGS)
async def test_pods_decode_the_settings_of_every_valid_config(drawn):
    kind, config = CATALOG[drawn[0]], drawn[1]
    backend = a_backend(type=kind.name)
    in_use = effective(kind, dict(entries(config).pairs))
    plane: DataPlane = BY_NAME[kind.name].data_plane(backend, in_use)

    publisher = desired.publisher(backend, plane, PODS, replicas=plane.publisher_replicas)
    read = msgspec.json.decode(told(publisher), type=PublisherSettings)
    assert read == plane.publisher
    if plane.dispatcher is not None:
        dispatcher = desired.dispatcher(backend, plane.dispatcher, PODS, replicas=plane.dispatcher_replicas)
        assert msgspec.json.decode(told(dispatcher), type=DispatcherSettings) == plane.dispatcher
    if read.nats is not None:
        without_login = msgspec.structs.replace(read.nats, credentials="")
        started = NatsBackend(
            without_login, read.event_type_prefix, read.request_seconds, "fuzzed", VirtualClock()
        )
        assert started.destination
        assert started.problem() is not None, "ready before there is a connection"
        stream = streams.stream_config(backend, in_use)
        assert streams.differences(stream, stream) == []
