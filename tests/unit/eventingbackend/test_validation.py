"""Every mistake that a config can have, in the words that users read."""

import dataclasses

import pytest

from quintet.apis.eventingbackend import BEB, CATALOG, NATS, DataType, Key, config_faults, default, validate
from quintet.apis.eventingbackend.types import MOST_FAULTS
from quintet.apis.eventingbackend.values import NOT_SHOWN

TYPE, VALUE, UNSUPPORTED = "invalid-data-type-error", "invalid-value-error", "unsupported-config-error"
ADDRESS = (
    "must be an address such as nats://nats.example.com:4222 or tls://nats.example.com, without user and "
    "password; those belong in the Secret that credentialsSecretRef names"
)
SECRET = "must be the name of a Secret in the namespace of the backend"


def said(config, backend=NATS, catalog=CATALOG):
    return [
        (fault.type.value, fault.config, fault.value, fault.error)
        for fault in config_faults(backend, config, catalog)
    ]


@pytest.mark.parametrize(
    ("entry", "want"),
    [
        ({"maxInFlightMessages": "ten"}, (TYPE, "ten", "should be of type int")),
        ({"maxInFlightMessages": "10"}, (TYPE, "10", "should be of type int (write it without quotes)")),
        ({"maxInFlightMessages": True}, (TYPE, "true", "should be of type int")),
        ({"maxInFlightMessages": None}, (TYPE, "null", "should be of type int")),
        ({"maxInFlightMessages": 1.5}, (TYPE, "1.5", "should be of type int")),
        ({"maxInFlightMessages": [1]}, (TYPE, "[1]", "should be of type int")),
        ({"maxInFlightMessages": 0}, (VALUE, "0", "must be set between 1 and 10000")),
        ({"maxInFlightMessages": 10001}, (VALUE, "10001", "must be set between 1 and 10000")),
        ({"maxMessages": -2}, (VALUE, "-2", "must be set between -1 and 9007199254740991")),
        ({"streamName": 7}, (TYPE, "7", "should be of type string (write it in quotes)")),
        ({"streamName": ""}, (VALUE, "", "must not be empty")),
        ({"streamName": "s" * 33}, (VALUE, "s" * 33, "must not be longer than 32 characters")),
        ({"streamName": "a.b"}, (VALUE, "a.b", "must hold only letters, digits, '-' and '_'")),
        ({"eventTypePrefix": ""}, (VALUE, "", "must not be empty")),
        ({"eventTypePrefix": "a..b"}, (VALUE, "a..b", "must be words of letters, digits, '-' and '_', joined by single dots")),
        ({"streamStorageType": "disk"}, (VALUE, "disk", "must be one of file, memory")),
        ({"streamStorageType": "File"}, (VALUE, "File", "must be one of file, memory (did you mean 'file'?)")),
        ({"maxBytes": "lots"}, (TYPE, "lots", "should be of type quantity, such as 700Mi")),
        ({"maxBytes": "500m"}, (VALUE, "500m", "must be a whole number")),
        ({"maxBytes": "2Pi"}, (VALUE, "2Pi", "must be set between -1 and 1Pi")),
        ({"reconnectWait": 5}, (TYPE, "5", "should be of type duration, such as 5s")),
        ({"reconnectWait": "5"}, (TYPE, "5", "should be of type duration, such as 5s")),
        ({"reconnectWait": "10ms"}, (VALUE, "10ms", "must be set between 100ms and 5m")),
        ({"reconnectWait": "1h30m"}, (VALUE, "1h30m", "must be set between 100ms and 5m")),
        ({"url": "http://x"}, (VALUE, "http://x", ADDRESS)),
        ({"url": "nats://x:65536"}, (VALUE, "nats://x:65536", ADDRESS)),
        ({"url": "nats://x/?a=b"}, (VALUE, "nats://x/?a=b", ADDRESS)),
        ({"deadLetterSubject": "kyma.dead"}, (VALUE, "kyma.dead", "must not be under the subject 'kyma' that streamSubjectPrefix names")),
        ({"deadLetterSubject": "kyma"}, (VALUE, "kyma", "must not be under the subject 'kyma' that streamSubjectPrefix names")),
        ({"foo": "bar"}, (UNSUPPORTED, "bar", "config does not exist for backend type nats")),
        ({"maxInflightMessage": 5}, (UNSUPPORTED, "5", "config does not exist for backend type nats (did you mean 'maxInFlightMessages'?)")),
        ({"qos": "x"}, (UNSUPPORTED, "x", "config does not exist for backend type nats (it does for beb)")),
    ],
    ids=str,
)  # fmt: skip
def test_error_has_type_key_and_value(entry, want):
    sort, value, error = want
    (name,) = entry
    assert said([entry]) == [(sort, name, value, error)]


