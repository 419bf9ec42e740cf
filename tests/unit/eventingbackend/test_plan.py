"""What is wanted, what serves, and who may have a stream."""

import msgspec
import pytest

from quintet.apis.eventingbackend import SubjectPrefixes
from quintet.apis.eventingbackend.types import MOST_FORMER
from quintet.controllers.eventingbackend.decide import plan
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from unit.eventingbackend.samples import a_backend, a_config

URL = "nats://nats.example:4222"


def test_valid_spec_is_desired():
    found = plan.plan_of(a_backend(maxMessages=5))
    assert found.faults == ()
    assert found.wanted.integer("maxMessages") == 5
    assert found.serving is None


def test_invalid_spec_probes_the_serving_config():
    found = plan.plan_of(a_backend(maxMessages="x", in_use=a_config(maxMessages=7)))
    assert found.wanted is None
    assert found.candidate.integer("maxMessages") == 7


def test_invalid_spec_without_serving_config_probes_nothing():
    assert plan.plan_of(a_backend(maxMessages="x")).candidate is None


def test_unknown_type_is_an_error():
    found = plan.plan_of(a_backend(type="kafka", in_use=a_config()))
    assert [fault.config for fault in found.faults] == ["type"]
    assert found.candidate is not None


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ({"publisherReplicas": 5, "maxInFlightMessages": 9, "publisherRequestTimeout": "9s"}, True),
        ({"maxBytes": "1Gi"}, False),
        ({"url": "nats://other.example:4222"}, False),
        ({"credentialsSecretRef": "login"}, False),
        ({"deadLetterSubject": "dead"}, False),
    ],
)
def test_only_pod_settings_change_without_a_probe(values, want):
    serving = a_config(url=URL)
    assert plan.proven_already(serving, a_config(**{"url": URL, **values})) is want


def test_other_type_always_needs_a_probe():
    assert not plan.proven_already(a_config(), a_config("beb", secretRef="mesh"))
    assert not plan.proven_already(None, a_config())


def changed(former=(), **entries):
    """A backend that served with the default prefixes and now has these entries."""
    backend = a_backend(in_use=a_config(url=URL), url=URL, **entries)
    status = msgspec.structs.replace(backend.status, former_subjects=tuple(former))
    return msgspec.structs.replace(backend, status=status)


def test_replaced_prefixes_are_former_until_the_stream_changes():
    default = SubjectPrefixes("kyma", "sap.kyma.custom")
    moved = a_config(url=URL, streamSubjectPrefix="new")
    assert plan.former_subjects(changed(), moved) == (default,)
    assert plan.former_subjects(changed(), a_config(url=URL)) == ()
    assert plan.former_subjects(changed(), a_config(url=URL, streamName="other")) == ()
    assert plan.former_subjects(changed(), None) == ()


def test_restored_prefixes_are_no_longer_former():
    default, older = SubjectPrefixes("kyma", "sap.kyma.custom"), SubjectPrefixes("old", "sap.kyma.custom")
    backend = changed([older])
    assert plan.former_subjects(backend, a_config(url=URL, streamSubjectPrefix="old")) == (default,)
    assert plan.former_subjects(backend, a_config(url=URL, eventTypePrefix="x")) == (older, default)


def test_config_stays_in_use_while_status_has_no_room_for_former_prefixes():
    former = [SubjectPrefixes(f"p{number}", "") for number in range(MOST_FORMER)]
    backend = changed(former, eventTypePrefix="new")
    in_use, result = plan.config_in_use(backend, plan.plan_of(backend), ProbeResult())
    assert in_use.text("eventTypePrefix") == "sap.kyma.custom"
    assert result.reason is Reason.MOVING


@pytest.mark.parametrize(
    ("url", "want"),
    [
        ("nats://bus-nats.shop", {"bus-nats.shop"}),
        ("nats://bus-nats.shop.svc", {"bus-nats.shop"}),
        ("tls://BUS-nats.shop.svc.cluster.local.:4222", {"bus-nats.shop"}),
        ("nats://bus-nats-0.bus-nats.shop.svc.cluster.local", {"bus-nats.shop"}),
        ("nats://bus-nats-0.bus-nats.shop", {"bus-nats.shop"}),
        ("nats://bus-nats", {"bus-nats.mine"}),
        ("nats://bus-nats.shop.example.com", set()),
        ("nats://10.1.2.3:4222", set()),
    ],
)
def test_url_names_services_in_every_spelling(url, want):
    found = plan.named_services(a_backend(namespace="mine"), a_config(url=url))
    assert want <= set(found)
    if not want:
        assert not set(found) & plan.own_servers(a_backend())


def test_server_belongs_to_backend_that_runs_or_leaves_it():
    assert plan.own_servers(a_backend()) == {"bus-nats.shop"}
    assert plan.own_servers(a_backend(url=URL, in_use=a_config())) == {"bus-nats.shop"}
    assert plan.own_servers(a_backend(url=URL)) == set()
    assert plan.own_servers(a_backend(type="beb", secretRef="mesh")) == set()
    assert plan.named_services(a_backend(type="beb"), a_config("beb", secretRef="mesh")) == []
