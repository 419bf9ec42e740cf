"""The published examples of an EventingBackend, with the statuses that are published for them."""

import dataclasses

import msgspec
import yaml

from quintet.apis.eventingbackend import (
    BEB,
    CATALOG,
    NATS,
    DataType,
    EventingBackend,
    Key,
    PartCondition,
    config_faults,
    effective,
    entries,
    status_of,
    validate,
)

UP = PartCondition("True")

NATS_BACKEND = """
apiVersion: eventing.kyma-project.io/v1alpha1
kind: EventingBackend
metadata:
  name: any
  namespace: any
  labels:
    kyma-project.io/eventing: backend
spec:
  type: "nats"
  config:
  - maxInFlightMessages: 10
"""
BEB_BACKEND = """
metadata: {name: any, namespace: any}
spec:
  type: "beb"
  config:
  - secretRef: "some-secret"
"""
READY_STATUS = """
backendType: nats
conditions:
- reason: Backend ready
  status: "True"
  type: Backend Ready
- reason: Publisher proxy deployment ready
  status: "True"
  type: Publisher Proxy Ready
- reason: Subscription controller started
  status: "True"
  type: Subscription Controller Ready
eventingReady: true
"""
FAULTY_BACKEND = """
metadata: {name: any, namespace: any}
spec:
  type: nats
  config:
  - maxInFlightMessages: ten
  - foobar: 100
  - foo: bar
"""
FAULTY_STATUS = """
backendType: nats
validationErrors:
- type: "invalid-data-type-error"
  config: "maxInFlightMessages"
  value: "ten"
  error: "should be of type int"
- type: "invalid-value-error"
  config: "foobar"
  value: "100"
  error: "must be set between 1000 and 9999"
- type: "unsupported-config-error"
  config: "foo"
  value: "bar"
  error: "config does not exist for backend type nats"
conditions:
- reason: The provided spec.config has validation errors
  status: "False"
  type: Backend Ready
- reason: Publisher proxy deployment ready
  status: "True"
  type: Publisher Proxy Ready
- reason: Subscription controller started
  status: "True"
  type: Subscription Controller Ready
eventingReady: false
"""
# The published example has a key that no real backend has.
FOOBAR = Key(
    name="foobar", description="An example.", data_type=DataType.INT, default=1000, minimum=1000, maximum=9999
)
NATS_WITH_FOOBAR = dataclasses.replace(NATS, keys=(*NATS.keys, FOOBAR))


def backend_of(text):
    return msgspec.convert(yaml.safe_load(text), EventingBackend)


def published(status):
    """A status as it goes over the wire, less what the published ones leave out."""
    wire = msgspec.json.decode(msgspec.json.encode(status))
    assert wire.pop("observedGeneration") == 3
    wire.pop("effectiveConfig", None)
    wire["conditions"] = [
        {name: condition[name] for name in ("reason", "status", "type")}
        for condition in wire["conditions"]
        if condition["type"] != "Ready"
    ]
    return wire


def status_for(backend, catalog_entry, faults):
    in_use = (
        effective(catalog_entry, dict(entries(backend.spec.config).pairs)).entries() if not faults else ()
    )
    return status_of(
        backend_type=backend.spec.type,
        generation=3,
        faults=faults,
        in_use=in_use,
        backend=UP,
        publisher=UP,
        subscriptions=UP,
    )


def test_ready_nats_backend_has_the_published_status():
    backend = backend_of(NATS_BACKEND)
    faults = config_faults(NATS, backend.spec.config)
    assert faults == ()
    assert published(status_for(backend, NATS, faults)) == yaml.safe_load(READY_STATUS)


def test_beb_backend_accepts_the_published_config():
    backend = backend_of(BEB_BACKEND)
    assert config_faults(BEB, backend.spec.config) == ()
    assert validate(yaml.safe_load(BEB_BACKEND)) == ((), ())
    want = yaml.safe_load(READY_STATUS) | {"backendType": "beb"}
    assert published(status_for(backend, BEB, ())) == want


def test_config_errors_have_the_published_status():
    backend = backend_of(FAULTY_BACKEND)
    faults = config_faults(NATS_WITH_FOOBAR, backend.spec.config)
    assert published(status_for(backend, NATS_WITH_FOOBAR, faults)) == yaml.safe_load(FAULTY_STATUS)


def test_published_object_decodes_with_its_status():
    whole = yaml.safe_load(NATS_BACKEND) | {"status": yaml.safe_load(READY_STATUS)}
    backend = msgspec.convert(whole, EventingBackend)
    assert backend.spec.config == ({"maxInFlightMessages": 10},)
    assert backend.status.eventing_ready is True
    assert [condition.type for condition in backend.status.conditions] == [
        "Backend Ready", "Publisher Proxy Ready", "Subscription Controller Ready",
    ]  # fmt: skip


def test_published_types_are_those_of_the_catalog():
    assert list(CATALOG) == ["nats", "beb"]
