import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from quintet.cli import main
from quintet.cli.verbs.start.kubectl import split_name
from quintet.local import cluster
from quintet.local.build import versions
from quintet.local.errors import LocalError


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["quintet", *arguments])
    with pytest.raises(SystemExit) as caught:
        main.main()
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def test_local_error_prints_two_lines_and_exits_1(monkeypatch, capsys):
    def fail(*_, **__):
        raise LocalError("the disk is full", "free some space")

    monkeypatch.setattr(cluster, "up", fail)
    code, out, err = run(monkeypatch, capsys, "up")
    assert (code, out) == (1, "")
    assert err == "error: the disk is full\n  next: free some space\n"


def test_usage_error_exits_2(monkeypatch, capsys):
    code, out, err = run(monkeypatch, capsys, "up", "--nonsense")
    assert (code, out) == (2, "")
    assert "--nonsense" in err


@pytest.mark.parametrize("command", ["up", "down", "demo", "build"])
def test_every_command_help_lists_exit_codes(command):
    answer = CliRunner().invoke(main.quintet, [command, "--help"])
    assert answer.exit_code == 0
    assert "Exit codes: 0" in answer.output


def test_up_with_invalid_name_fails_before_any_work(monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, "up", "--name", "../../etc")
    assert code == 1
    assert "'../../etc' is not a cluster name" in err


@pytest.mark.parametrize("command", ["up", "build"])
def test_up_with_unknown_kubernetes_version_lists_known_versions(monkeypatch, capsys, command):
    monkeypatch.setattr(cluster, "up", lambda *_, **__: pytest.fail("it was started"))
    monkeypatch.setattr(cluster, "prepare", lambda **_: pytest.fail("it was built"))
    code, _, err = run(monkeypatch, capsys, command, "--kubernetes", "1.12")
    assert code == 2
    assert all(f"'{name}'" in err for name in versions.VERSIONS), err


def test_up_reads_kubernetes_version_from_environment(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(cluster, "prepare", lambda **options: asked.append(options["kubernetes"]))
    for value in ("1.36", ""):
        monkeypatch.setenv(versions.VARIABLE, value)
        assert run(monkeypatch, capsys, "build")[0] == 0
    assert asked == ["1.36", None]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("get", "pods", "--name", "x", "-h"), ("default", ("get", "pods", "--name", "x", "-h"))),
        (("--name", "a", "--", "get", "pods"), ("a", ("get", "pods"))),
        (("--name=a", "get", "pods"), ("a", ("get", "pods"))),
        ((), ("default", ())),
    ],
    ids=["kubectl flags", "name and separator", "name only", "no arguments"],
)
def test_kubectl_command_passes_all_arguments_except_leading_name(monkeypatch, arguments, want):
    monkeypatch.delenv("QUINTET_CLUSTER", raising=False)
    assert split_name(arguments) == want


def test_kubectl_command_without_cluster_tells_how_to_start_one(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code, _, err = run(monkeypatch, capsys, "kubectl", "get", "pods", "-A")
    assert code == 1
    assert err == "error: there is no cluster default\n  next: quintet up --name default\n"


def test_help_does_not_import_heavy_modules():
    script = (
        "import sys; sys.argv = ['quintet', '--help']\n"
        "from quintet.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print({'cryptography', 'aiohttp', 'yaml', 'msgspec', 'asyncio'} & set(sys.modules), file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert answer.stderr.strip() == "set()"


HELPFUL = (
    "up", "down", "build", "install", "upgrade", "uninstall", "wait", "why", "explain", "demo", "doctor", "report",
)  # fmt: skip
HEAVY = ("cryptography", "quintet.components", "quintet.manifests", "quintet.controllers")


@pytest.fixture(scope="module")
def helped() -> Mapping[str, Any]:
    """Exit code and imported heavy modules of each command's help, from one new process."""
    script = (
        "import contextlib, io, json, sys\n"
        "from quintet.cli.main import main\n"
        "found, before = {}, set()\n"
        f"for command in {HELPFUL!r}:\n"
        "    sys.argv = ['quintet', command, '--help']\n"
        "    with contextlib.redirect_stdout(io.StringIO()):\n"
        "        try: main()\n"
        "        except SystemExit as end: code = end.code\n"
        f"    now = set({HEAVY!r}) & set(sys.modules)\n"
        "    found[command], before = [code, sorted(now - before)], now\n"
        "print(json.dumps(found))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, "")
    return json.loads(answer.stdout)


@pytest.mark.parametrize("command", HELPFUL)
def test_command_help_does_not_import_controllers(helped, command):
    assert helped[command] == [0, []]
