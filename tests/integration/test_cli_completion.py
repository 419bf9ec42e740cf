"""Completion by real shells and a real kubectl, with names from a real API server."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit.kinds.checkups import a_checkup
from quintet.apis.checkup import CHECKUPS
from quintet.apis.meta import Object
from quintet.cli.main import VERBS
from quintet.local.cluster import Cluster

PROGRAMS = Path(sys.executable).parent
# A busy machine may need more than the two seconds that users are willing to wait.
PATIENT = {"QUINTET_COMPLETION_TIMEOUT": "60"}
# Each program prints the suggestions for the line in LINE, one per line.
SHELLS = {
    "bash": """
        source <(quintet completion bash)
        words=($LINE); [[ $LINE == *" " ]] && words+=("")
        COMP_WORDS=("${words[@]}"); COMP_CWORD=$((${#words[@]} - 1))
        _quintet_completion quintet "${words[-1]}" "${words[-2]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        autoload -Uz compinit && compinit -u -d "$HOME/.zcompdump"
        compadd() { while [[ $1 == -* ]]; do shift; [[ $1 == unsorted ]] && shift; done; print -l -- ${(P)1:-$@}; }
        _describe() { print -l -- ${${(P)3}%%:*}; }
        eval "$(quintet completion zsh)"
        words=(${(z)LINE}); [[ $LINE == *" " ]] && words+=("")
        CURRENT=$#words
        _quintet_completion
    """,
    "fish": """
        quintet completion fish | source
        complete --do-complete $LINE
    """,
}


@pytest.fixture
async def checkup(client, checkups, namespace: str) -> str:
    """A Checkup that nobody reconciles."""
    await client.create(CHECKUPS, a_checkup("hello"), Object, namespace=namespace)
    return namespace


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path):
    """Ask kubectl for the completion of `kubectl quintet …`."""
    (tmp_path / "kubectl-quintet").symlink_to(PROGRAMS / "kubectl-quintet")
    script = tmp_path / "kubectl_complete-quintet"
    # As the console script of that name does it.
    program = "from quintet.cli.completion import for_kubectl; for_kubectl()"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{program}' \"$@\"\n")
    script.chmod(0o755)
    environment = {**cluster.environment, **PATIENT, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def complete(*typed: str) -> list[str]:
        argv = [cluster.programs / "kubectl", "__complete", "quintet", *typed]
        answer = subprocess.run(argv, capture_output=True, text=True, env=environment)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.splitlines()

    return complete


def test_kubectl_completes_commands_kinds_names_and_namespaces(kubectl, checkup):
    namespace = checkup
    assert kubectl("susp")[0] == f"suspend\t{VERBS['suspend'].summary}"
    assert kubectl("suspend", "jsons")[0] == "jsonserver"
    assert kubectl("suspend", "-n", namespace, "checkup", "")[:2] == ["hello", ":4"]
    assert kubectl("rerun", "-n", namespace, "he")[:2] == ["hello", ":4"]
    assert kubectl("status", "-n", namespace, "checkup/")[:2] == ["checkup/hello", ":4"]
    assert kubectl("status", "-n", namespace[:-1])[0] == namespace


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_completes_commands_kinds_and_names(shell: str, checkup: str, cluster: Cluster, tmp_path: Path):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    environment = {
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(cluster.kubeconfig),
        **PATIENT,
    }

    def complete(line: str) -> list[str]:
        argv = [program, "-c", SHELLS[shell]]
        answer = subprocess.run(
            argv, capture_output=True, text=True, env={**environment, "LINE": line}, timeout=60
        )
        found = [each.split("\t")[0].strip() for each in answer.stdout.splitlines() if each.strip()]
        assert found, f"no suggestion for {line!r}: {answer.stderr}"
        return found

    assert complete("quintet susp") == ["suspend"]
    assert complete("quintet suspend jsons") == ["jsonserver"]
    assert complete(f"quintet suspend -n {checkup} checkup ") == ["hello"]
    assert complete(f"quintet status -n {checkup} checkup/") == ["checkup/hello"]


def test_completion_without_cluster_suggests_no_names_and_prints_no_error(tmp_path: Path):
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "_QUINTET_COMPLETE": "bash_complete",
        "COMP_WORDS": "quintet suspend checkup ",
        "COMP_CWORD": "3",
    }
    answer = subprocess.run([PROGRAMS / "quintet"], capture_output=True, text=True, env=environment)
    assert (answer.stdout.strip(), answer.stderr) == ("", "")
