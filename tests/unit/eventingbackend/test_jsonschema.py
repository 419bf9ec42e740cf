"""The JSON Schema of a config, read by a library for JSON Schema, agrees with validation."""

import json

import jsonschema
import pytest
from hypothesis import event, given, settings

from quintet.apis.eventingbackend import CATALOG, DataType, config_faults
from quintet.apis.eventingbackend.discovery import DiscoveryRequest, respond
from unit.eventingbackend.test_fuzzed_configs import CONFIGS, RIGHT_CONFIGS

MEASURES = (DataType.QUANTITY, DataType.DURATION)


def validator(name):
    served = json.loads(respond(DiscoveryRequest(method="GET", path=f"/backend/{name}/schema")).body)
    return jsonschema.Draft202012Validator(served)


VALIDATORS = {name: validator(name) for name in CATALOG}


def sayable(backend, fault):
    """Whether a schema can say it: not bounds of measures, and not what two keys do together."""
    key = backend.key(fault.config)
    if fault.error.startswith("must not be under the subject"):
        return False
    bound = fault.error.startswith("must be set between") or fault.error == "must be a whole number"
    return not (bound and key is not None and key.data_type in MEASURES)


@pytest.mark.parametrize("name", CATALOG)
def test_served_schema_is_valid_json_schema(name):
    assert VALIDATORS[name].META_SCHEMA["$id"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(VALIDATORS[name].schema)


@pytest.mark.parametrize(
    ("name", "config"),
    [("nats", [{"maxInFlightMessages": 10}]), ("beb", [{"secretRef": "some-secret"}]), ("nats", [])],
)
def test_published_configs_match_the_schema(name, config):
    VALIDATORS[name].validate(config)


@pytest.mark.parametrize(
    ("name", "config", "want"),
    [
        ("nats", {"streamReplicas": 3}, "is not of type 'array'"),
        ("nats", [{"streamReplicas": 9}], "9 is greater than the maximum of 5"),
        ("nats", [{"streamReplicas": "3"}], "'3' is not of type 'integer'"),
        ("nats", [{"foo": 1}], "'foo' was unexpected"),
        ("nats", [{"streamName": "a"}, {"streamName": "b"}], "Too many items match the given schema"),
        ("nats", [{"streamName": "a b"}], "does not match"),
        ("beb", [], "does not contain items matching the given schema"),
    ],
    ids=str,
)
def test_invalid_config_does_not_match_the_schema(name, config, want):
    assert [error.message for error in VALIDATORS[name].iter_errors(config) if want in error.message]


@settings(max_examples=300)
@given(CONFIGS | RIGHT_CONFIGS)
def test_schema_and_validation_agree_where_a_schema_can_express_it(drawn):
    name, config = drawn
    if config is None:
        return  # nothing written is an empty config, which a schema of a list cannot know
    faults = config_faults(CATALOG[name], config)
    accepted = VALIDATORS[name].is_valid(config)
    event(f"accepted: {accepted}")
    # Python lets `$` match before a line break at the end; other readers of patterns do not.
    if any(
        isinstance(text, str) and text.endswith("\n") for entry in as_list(config) for text in values(entry)
    ):
        return
    assert accepted == (not any(sayable(CATALOG[name], fault) for fault in faults)), faults


def as_list(config):
    return config if isinstance(config, list) else []


def values(entry):
    return entry.values() if isinstance(entry, dict) else []
