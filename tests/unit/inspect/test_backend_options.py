"""What the catalog says, on a screen."""

import json

import pytest
from click.testing import CliRunner

from quintet.apis.eventingbackend import CATALOG
from quintet.apis.eventingbackend.discovery import backend_types, describe_option, description
from quintet.cli.main import quintet


def run(*arguments):
    return CliRunner().invoke(quintet, ["explain", *arguments])


def test_explain_backend_lists_types_with_descriptions():
    lines = run("backend").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(CATALOG)
    assert "JetStream" in lines[0]


@pytest.mark.parametrize("name", CATALOG)
def test_explain_backend_type_shows_keys_with_defaults_and_bounds(name):
    shown = run("backend", name).stdout
    for key in CATALOG[name].keys:
        assert f"\n  {key.name}  <{key.data_type}>" in shown
        if key.default is not None:
            assert f"default: {key.default}" in shown
        for value in key.allowed:
            assert value in shown


def test_explain_backend_key_shows_only_this_key():
    shown = run("backend", "nats", "streamReplicas").stdout
    assert shown.splitlines() == [
        "streamReplicas  <int>",
        "    On how many NATS servers each event is kept. The cluster must have as many.",
        "    default: 1",
        "    from 1 to 5",
    ]


def test_explain_backend_json_equals_discovery_response():
    nats = CATALOG["nats"]
    assert json.loads(run("backend", "-o", "json").stdout) == backend_types()
    assert json.loads(run("backend", "nats", "-o", "json").stdout) == description(nats)
    assert json.loads(run("backend", "nats", "url", "-o", "json").stdout) == describe_option(nats.key("url"))


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("backend", "kafka"), "unknown backend type 'kafka'; choose from nats, beb"),
        (("backend", "nats", "ur"), "backend type nats has no key 'ur'; choose from url, "),
        (("backend", "nats", "url", "more"), "name a type and one of its keys"),
        (("pod",), "'pod' names no object: write KIND NAME or KIND/NAME"),
        (("pod", "x"), "unknown kind 'pod': choose from quintet, jsonserver, "),
    ],
)
def test_explain_with_unknown_name_lists_valid_names(arguments, want):
    answer = run(*arguments)
    assert answer.exit_code == 2
    assert want in answer.stderr
