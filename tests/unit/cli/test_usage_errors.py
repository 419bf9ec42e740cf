"""What the command prints for a word that it does not know."""

import click
import pytest
from click.testing import CliRunner

from quintet.cli.main import quintet


@pytest.mark.parametrize(
    ("typed", "want"),
    [
        (("explian",), "unknown command 'explian': did you mean 'explain'?"),
        (("xyz",), "unknown command 'xyz': `quintet --help` lists all commands"),
        (("undo", "checkup/hello"), "'checkup/hello' is a Checkup: name a CASConfig"),
        (("rerun", "casconfig", "logging"), "'casconfig logging' is a CASConfig: name a Checkup"),
        (("rerun", "a", "b", "c"), "'a b c' names no object"),
        (("suspend", "checkp", "hello"), "unknown kind 'checkp': did you mean 'checkup'?"),
    ],
    ids=[
        "mistyped command",
        "unknown command",
        "other kind with slash",
        "other kind with space",
        "too many words",
        "mistyped kind",
    ],
)
def test_usage_error_names_word_and_correction(typed, want):
    answer = CliRunner().invoke(quintet, typed, prog_name="quintet")
    assert answer.exit_code == 2, answer.output
    assert want in answer.stderr


def test_every_command_of_a_user_that_connects_to_a_cluster_can_act_as_somebody_else():
    # These run as themselves, or make a cluster.
    own_identity = {"run", "operator", "publisher-proxy", "dispatcher", "up"}
    context = click.Context(quintet)
    options = {
        name: {option for each in command.params for option in each.opts}
        for name in quintet.list_commands(context)
        if (command := quintet.get_command(context, name)) is not None
    }
    connecting = {name for name, known in options.items() if "--kubeconfig" in known} - own_identity
    assert {"status", "doctor", "install", "why", "undo"} <= connecting
    assert {name for name in connecting if not {"--as", "--as-group", "--as-uid"} <= options[name]} == set()
