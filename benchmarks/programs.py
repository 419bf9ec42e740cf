"""The programs of the contenders: Go commands and a Python environment, made once per user.

Kept in the user's cache under the hash of what they are made from, like the programs of the
embedded cluster (`quintet.local.build.programs`), so that a second run and a fresh clone use them again.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from quintet.local.build.programs import content_hash
from quintet.local.build.toolchain import find_go
from quintet.local.paths import cache_directory, hold_lock

HERE = Path(__file__).resolve().parent
GO_MODULE = HERE / "peers/go"
REQUIREMENTS = HERE / "requirements.txt"
GO_PROGRAMS = ("replay", "operator")
# A module of its own: whoever measures events need not build a Kubernetes client.
PUBLISHER_MODULE = HERE / "peers/publisher"
PUBLISHER_PROGRAMS = ("proxy", "load")

Progress = Callable[[str], None]


def go_programs(progress: Progress) -> Path:
    """The folder that holds `replay` and `operator`."""
    return _go("bench-go", GO_MODULE, GO_PROGRAMS, progress)


def publisher_programs(progress: Progress) -> Path:
    """The folder that holds `proxy`, which takes events in, and `load`, which sends them."""
    return _go("bench-publisher", PUBLISHER_MODULE, PUBLISHER_PROGRAMS, progress)


def _go(name: str, module: Path, programs: Sequence[str], progress: Progress) -> Path:
    key = content_hash(module, platform.system(), platform.machine())
    return _kept(f"{name}-{key}", lambda folder: _build_go(folder, module, programs, progress))


def python_environment(progress: Progress) -> Path:
    """The interpreter of an environment with Kopf and matplotlib."""
    version = ".".join(map(str, sys.version_info[:3]))
    key = hashlib.sha256(f"{REQUIREMENTS.read_text()}\0{version}".encode()).hexdigest()[:16]
    folder = _kept(f"bench-python-{key}", lambda target: _install(target, progress), moves=False)
    return folder / "bin/python"


def _kept(name: str, make: Callable[[Path], None], *, moves: bool = True) -> Path:
    """A folder of the cache, complete or absent; an environment cannot be moved once it is made."""
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


def _build_go(folder: Path, module: Path, programs: Sequence[str], progress: Progress) -> None:
    go = find_go(progress)
    progress(f"building the Go contenders with {go} (the first time takes some minutes)")
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    for name in programs:
        command = [str(go), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(folder / name), f"./{name}"]
        _run(command, cwd=module, env=environment)


def _install(folder: Path, progress: Progress) -> None:
    progress("installing Kopf and matplotlib into an environment of their own")
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--only-binary=:all:", "-r", str(REQUIREMENTS)])


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    answer = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} … failed:\n{answer.stderr.strip()[-2000:]}")
