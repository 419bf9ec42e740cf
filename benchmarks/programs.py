"""Builds the programs of the contenders once per user: Go commands and a Python environment.

The cache names them by the hash of their sources, like the programs of the embedded cluster, so that
other runs and checkouts reuse them.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from quintet.local.build.programs import content_hash, go_environment
from quintet.local.build.toolchain import find_go
from quintet.local.paths import cache_directory, hold_lock

HERE = Path(__file__).resolve().parent
GO_MODULE = HERE / "peers/go"
REQUIREMENTS = HERE / "requirements.txt"
GO_PROGRAMS = ("replay", "operator")
# A separate module, so that the publisher benchmark does not build a Kubernetes client.
PUBLISHER_MODULE = HERE / "peers/publisher"
PUBLISHER_PROGRAMS = ("proxy", "load")

Progress = Callable[[str], None]


def go_programs(progress: Progress) -> Path:
    """Build the Go contenders; return the folder with `replay` and `operator`."""
    return _build_module("bench-go", GO_MODULE, GO_PROGRAMS, progress)


def publisher_programs(progress: Progress) -> Path:
    """Build the publisher contenders; return the folder with `proxy` and the sender `load`."""
    return _build_module("bench-publisher", PUBLISHER_MODULE, PUBLISHER_PROGRAMS, progress)


def _build_module(name: str, module: Path, programs: Sequence[str], progress: Progress) -> Path:
    key = content_hash(module, platform.system(), platform.machine())
    return _cached(f"{name}-{key}", lambda folder: _compile_go(folder, module, programs, progress))


def python_environment(progress: Progress) -> Path:
    """Return the Python of an environment with Kopf and matplotlib."""
    version = ".".join(map(str, sys.version_info[:3]))
    key = hashlib.sha256(f"{REQUIREMENTS.read_text()}\0{version}".encode()).hexdigest()[:16]
    folder = _cached(f"bench-python-{key}", lambda target: _install(target, progress), moves=False)
    return folder / "bin/python"


def _cached(name: str, make: Callable[[Path], None], *, moves: bool = True) -> Path:
    """Return a cached folder, created completely or not at all; environments cannot be moved."""
    product, done = cache_directory() / name, cache_directory() / f"{name}.done"
    with hold_lock(cache_directory() / f"{name}.lock"):
        if done.exists() and product.is_dir():
            return product
        target = product.with_name(f"{name}.unfinished") if moves else product
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        make(target)
        if moves:
            target.rename(product)
        done.touch()
    return product


def _compile_go(folder: Path, module: Path, programs: Sequence[str], progress: Progress) -> None:
    go = find_go(progress)
    progress(f"building the Go contenders with {go} (the first time takes some minutes)")
    for name in programs:
        command = [str(go), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(folder / name), f"./{name}"]
        _run(command, cwd=module, env=go_environment())


def _install(folder: Path, progress: Progress) -> None:
    progress("installing Kopf and matplotlib into a separate environment")
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--only-binary=:all:", "-r", str(REQUIREMENTS)])


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} … failed:\n{result.stderr.strip()[-2000:]}")
