"""What is in use, where each value comes from, and how it is found again."""

import dataclasses
from decimal import Decimal

import pytest

from quintet.apis.eventingbackend import (
    BEB,
    NATS,
    DataType,
    EffectiveValue,
    Key,
    Origin,
    effective,
    effective_from_status,
)


def test_every_key_with_a_value_has_its_origin():
    found = effective(NATS, {"maxInFlightMessages": 20.0, "url": "nats://h"})
    shown = {entry.name: (entry.value, entry.origin) for entry in found.entries()}
    assert shown["maxInFlightMessages"] == ("20", Origin.USER)
    assert shown["url"] == ("nats://h", Origin.USER)
    assert shown["streamName"] == ("sap", Origin.DEFAULT)
    assert shown["credentialsSecretRef"] == ("", Origin.DEFAULT), "it has neither value nor default"
    assert list(shown) == [key.name for key in NATS.keys]


def test_default_value_written_by_the_user_has_origin_user():
    (entry,) = [
        entry for entry in effective(NATS, {"streamName": "sap"}).entries() if entry.name == "streamName"
    ]
    assert entry.origin is Origin.USER


def test_dead_letter_subject_follows_the_stream():
    assert effective(NATS, {"streamName": "orders"}).text("deadLetterSubject") == "dead-letter.orders"
    assert effective(NATS, {"deadLetterSubject": "lost"}).text("deadLetterSubject") == "lost"


def test_values_are_converted_by_their_data_type():
    found = effective(NATS, {"maxBytes": "1Ki", "reconnectWait": "1m0.5s", "streamReplicas": 3})
    assert found.integer("streamReplicas") == 3
    assert found.measure("maxBytes") == 1024
    assert found.measure("reconnectWait") == Decimal("60.5")
    assert found.text("url") == ""


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda found: found.integer("streamName"), TypeError),
        (lambda found: found.measure("streamName"), TypeError),
        (lambda found: found.measure("nothing"), KeyError),
    ],
    ids=["a text as a number", "a text as a measure", "a key that is not there"],
)
def test_reading_a_value_as_the_wrong_type_raises(read, error):
    with pytest.raises(error):
        read(effective(NATS, {}))


WRITTEN = {"maxInFlightMessages": 20, "maxBytes": 4096, "reconnectWait": "7s", "url": "tls://h:4222"}


def test_effective_config_is_restored_from_the_status():
    found = effective(NATS, WRITTEN)
    assert effective_from_status(NATS, found.entries()) == found
    secret = effective(BEB, {"secretRef": "s"})
    assert effective_from_status(BEB, secret.entries()) == secret


def test_restored_config_keeps_old_defaults_and_gets_new_keys():
    before = [EffectiveValue("streamName", "old", Origin.DEFAULT), EffectiveValue("gone", "x", Origin.USER)]
    found = effective_from_status(NATS, before)
    assert found is not None
    assert (found.text("streamName"), found.origins["streamName"]) == ("old", Origin.DEFAULT)
    assert found.integer("maxInFlightMessages") == 10
    assert "gone" not in found.values


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [EffectiveValue("gone", "x", Origin.USER)],
        [EffectiveValue("maxInFlightMessages", "many", Origin.USER)],
        [EffectiveValue("maxInFlightMessages", "99999", Origin.USER)],
        [EffectiveValue("url", "http://169.254.169.254", Origin.USER)],
    ],
    ids=["nothing", "nothing that is known", "no number", "out of bounds", "not a url of the type"],
)
def test_invalid_stored_config_is_not_restored(shown):
    assert effective_from_status(NATS, shown) is None


def test_config_without_required_key_is_not_restored():
    assert effective_from_status(BEB, [EffectiveValue("qos", "AT_MOST_ONCE", Origin.USER)]) is None


def test_secret_value_is_not_shown_and_not_restored():
    token = Key(name="token", description="A token.", data_type=DataType.STRING, longest=8, sensitive=True)
    backend = dataclasses.replace(NATS, keys=(*NATS.keys, token))
    entries = effective(backend, {"token": "hunter2"}).entries()
    assert "hunter2" not in str(entries)
    assert effective_from_status(backend, entries) is None
