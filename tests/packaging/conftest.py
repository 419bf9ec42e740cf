"""Fixtures of the packaging tests: real tools, built once per user from the modules in `tools`.

Where there is no Go, or a module cannot be had, the tests that need the tool are skipped and say why.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from quintet.local.paths import cache_directory
from quintet.manifests.release import main

TOOLS = Path(__file__).parent / "tools"
TAGS = {"opm": "containers_image_openpgp"}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


_missing: dict[str, str] = {}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build before the first test: a cold build takes longer than any test may."""
    if session.config.option.collectonly:
        return
    for folder in sorted(TOOLS.iterdir()):
        if not _kept(folder.name).exists():
            sys.stderr.write(f"building {folder.name} from its Go modules: minutes, the first time\n")
            _build(folder.name)


def _kept(name: str) -> Path:
    content = b"".join(path.read_bytes() for path in sorted((TOOLS / name).iterdir()))
    return cache_directory() / f"tool-{name}-{hashlib.sha256(content).hexdigest()[:16]}" / name


def _build(name: str) -> None:
    go, folder, kept = shutil.which("go"), TOOLS / name, _kept(name)
    if go is None:
        _missing[name] = f"{name} is built with Go, which is not here"
        return
    target = "." if (folder / "main.go").exists() else "tool"
    kept.parent.mkdir(parents=True, exist_ok=True)
    argv = [go, "build", "-trimpath", f"-tags={TAGS.get(name, '')}", "-o", f"{kept.parent}{os.sep}", target]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        _missing[name] = f"{name} cannot be built here: {done.stderr[-300:]}"


@pytest.fixture(scope="session")
def tool() -> Callable[[str], Run]:
    """Call a tool by its name."""

    def of(name: str) -> Run:
        if name in _missing:
            pytest.skip(_missing[name])
        program = str(_kept(name))

        def run(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
            return subprocess.run([program, *arguments], capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]

        return run

    return of


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release."""
    from quintet import __version__

    folder = tmp_path_factory.mktemp("dist")
    assert main([__version__, "--output", str(folder)]) == 0
    return folder
