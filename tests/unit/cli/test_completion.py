"""Completion: what shells and kubectl are told."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from quintet.cli.completion import SHELLS, completion, for_kubectl
from quintet.cli.main import COMMANDS, quintet

PROGRAM = Path(sys.executable).with_name("quintet")


def suggested(words: str, at: int) -> list[str]:
    told = {"_QUINTET_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    answer = CliRunner().invoke(quintet, prog_name="quintet", env=told)
    assert not answer.stderr, answer.stderr
    return [line.partition(",")[2] for line in answer.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(shell):
    answer = CliRunner().invoke(completion, [shell])
    assert answer.exit_code == 0, answer.output
    assert f"_QUINTET_COMPLETE={shell}_complete" in answer.output


def test_bash_takes_the_script():
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    script = f"source <({PROGRAM} completion bash) && complete -p quintet"
    answer = subprocess.run([bash, "-c", script], capture_output=True, text=True)
    assert answer.stdout.endswith(" quintet\n"), answer.stderr


def test_the_program_suggests_its_commands():
    told = {"_QUINTET_COMPLETE": "bash_complete", "COMP_WORDS": "quintet ", "COMP_CWORD": "1"}
    answer = subprocess.run([PROGRAM], capture_output=True, text=True, env={**os.environ, **told})
    assert not answer.stderr, answer.stderr
    assert answer.stdout.splitlines() == [f"plain,{name}" for name in COMMANDS]


def test_commands_are_suggested_by_their_beginning():
    assert suggested("quintet ", 1) == list(COMMANDS)
    assert suggested("quintet susp", 1) == ["suspend"]


def test_kinds_are_suggested_once():
    assert suggested("quintet suspend json", 2) == ["jsonserver"]
    assert suggested("quintet suspend jsonserver app", 3) == []
    assert suggested("quintet new c", 2) == ["checkup", "casconfig"]


def test_options_are_suggested():
    assert {"--dry-run", "--kubeconfig"} <= set(suggested("quintet suspend --", 2))


def test_kubectl_is_told_in_its_own_way(monkeypatch, capsys):
    def told_kubectl(*arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-quintet", *arguments])
        for_kubectl()
        said, errors = capsys.readouterr()
        assert not errors, errors
        return said.splitlines()

    assert told_kubectl("susp") == [f"suspend\t{COMMANDS['suspend'][2]}", ":4"]
    assert told_kubectl("suspend", "check") == ["checkup", ":4"]
    assert told_kubectl()[-2:] == [f"demo\t{COMMANDS['demo'][2]}", ":4"]
