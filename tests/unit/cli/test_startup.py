"""Whoever asks for help does not wait for what only the work needs."""

import subprocess
import sys

import pytest

HEAVY = ("asyncio", "quintet.components", "quintet.kube.client", "prometheus_client", "yaml")


@pytest.mark.parametrize("command", ["status", "tree", "explain", "events", "logs"])
def test_help_loads_neither_controllers_nor_a_client(command):
    code = (
        "import sys, contextlib, io\n"
        "from quintet.cli.main import quintet\n"
        "with contextlib.redirect_stdout(io.StringIO()) as shown:\n"
        f"    quintet.main(['{command}', '--help'], standalone_mode=False)\n"
        "assert 'Usage' in shown.getvalue()\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stdout + done.stderr
