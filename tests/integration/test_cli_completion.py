"""Completion of `kubectl quintet` by a real kubectl."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quintet.cli.main import VERBS
from quintet.local.cluster import Cluster

PLUGIN = Path(sys.executable).with_name("kubectl-quintet")


@pytest.mark.parametrize(
    ("typed", "want"),
    [
        (("quintet", "susp"), f"suspend\t{VERBS['suspend'].summary}"),
        (("quintet", "suspend", "jsons"), "jsonserver"),
    ],
    ids=["a command", "a kind"],
)
def test_kubectl_completes_the_plugin(typed, want, cluster: Cluster, tmp_path: Path):
    (tmp_path / "kubectl-quintet").symlink_to(PLUGIN)
    script = tmp_path / "kubectl_complete-quintet"
    # As the console script of that name does it.
    program = "from quintet.cli.completion import for_kubectl; for_kubectl()"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{program}' \"$@\"\n")
    script.chmod(0o755)
    environment = {**cluster.environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    answer = subprocess.run(
        [cluster.programs / "kubectl", "__complete", *typed], capture_output=True, text=True, env=environment
    )

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[0] == want, answer.stdout + answer.stderr
