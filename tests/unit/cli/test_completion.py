"""Shell completion, for shells and for kubectl."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from quintet.cli.completion import SHELLS, for_kubectl
from quintet.cli.main import VERBS, quintet
from quintet.cli.verbs.start.completion import completion

PROGRAM = Path(sys.executable).with_name("quintet")


def suggest(words: str, at: int) -> list[str]:
    told = {"_QUINTET_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    answer = CliRunner().invoke(quintet, prog_name="quintet", env=told)
    assert not answer.stderr, answer.stderr
    return [line.partition(",")[2] for line in answer.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_a_script_for_each_shell(shell):
    answer = CliRunner().invoke(completion, [shell])
    assert answer.exit_code == 0, answer.output
    assert f"_QUINTET_COMPLETE={shell}_complete" in answer.output


def test_completion_script_is_valid_bash():
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    script = f"source <({PROGRAM} completion bash) && complete -p quintet"
    answer = subprocess.run([bash, "-c", script], capture_output=True, text=True)
    assert answer.stdout.endswith(" quintet\n"), answer.stderr


def test_completion_suggests_verbs():
    told = {"_QUINTET_COMPLETE": "bash_complete", "COMP_WORDS": "quintet ", "COMP_CWORD": "1"}
    answer = subprocess.run([PROGRAM], capture_output=True, text=True, env={**os.environ, **told})
    assert not answer.stderr, answer.stderr
    assert answer.stdout.splitlines() == [f"plain,{name}" for name in VERBS]


def test_completion_filters_verbs_by_prefix():
    assert suggest("quintet ", 1) == list(VERBS)
    assert suggest("quintet susp", 1) == ["suspend"]


def test_completion_suggests_kinds_only_for_the_first_argument():
    assert suggest("quintet suspend json", 2) == ["jsonserver"]
    assert suggest("quintet suspend jsonserver app", 3) == []
    assert suggest("quintet new c", 2) == ["checkup", "casconfig"]


def test_completion_suggests_options():
    assert {"--dry-run", "--kubeconfig"} <= set(suggest("quintet suspend --", 2))


def test_completion_for_kubectl_uses_its_protocol(monkeypatch, capsys):
    def complete(*arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-quintet", *arguments])
        for_kubectl()
        said, errors = capsys.readouterr()
        assert not errors, errors
        return said.splitlines()

    assert complete("susp") == [f"suspend\t{VERBS['suspend'].summary}", ":4"]
    assert complete("suspend", "check") == ["checkup", ":4"]
    assert complete()[0] == f"demo\t{VERBS['demo'].summary}"