@pytest.mark.parametrize(
    "entry",
    [
        {"maxInFlightMessages": 10.0},
        {"maxBytes": 1048576},
        {"maxBytes": "-1"},
        {"maxBytes": "1.5Gi"},
        {"reconnectWait": "1m30s"},
        {"reconnectWait": "0.5s"},
        {"url": "nats://nats.example.com:4222"},
        {"url": "tls://nats"},
        {"url": "nats://[2001:db8::1]:4222"},
        {"deadLetterSubject": "kyma-dead"},
    ],
    ids=str,
)
def test_valid_value_has_no_error(entry):
    assert said([entry]) == []


@pytest.mark.parametrize(
    "key", [key for key in NATS.keys if key.maximum is not None], ids=lambda key: key.name
)
def test_value_at_the_limit_is_valid(key):
    assert said([{key.name: key.minimum}]) == []
    assert said([{key.name: key.maximum}]) == []


@pytest.mark.parametrize("config", [None, [], ()])
def test_empty_config_is_valid_without_required_keys(config):
    assert said(config) == []


def test_required_key_without_default_must_be_set():
    assert said([], BEB) == [(VALUE, "secretRef", "", "must be set")]
    assert said([{"secretRef": None}], BEB) == [(TYPE, "secretRef", NOT_SHOWN, "should be of type string")]


def test_secret_of_another_namespace_is_refused():
    assert said([{"secretRef": "other/name"}], BEB) == [(VALUE, "secretRef", NOT_SHOWN, SECRET)]


def test_duplicate_key_is_refused():
    found = said([{"streamName": "a"}, {"streamName": "b"}, {"streamName": "b"}])
    assert found == [(VALUE, "streamName", "b", "must be set only once")] * 2


def test_all_errors_are_reported_in_order():
    config = [{"maxInFlightMessages": "ten"}, {"streamReplicas": 9}, {"foo": 1}, {"streamReplicas": 2}]
    assert [fault[:2] for fault in said(config)] == [
        (TYPE, "maxInFlightMessages"), (VALUE, "streamReplicas"), (UNSUPPORTED, "foo"), (VALUE, "streamReplicas"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ([{}], (TYPE, "config[0]", "", "should be a map with one key")),
        ([None], (TYPE, "config[0]", "(null)", "should be a map with one key")),
        (["password=hunter2"], (TYPE, "config[0]", "(a text)", "should be a map with one key")),
        ([{"streamName": "a", "url": "nats://h"}], (TYPE, "config[0]", "streamName, url", "should be a map with one key")),
        ({"streamName": "a"}, (TYPE, "config", "streamName", "should be a list of maps with one key each")),
        ("x", (TYPE, "config", "(a text)", "should be a list of maps with one key each")),
    ],
    ids=str,
)  # fmt: skip
def test_malformed_config_is_reported_without_its_content(config, want):
    assert said(config) == [want]


def test_malformed_entry_does_not_hide_other_errors():
    assert [fault[1] for fault in said({"foo": 1, "streamReplicas": 9})] == [
        "config",
        "foo",
        "streamReplicas",
    ]


def test_default_dead_letter_subject_is_validated():
    found = said([{"streamSubjectPrefix": "dead-letter"}])
    assert found == [
        (
            VALUE,
            "streamSubjectPrefix",
            "dead-letter",
            "must not contain the subject 'dead-letter.sap', the default of deadLetterSubject",
        )
    ]


def test_key_is_not_compared_with_an_invalid_key():
    found = said([{"streamSubjectPrefix": ""}, {"deadLetterSubject": "kyma.dead"}])
    assert found == [(VALUE, "streamSubjectPrefix", "", "must not be empty")]


@pytest.mark.parametrize(
    "config",
    [[{f"wrong{number}": 1} for number in range(500)], {f"wrong{number}": 1 for number in range(500)}, [{f"wrong{number}": 1 for number in range(500)}]],
    ids=["entries", "keys of a map", "keys of one entry"],
)  # fmt: skip
def test_only_the_first_entries_of_a_long_config_are_validated(config):
    found = said(config)
    assert (VALUE, "config", "(500 entries)", "must have at most 64 entries") in found
    assert [fault[1] for fault in found if fault[0] == UNSUPPORTED] == [
        f"wrong{number}" for number in range(64)
    ]


