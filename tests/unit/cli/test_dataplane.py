"""The commands of the data plane: what they are called with, and what they say when it is wrong."""

import click
import pytest
from click.testing import CliRunner

from quintet.cli.addresses import Address
from quintet.cli.dataplane import publisher_proxy
from quintet.eventing.settings import VARIABLE


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":8080", ("", 8080)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:9090", ("localhost", 9090)),
    ],
)
def test_an_address_has_a_port_and_may_have_a_host(text: str, want: tuple[str, int]):
    assert Address().convert(text, None, None) == want


@pytest.mark.parametrize("text", ["8080", "localhost", "localhost:", "localhost:http", ":65536", ""])
def test_what_is_no_address_is_refused_with_an_example(text: str):
    with pytest.raises(click.BadParameter, match=r"such as 127\.0\.0\.1:8081 or :8081"):
        Address().convert(text, None, None)


def called(text: str | None) -> str:
    result = CliRunner(env={VARIABLE: text}).invoke(publisher_proxy, [])
    assert result.exit_code == 1, result.output
    return result.output


def test_without_settings_the_proxy_says_where_it_belongs():
    assert called(None) == (
        "Error: QUINTET_EVENTING is not set: this command runs in the pods of an EventingBackend\n"
    )


def test_settings_that_cannot_be_read_are_named():
    assert called("{}").startswith("Error: QUINTET_EVENTING cannot be read: Object missing required field")
    assert called("nonsense").startswith("Error: QUINTET_EVENTING cannot be read: JSON is malformed")


def test_settings_without_a_backend_are_refused():
    settings = '{"namespace": "shop", "backend": "bus", "eventTypePrefix": "x"}'
    assert called(settings) == "Error: QUINTET_EVENTING must name one backend: nats or beb\n"
