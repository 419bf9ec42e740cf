"""What is wanted, what serves, and who may have a stream."""

import pytest

from quintet.controllers.eventingbackend.decide import plan
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


def claimant(name, created, *, proven=True, **entries):
    in_use = a_config(url=URL, **entries) if proven else None
    return a_backend(
        name, uid=name, created=f"2026-01-0{created}T00:00:00Z", in_use=in_use, url=URL, **entries
    )


def test_oldest_backend_keeps_a_stream_and_others_share_equal_settings():
    elder, younger = claimant("a", 1, maxMessages=1), claimant("b", 2, maxMessages=2)
    same = claimant("c", 3, maxMessages=1)
    everybody = [same, younger, elder]
    assert plan.find_older_owner(elder, everybody) is None
    assert plan.find_older_owner(younger, everybody) is elder
    assert plan.find_older_owner(same, everybody) is None


def test_backends_of_the_same_second_are_ordered_by_name():
    one, other = claimant("a", 1, maxMessages=1), claimant("b", 1, maxMessages=2)
    assert plan.find_older_owner(one, [one, other]) is None
    assert plan.find_older_owner(other, [one, other]) is one


def test_backend_that_was_never_ready_claims_nothing():
    squatter = claimant("a", 1, proven=False, maxMessages=1)
    assert plan.find_older_owner(claimant("b", 2, maxMessages=2), [squatter]) is None


def test_deleted_backend_claims_nothing():
    in_use = a_config(url=URL, maxMessages=1)
    going = a_backend(
        "a", created="2025-01-01T00:00:00Z", deleting=True, in_use=in_use, url=URL, maxMessages=1
    )
    assert plan.find_older_owner(claimant("b", 2, maxMessages=2), [going]) is None


@pytest.mark.parametrize(
    "other",
    [
        {"url": "nats://elsewhere.example:4222"},
        {"streamName": "other"},
        {"publisherReplicas": 7},
    ],
    ids=["another server", "another stream", "nothing that the stream knows of"],
)
def test_backends_with_different_streams_are_no_rivals(other):
    elder = claimant("a", 1, maxMessages=1)
    younger = a_backend(
        "b", uid="b", created="2026-02-01T00:00:00Z", **{"url": URL, "maxMessages": 1, **other}
    )
    assert plan.find_older_owner(younger, [elder, younger]) is None


def test_own_server_has_no_rivals():
    assert plan.claim_of(a_backend()) is None
    assert plan.claim_of(a_backend(type="beb", secretRef="mesh")) is None
