"""What the command prints for a word that it does not know."""

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
