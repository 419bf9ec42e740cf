"""Builds Kubernetes, etcd, containerd, cluster DNS and pause from Go sources, once per user and version.

The cache names a product by the hash of its sources, so that other checkouts, clusters and CI reuse it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quintet.local.build.toolchain import find_go
from quintet.local.build.versions import CONTAINERD, DEFAULT, ModuleSet, find_version
from quintet.local.errors import LocalError, explain_os_error
from quintet.local.paths import build_folder, cache_directory, hold_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
# Disk space that a first build needs for modules, the compiler's cache and the product.
ROOM = 6 * 2**30
REPORT_EVERY = 10.0


def is_built(version: str | None = None) -> bool:
    """Return whether the programs of Kubernetes are in the cache."""
    return _Program("kube", (".",), find_version(version), PROGRAMS).product().is_dir()


def build_kubernetes(progress: Callable[[str], None], version: str | None = None) -> Path:
    """Build the programs of Kubernetes and etcd; return the folder that holds each under its name."""
    return _find_or_build(_Program("kube", (".",), find_version(version), PROGRAMS), progress)


def build_dns(progress: Callable[[str], None]) -> Path:
    """Build the cluster's DNS server; return the folder that holds `dns`."""
    return _find_or_build(_Program("dns", ("./dns",)), progress)


def build_pause(progress: Callable[[str], None]) -> Path:
    """Build the static binary of the sandbox image; return the folder that holds `pause`."""
    return _find_or_build(_Program("pause", ("./pause",)), progress)


def build_containerd(progress: Callable[[str], None]) -> Path:
    """Build containerd and the CNI plugins; return the folder that holds each program under its name."""
    return _find_or_build(_Program("container-runtime", CONTAINERD.tools, CONTAINERD), progress)


def content_hash(directory: Path, *extra: str, without: Sequence[str] = ()) -> str:
    """Return a short hash of names and contents of the files below `directory`, and of `extra`."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not set(without) & set(path.relative_to(directory).parts):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(directory)}\0{len(content)}\0".encode())
            digest.update(content)
    for word in extra:
        digest.update(f"\0{word}".encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Program:
    """Go packages that are built into one folder of the cache, and names to link to the program."""

    name: str
    packages: tuple[str, ...]
    modules: ModuleSet = DEFAULT
    links: tuple[str, ...] = ()

    def key(self) -> str:
        """Return the hash of its sources, versions and platform."""
        locks = self.modules.locks
        replaced = ("go.mod", "go.sum") if locks else ()
        return content_hash(
            self.modules.sources, platform.system(), platform.machine(), *locks, without=replaced
        )

    def product(self) -> Path:
        """Return the folder in the cache that holds the program once it is built."""
        return cache_directory() / f"{self.name}-{self.key()}"


def _find_or_build(program: _Program, progress: Callable[[str], None]) -> Path:
    product = program.product()
    if product.is_dir():
        return product
    try:
        with hold_lock(product.with_name(f"{product.name}.lock")):
            # The previous holder of the lock may have built it.
            if not product.is_dir():
                _build(program, product, progress)
    except OSError as error:
        raise explain_os_error(error) from error
    return product


def _build(program: _Program, product: Path, progress: Callable[[str], None]) -> None:
    go = find_go(progress)
    with build_folder(product) as unfinished:
        started = time.monotonic()
        title = f"{program.name} ({program.modules.title})"
        progress(f"building {title} with {go} (the first time takes minutes)")
        # Several programs are built into the folder, each under the name of its package.
        output = unfinished if len(program.packages) > 1 else unfinished / program.name
        _compile(go, program, output, progress)
        for link in program.links:
            (unfinished / link).symlink_to(program.name)
        unfinished.chmod(0o755)
        unfinished.rename(product)
        progress(f"built {title} in {time.monotonic() - started:.0f} s: {product}")


def go_environment() -> dict[str, str]:
    """Return an environment in which Go builds the same binary on every machine."""
    # Keep the user's Go settings (proxy, cache folders) except those that change the binary.
    # Without cgo, the build needs no C compiler and the binary runs in an empty image.
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _command(go: Path, program: _Program, output: Path) -> list[str]:
    flags = " ".join(("-s -w", *program.modules.link_flags))
    modules = f"-modfile={program.modules.modfile}"
    options = ["-v", "-trimpath", modules, "-ldflags", flags, "-o", str(output)]
    return [str(go), "build", *options, *program.packages]


def _compile(go: Path, program: _Program, output: Path, progress: Callable[[str], None]) -> None:
    command = _command(go, program, output)
    lines: deque[str] = deque(maxlen=50)
    started = reported = time.monotonic()
    compiled = 0
    with subprocess.Popen(
        command,
        cwd=program.modules.sources,
        env=go_environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as build:
        assert build.stderr is not None
        try:
            for line in build.stderr:
                lines.append(line.strip())
                compiled += 1
                if time.monotonic() - reported >= REPORT_EVERY:
                    reported = time.monotonic()
                    progress(f"  {reported - started:4.0f} s, {compiled} packages, now {line.strip()}")
        except BaseException:
            build.kill()
            raise
    if build.returncode != 0:
        raise _failure(list(lines), output, program.modules)


def _failure(lines: list[str], output: Path, modules: ModuleSet = DEFAULT) -> LocalError:
    """Return an error with the reason of a failed build in one line, and the next step."""
    text = "\n".join(lines)
    if "no space left on device" in text:
        return LocalError(
            f"the disk became full while building ({output.parent.parent}, or Go's own cache)",
            f"free about {ROOM // 2**30} GB and run the command again",
        )
    if "dial tcp" in text or "no such host" in text or "i/o timeout" in text:
        return LocalError(
            f"Go modules could not be downloaded: {lines[-1]}",
            "check the network or set GOPROXY, then try again",
        )
    reason = next((line for line in lines if ":" in line and not line.startswith("#")), text[-200:])
    return LocalError(
        f"building from {modules.sources} with {modules.modfile} failed: {reason}",
        f"run `go build -modfile={modules.modfile} …` in {modules.sources} to see the full output",
    )
