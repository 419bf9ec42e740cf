"""Fixtures of the packaging tests: real tools, built once per user from the modules in `tools`.

Tests whose tool cannot be built, for example without Go, are skipped with the reason.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.failure_reports import pytest_runtest_makereport
from quintet.local.cluster import prepare
from quintet.local.paths import cache_directory, hold_lock
from quintet.release.__main__ import main

__all__ = ["pytest_runtest_makereport"]

TOOLS = Path(__file__).parent / "tools"
TAGS = {
    "olm": "containers_image_openpgp",
    "opm": "containers_image_openpgp",
    # Service discovery is not needed here and is most of the build.
    "promtool": "remove_all_sd",
}
# Tool → the module with the CRDs that it needs, and their folder.
DEFINITIONS = {"olm": ("github.com/operator-framework/api", "crds")}
IS_ROOT = platform.system() == "Linux" and os.geteuid() == 0
Run = Callable[..., "subprocess.CompletedProcess[str]"]


_missing: dict[str, str] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the tests need before the first one: a cold build takes longer than a test may."""
    if session.config.option.collectonly:
        return
    if any("program" in getattr(item, "fixturenames", ()) for item in session.items):
        for folder in sorted(TOOLS.iterdir()):
            if not _kept(folder.name).exists():
                sys.stderr.write(f"building {folder.name} from its Go modules: minutes, the first time\n")
                _build(folder.name)
    for_node = [item for item in session.items if item.get_closest_marker("node")]
    if IS_ROOT and for_node:
        prepare(node=True, progress=lambda line: sys.stderr.write(f"{line}\n"))
    for item in for_node:
        if not IS_ROOT:
            item.add_marker(pytest.mark.skip(reason="a node needs root on Linux"))


def _kept(name: str) -> Path:
    content = b"".join(path.read_bytes() for path in sorted((TOOLS / name).iterdir()))
    return cache_directory() / f"tool-{name}-{hashlib.sha256(content).hexdigest()[:16]}" / name


def _build(name: str) -> None:
    go, product = shutil.which("go"), _kept(name).parent
    if go is None:
        _missing[name] = f"{name} is built with Go, which is not here"
        return
    with hold_lock(product.with_name(f"{product.name}.lock")):
        if _kept(name).exists():
            return
        with tempfile.TemporaryDirectory(dir=product.parent, suffix=".unfinished") as unfinished:
            built = Path(unfinished) / "built"
            built.mkdir()
            try:
                _compile(go, name, built)
            except subprocess.CalledProcessError as error:
                _missing[name] = f"{name} cannot be built here: {error.stderr[-300:]}"
                return
            shutil.rmtree(product, ignore_errors=True)
            built.rename(product)


def _compile(go: str, name: str, target: Path) -> None:
    def run(*arguments: str) -> str:
        argv = [go, *arguments]
        done = subprocess.run(argv, cwd=TOOLS / name, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    what = "." if (TOOLS / name / "main.go").exists() else "tool"
    run("build", "-trimpath", f"-tags={TAGS.get(name, '')}", "-o", f"{target}{os.sep}", what)
    if name in DEFINITIONS:
        module, folder = DEFINITIONS[name]
        run("mod", "download", module)
        source = Path(run("list", "-m", "-f", "{{.Dir}}", module)) / folder
        (target / folder).mkdir()
        for path in sorted(source.glob("*.yaml")):
            (target / folder / path.name).write_bytes(path.read_bytes())


@pytest.fixture(scope="session")
def program() -> Callable[[str], Path]:
    """Return the path of a tool by its name."""

    def of(name: str) -> Path:
        if name in _missing:
            pytest.skip(_missing[name])
        return _kept(name)

    return of


@pytest.fixture(scope="session")
def tool(program: Callable[[str], Path]) -> Callable[[str], Run]:
    """Run a tool by its name."""

    def of(name: str) -> Run:
        path = str(program(name))

        def run(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
            return subprocess.run([path, *arguments], capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]

        return run

    return of


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release."""
    from quintet import __version__

    folder = tmp_path_factory.mktemp("dist")
    assert main([__version__, "--output", str(folder), "--only", "manifests"]) == 0
    return folder


@pytest.fixture(scope="session")
def helm(tool: Callable[[str], Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Helm with its cache and configuration in a temporary folder."""
    run, home = tool("helm"), tmp_path_factory.mktemp("helm")
    environment = {f"HELM_{name}_HOME": str(home / name) for name in ("CACHE", "CONFIG", "DATA")}

    def at_home(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return run(*arguments, env={**environment, "PATH": "/usr/bin:/bin", "HOME": str(home)})

    return at_home
