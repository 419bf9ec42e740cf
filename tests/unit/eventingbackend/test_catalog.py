"""What every entry of the catalog must keep to, because everything else is derived from it."""

import re
import string

import pytest

from quintet.apis.eventingbackend import CATALOG, EVENTINGBACKEND, DataType, config_faults, effective
from quintet.apis.eventingbackend.types import MOST_ENTRIES
from quintet.apis.eventingbackend.values import meaning
from quintet.apis.lint import problems
from quintet.manifests.crd import object_schema

KEYS = [(backend, key) for backend in CATALOG.values() for key in backend.keys]
EVERY_KEY = pytest.mark.parametrize(
    ("backend", "key"), KEYS, ids=[f"{backend.name}.{key.name}" for backend, key in KEYS]
)


@EVERY_KEY
def test_every_key_has_a_description_in_sentences(backend, key):
    assert key.description.endswith(".")
    assert key.description[0].isupper()


@EVERY_KEY
def test_every_key_has_the_limits_of_its_data_type(backend, key):
    if key.data_type is DataType.STRING:
        assert key.allowed or (key.longest and key.pattern), "neither allowed values nor length and form"
        assert key.minimum is key.maximum is None
    else:
        lowest, highest = meaning(key.data_type, key.minimum), meaning(key.data_type, key.maximum)
        assert lowest < highest


@EVERY_KEY
def test_every_default_is_a_valid_value(backend, key):
    if key.default is not None:
        needed = [{each.name: "some-name"} for each in backend.keys if each.required and each.default is None]
        assert config_faults(backend, [*needed, {key.name: key.default}]) == ()


@EVERY_KEY
def test_derived_default_uses_keys_with_a_default(backend, key):
    for _, name, _, _ in string.Formatter().parse(key.derived):
        assert name is None or backend.key(name).default is not None
    if key.outside:
        assert backend.key(key.outside).default is not None


@EVERY_KEY
def test_every_pattern_is_anchored_and_portable(backend, key):
    if key.pattern is not None:
        expression = key.pattern.expression
        assert expression.startswith("^")
        assert expression.endswith("$")
        assert not re.search(r"\\[swdSWDbBAZ]|\(\?", expression)
        assert re.fullmatch(expression, "a\n") is None


def test_key_names_are_unique_and_fit_into_a_config():
    for backend in CATALOG.values():
        names = [key.name for key in backend.keys]
        assert len(names) == len(set(names)) <= MOST_ENTRIES


def test_defaults_match_the_documentation():
    nats = {entry.name: entry.value for entry in effective(CATALOG["nats"], {}).entries()}
    assert nats == {
        "url": "", "credentialsSecretRef": "", "maxReconnects": "-1", "reconnectWait": "3s", "streamName": "sap", "streamSubjectPrefix": "kyma",
        "streamStorageType": "file", "streamReplicas": "1", "retentionPolicy": "interest",
        "discardPolicy": "new", "maxMessages": "-1", "maxBytes": "700Mi", "maxMessagesPerSubject": "1000000",
        "eventTypePrefix": "sap.kyma.custom", "maxInFlightMessages": "10", "consumerDeliverPolicy": "new",
        "dispatcherReplicas": "2", "deliveryAttempts": "64", "deliveryTimeout": "1m",
        "deliveryMinBackoff": "500ms", "deliveryMaxBackoff": "1m", "deliveryBackoffFactor": "2",
        "deliveryRetryAfterMax": "10m", "deliveryPermanentStatuses": "400,410,413,415,422,431",
        "deadLetters": "keep", "deadLetterSubject": "dead-letter.sap", "deadLetterMaxAge": "168h",
        "deadLetterMaxBytes": "128Mi", "publisherReplicas": "2", "publisherRequestTimeout": "5s",
    }  # fmt: skip
    beb = {entry.name: entry.value for entry in effective(CATALOG["beb"], {"secretRef": "s"}).entries()}
    assert beb == {
        "secretRef": "s", "domain": "", "qos": "AT_LEAST_ONCE", "eventTypePrefix": "sap.kyma.custom",
        "webhookActivationTimeout": "60s", "publisherReplicas": "2", "publisherRequestTimeout": "5s",
    }  # fmt: skip


def test_crd_follows_the_api_conventions():
    assert problems(object_schema(EVENTINGBACKEND)) == []


def test_crd_has_the_types_of_the_catalog_and_the_config_schema():
    spec = object_schema(EVENTINGBACKEND)["properties"]["spec"]
    assert spec["properties"]["type"]["enum"] == list(CATALOG)
    items = spec["properties"]["config"]["items"]
    assert (items["type"], items["minProperties"], items["maxProperties"]) == ("object", 1, 1)
    assert items["x-kubernetes-preserve-unknown-fields"] is True
    assert spec["required"] == ["type"]


def test_conditions_accept_the_published_spelling():
    conditions = object_schema(EVENTINGBACKEND)["properties"]["status"]["properties"]["conditions"]
    assert "pattern" not in conditions["items"]["properties"]["type"]
    assert "pattern" not in conditions["items"]["properties"]["reason"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
