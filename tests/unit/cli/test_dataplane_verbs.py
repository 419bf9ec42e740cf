"""The verbs of the data plane: their arguments, errors and signals."""

import json
import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kit.cli.quintet import COMMAND, free_port
from kit.eventually import eventually
from kit.process import Program
from quintet.cli.types import Address
from quintet.cli.verbs.processes.publisher_proxy import publisher_proxy
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
def test_address_accepts_port_with_optional_host(text: str, want: tuple[str, int]):
    assert Address().convert(text, None, None) == want


@pytest.mark.parametrize("text", ["8080", "localhost", "localhost:", "localhost:http", ":65536", ""])
def test_address_rejects_invalid_value_with_an_example(text: str):
    with pytest.raises(click.BadParameter, match=r"such as 127\.0\.0\.1:8081 or :8081"):
        Address().convert(text, None, None)


def error_of(text: str | None) -> str:
    result = CliRunner(env={VARIABLE: text}).invoke(publisher_proxy, [])
    assert result.exit_code == 1, result.output
    return result.output


def test_publisher_proxy_without_settings_says_where_it_runs():
    assert error_of(None) == (
        "Error: QUINTET_EVENTING is not set: this process runs in the pods of an EventingBackend\n"
    )


def test_publisher_proxy_with_undecodable_settings_names_the_variable():
    assert error_of("{}").startswith("Error: cannot decode QUINTET_EVENTING: Object missing required field")
    assert error_of("nonsense").startswith("Error: cannot decode QUINTET_EVENTING: JSON is malformed")


def test_publisher_proxy_rejects_settings_without_a_backend():
    settings = '{"namespace": "shop", "backend": "bus", "eventTypePrefix": "x"}'
    assert error_of(settings) == "Error: QUINTET_EVENTING must name one backend: nats or beb\n"


def a_kubeconfig(path: Path) -> Path:
    """Write a kubeconfig of a cluster that does not exist."""
    named = {"clusters": {"cluster": {"server": f"http://127.0.0.1:{free_port()}"}}, "users": {"user": {}}}
    named["contexts"] = {"context": {"cluster": "c", "user": "c"}}
    config = {name: [{"name": "c", **each}] for name, each in named.items()}
    path.write_text(json.dumps({**config, "current-context": "c"}))
    return path


@pytest.mark.parametrize("verb", ["publisher-proxy", "dispatcher"])
async def test_sigusr1_changes_the_log_level_of_the_data_plane(verb: str, tmp_path: Path):
    nats = {"url": f"nats://127.0.0.1:{free_port()}", "stream": "s", "subjectPrefix": "p"}
    settings = {"namespace": "shop", "backend": "bus", "eventTypePrefix": "x", "nats": nats}
    settings |= {"maxInFlight": 1, "deliverPolicy": "new", "deadLetterSubject": "d"}
    options = [f"--address=127.0.0.1:{free_port()}", f"--metrics-address=127.0.0.1:{free_port()}"]
    if verb == "dispatcher":
        options += ["--kubeconfig", str(a_kubeconfig(tmp_path / "kubeconfig"))]
    program = Program(str(COMMAND), verb, *options, environment={VARIABLE: json.dumps(settings)})

    async def assert_logged(part: str) -> None:
        assert any(part in line for line in program.log), program.log[-3:]

    await program.start()
    try:
        await eventually(lambda: assert_logged('"msg"'), within=60)
        program.signal(signal.SIGUSR1)
        await eventually(lambda: assert_logged("Log level changed: debug"), within=60)
        program.signal(signal.SIGUSR1)
        await eventually(lambda: assert_logged("Log level changed: info"), within=60)
    finally:
        program.kill()
        await program.ended()