def test_number_of_reported_errors_is_limited():
    found = said([{"qos": 1}] * 70, BEB)
    assert len(found) == MOST_FAULTS
    # Each of the 64 that are looked at is wrong, 63 are there again, there are too many, and one is missing.
    beyond = 64 + 63 + 1 + 1 - MOST_FAULTS
    assert found[-1] == (VALUE, "config", "", f"{beyond + 1} more errors are not listed")


TOKEN = Key(name="token", description="A token.", data_type=DataType.STRING, longest=8, sensitive=True)
OLD = Key(name="old", description="Old.", data_type=DataType.INT, minimum=1, maximum=2, deprecated="use new")
OTHER = dataclasses.replace(NATS, keys=(*NATS.keys, TOKEN, OLD))


@pytest.mark.parametrize(
    "entry",
    [
        {"token": "hunter2-is-too-long"},
        {"token": ["hunter2"]},
        {"url": "nats://user:hunter2@host"},
        {"url": "nats:/user:hunter2@host"},
        {"url": "user:hunter2@host"},
        {"url": ["nats://user:hunter2@host"]},
        {"natsUrl": "nats://user:hunter2@h@host"},
        {"credentialsSecretRef": "hunter2 HUNTER2"},
        {"credentialsSecretReff": "hunter2"},
        {"apiPassword": "hunter2"},
        {"natsToken": "hunter2"},
    ],
    ids=str,
)
def test_secret_value_is_never_shown(entry):
    found = config_faults(OTHER, [entry])
    assert found != ()
    assert "hunter2" not in str(found)


def test_deprecated_key_gives_a_warning():
    obj = {"metadata": {"name": "x"}, "spec": {"type": "nats", "config": [{"old": 1}]}}
    assert validate(obj, catalog={"nats": OTHER}) == ((), ("spec.config[old]: is deprecated: use new",))


FAULTY = {"spec": {"type": "nats", "config": [{"streamReplicas": 9}, {"foo": "bar"}]}}
WORDS = (
    'spec.config[streamReplicas]: Invalid value: "9": must be set between 1 and 5',
    'spec.config[foo]: Unsupported value: "bar": config does not exist for backend type nats',
)


def test_config_errors_are_warnings_unless_strict():
    assert validate(FAULTY) == ((), WORDS)
    refused = validate(FAULTY, reject=True)
    assert (tuple(map(str, refused.errors)), refused.warnings) == (WORDS, ())


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"type": "kafka"}, "spec.type: Unsupported value: \"kafka\": must be one of 'nats', 'beb'"),
        ({"type": "nat"}, "spec.type: Unsupported value: \"nat\": must be one of 'nats', 'beb' (did you mean 'nats'?)"),
        ({"type": 7}, "spec.type: Invalid type: 7: must be of type string"),
        ({}, "spec.type: Required value: must be one of nats, beb"),
    ],
    ids=str,
)  # fmt: skip
def test_unknown_type_is_refused_with_the_known_types(spec, want):
    assert [str(error) for error in validate({"spec": spec}).errors] == [want]


def test_new_backend_gets_labels_and_required_defaults():
    stored = default(
        {"metadata": {"name": "x"}, "spec": {"type": "nats", "config": [{"streamName": "mine"}]}}
    )
    assert stored["metadata"]["labels"] == {"kyma-project.io/eventing": "backend"}
    assert stored["spec"]["config"] == [
        {"streamName": "mine"}, {"streamSubjectPrefix": "kyma"}, {"eventTypePrefix": "sap.kyma.custom"},
    ]  # fmt: skip
    assert default(stored) == stored


def test_defaulting_keeps_user_values():
    given = {
        "metadata": {"name": "x", "labels": {"kyma-project.io/eventing": "other", "team": "a"}},
        "spec": {"type": "beb", "config": [{"secretRef": "s"}, {"eventTypePrefix": "a"}]},
    }
    assert default(given) == given


@pytest.mark.parametrize("spec", [{"type": "kafka"}, {"type": "nats", "config": {"streamName": "x"}}, {}])
def test_defaulting_leaves_malformed_config_unchanged(spec):
    assert default({"metadata": {}, "spec": spec})["spec"] == spec
