"""What the catalog says, on a screen."""

import json

import pytest
from click.testing import CliRunner

from quintet.apis.eventingbackend import CATALOG
from quintet.apis.eventingbackend.discovery import backend_types, described, description
from quintet.cli.main import quintet


def run(*arguments):
    return CliRunner().invoke(quintet, ["explain", *arguments])


def test_the_types_are_listed_with_what_they_are():
    lines = run("backend").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(CATALOG)
    assert "JetStream" in lines[0]


@pytest.mark.parametrize("name", CATALOG)
def test_every_key_of_a_type_is_shown_with_its_default_and_bounds(name):
    shown = run("backend", name).stdout
    for key in CATALOG[name].keys:
        assert f"\n  {key.name}  <{key.data_type}>" in shown
        if key.default is not None:
            assert f"default: {key.default}" in shown
        for value in key.allowed:
            assert value in shown


def test_one_key_is_shown_alone():
    shown = run("backend", "nats", "streamReplicas").stdout
    assert shown.splitlines() == [
        "streamReplicas  <int>",
        "    On how many NATS servers each event is kept. The cluster must have as many.",
        "    default: 1",
        "    from 1 to 5",
    ]


def test_programs_get_what_discovery_answers():
    nats = CATALOG["nats"]
    assert json.loads(run("backend", "-o", "json").stdout) == backend_types()
    assert json.loads(run("backend", "nats", "-o", "json").stdout) == description(nats)
    assert json.loads(run("backend", "nats", "url", "-o", "json").stdout) == described(nats.key("url"))


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("backend", "kafka"), "there is no backend type 'kafka': there are nats, beb"),
        (("backend", "nats", "ur"), "backend type nats has no key 'ur': there are url, "),
        (("backend", "nats", "url", "more"), "name a type and one of its keys"),
        (("pod",), "'pod' is no object: write KIND NAME or KIND/NAME"),
        (("pod", "x"), "there is no kind 'pod' of ours: there are quintet, jsonserver, "),
    ],
)
def test_what_there_is_not_is_answered_with_what_there_is(arguments, want):
    answer = run(*arguments)
    assert answer.exit_code == 2
    assert want in answer.stderr
