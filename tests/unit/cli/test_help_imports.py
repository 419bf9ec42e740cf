"""Whoever asks for help does not wait for what only the work needs."""

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

COMMANDS = ("status", "tree", "explain", "events", "logs")
HEAVY = ("asyncio", "quintet.components", "quintet.kube.client", "prometheus_client", "yaml")


@pytest.fixture(scope="module")
def imported() -> Mapping[str, list[str]]:
    """By command, the heavy modules that its help imported, all in one new process."""
    code = (
        "import contextlib, io, json, sys\n"
        "from quintet.cli.main import quintet\n"
        "found, before = {}, set()\n"
        f"for command in {COMMANDS!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as shown:\n"
        "        quintet.main([command, '--help'], standalone_mode=False)\n"
        "    assert 'Usage' in shown.getvalue(), command\n"
        f"    now = set({HEAVY!r}) & set(sys.modules)\n"
        "    found[command], before = sorted(now - before), now\n"
        "print(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_verb_imports_neither_controllers_nor_client(imported, command):
    assert imported[command] == []
