"""Checks whether this machine can run the embedded cluster, without and with nodes.

`read_host` reads the facts and changes nothing; `check_host`, which is pure, decides.
"""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.install.doctor.findings import FAILED, OK, WARNING, Finding
from quintet.local.build.packages import SEARCH, find_program
from quintet.local.build.programs import ROOM, is_built
from quintet.local.build.runtime import (
    MINIMUM_CONTAINERD,
    MINIMUM_RUNC,
    find_runtime_versions,
    format_version,
)
from quintet.local.build.toolchain import MINIMUM, find_installed_go
from quintet.local.node.cgroups import find_hierarchies
from quintet.local.node.filesystems import can_grow_in_use
from quintet.local.node.parts import TOOLS
from quintet.local.paths import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MACHINE, NODE = "machine", "nodes"
GIB = 2**30
# What a cluster with one node uses when it is idle.
MEMORY = 2 * GIB
# Devices of these types connect the nodes. Created in a network namespace that ends with the command.
NETWORK = (
    "unshare",
    "--net",
    "sh",
    "-c",
    "ip link add type bridge && ip link add type veth && nft list tables",
)
WITHOUT_NODE = "`quintet up` without --node works here"


@dataclass(frozen=True, slots=True)
class Host:
    """What was found on a machine."""

    system: str
    architecture: str
    memory: int
    disk: int
    """Free space of the cache in bytes."""
    go: Path | None
    built: bool
    """Whether Kubernetes is in the cache."""
    root: bool
    cgroups: bool
    """Whether the cgroups are writable."""
    missing: tuple[str, ...]
    """The packages of missing programs."""
    apt: bool
    containerd: tuple[int, int] | None
    runc: tuple[int, int] | None
    builder: str | None
    """The program that builds images; None if there is none."""
    network: str | None
    """Why the kernel cannot create the network of a node; empty if it can, None if that was not tried."""
    overlay: bool
    loop_devices: bool
    grows_in_use: bool


def read_host() -> Host:
    """Return the facts about this machine; nothing is changed."""
    linux = platform.system() == "Linux"
    root = linux and os.geteuid() == 0
    hierarchies = find_hierarchies() if linux else []
    missing = sorted({package for program, package in TOOLS.items() if not find_program(program)})
    containerd, runc = find_runtime_versions()
    return Host(
        system=platform.system(),
        architecture=platform.machine(),
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        disk=_free_space(cache_directory()),
        go=find_installed_go(),
        built=is_built(),
        root=root,
        cgroups=bool(hierarchies) and all(os.access(each, os.W_OK) for each in hierarchies),
        missing=tuple(missing),
        apt=find_program("apt-get") is not None,
        containerd=containerd,
        runc=runc,
        builder=_find_builder(),
        network=_try_network() if root and not missing else None,
        overlay=linux and "\toverlay\n" in Path("/proc/filesystems").read_text(),
        loop_devices=Path("/dev/loop-control").exists(),
        grows_in_use=linux and can_grow_in_use(),
    )


def check_host(host: Host) -> list[Finding]:
    """Return the findings about the machine, then those about nodes, each with the next step."""
    return [*_check_machine(host), *_check_node(host)]


def verdict(findings: Sequence[Finding]) -> str:
    """Return in one sentence what the findings mean."""
    failed = {each.group for each in findings if each.status == FAILED}
    if MACHINE in failed:
        return "the embedded cluster cannot run here yet"
    if NODE in failed:
        return "the embedded cluster can run here, but not with nodes yet"
    return "the embedded cluster can run here"


def _check_machine(host: Host) -> list[Finding]:
    place = f"{host.system} on {host.architecture}"
    supported = host.system in ("Linux", "Darwin") and host.architecture in ("x86_64", "aarch64", "arm64")
    if (host.system, host.architecture) == ("Linux", "x86_64"):
        platform_finding = Finding(MACHINE, "platform", OK, place)
    elif supported:
        untested = f"{place}: all programs can be built for it, but it is not tested"
        platform_finding = Finding(MACHINE, "platform", WARNING, untested, "try it: `quintet up`")
    else:
        step = "use Linux or macOS on x86_64 or arm64, for example in a virtual machine"
        platform_finding = Finding(MACHINE, "platform", FAILED, f"{place} is not supported", step)
    memory = f"{host.memory / GIB:.1f} GiB"
    if host.memory < MEMORY:
        step = f"a cluster with a node uses {MEMORY / GIB:.0f} GiB; {WITHOUT_NODE}"
        memory_finding = Finding(MACHINE, "memory", WARNING, memory, step)
    else:
        memory_finding = Finding(MACHINE, "memory", OK, memory)
    return [platform_finding, memory_finding, _check_kubernetes(host)]


def _check_kubernetes(host: Host) -> Finding:
    if host.built:
        return Finding(MACHINE, "kubernetes", OK, "built, in the cache")
    if host.disk < ROOM:
        free = f"the first `up` builds it, and only {host.disk / GIB:.1f} GiB are free for the cache"
        step = f"free {ROOM // GIB} GiB, or set XDG_CACHE_HOME to a folder on another disk"
        return Finding(MACHINE, "kubernetes", FAILED, free, step)
    go = f"with {host.go}" if host.go else f"with Go {format_version(MINIMUM)}, which pip downloads"
    return Finding(MACHINE, "kubernetes", OK, f"the first `up` builds it in about ten minutes, {go}")


def _check_node(host: Host) -> Iterator[Finding]:
    if host.system != "Linux":
        yield Finding(
            NODE, "platform", WARNING, "nodes need Linux, because pods are Linux processes", WITHOUT_NODE
        )
        return
    yield _require("root", host.root, "you are root", "you are not root", "run --node as root")
    yield _require(
        "cgroups",
        host.cgroups,
        "writable",
        "/sys/fs/cgroup is not writable",
        "in a container, run it privileged; elsewhere, be root",
    )
    missing = ", ".join(host.missing)
    yield _require(
        "tools",
        not missing or host.apt,
        f"the first `up --node` installs {missing} with apt" if missing else "installed",
        f"missing: {missing}",
        f"install {missing} with the package manager of your system",
    )
    if host.network is not None:
        yield _require(
            "network",
            not host.network,
            "the kernel has bridges, veth links and nftables",
            f"the kernel refuses what a node needs: {host.network}",
            "load the kernel modules bridge, veth and nf_tables",
        )
    yield _check_runtime(host)
    yield _require(
        "images",
        host.builder is not None,
        f"built with {host.builder}",
        "no program can build images here",
        "install docker or podman, and start it",
    )
    slow = "the kernel does not list overlayfs: without it, images take more disk space and time"
    step = "load the kernel module overlay"
    yield (
        Finding(NODE, "overlayfs", OK, "known")
        if host.overlay
        else Finding(NODE, "overlayfs", WARNING, slow, step)
    )
    yield _check_volumes(host)


def _check_runtime(host: Host) -> Finding:
    """Check runc, which is the machine's or a Debian package; containerd and the CNI plugins can be built."""
    own = host.containerd is not None and host.containerd >= MINIMUM_CONTAINERD
    containerd = "containerd of this machine" if own else "the first `up --node` builds containerd"
    unpacked = host.runc is None or host.runc < MINIMUM_RUNC
    runc = "runc of a Debian package, in the cache" if unpacked else "runc of this machine"
    needed = f"runc {format_version(MINIMUM_RUNC)} or newer"
    works = not unpacked or host.apt
    return _require("runtime", works, f"{containerd}; {runc}", f"missing: {needed}", f"install {needed}")


def _check_volumes(host: Host) -> Finding:
    if not host.loop_devices:
        lacks = "there are no loop devices: only the StorageClass standard works"
        step = "load the kernel module loop; in a container, run it privileged"
        return Finding(NODE, "volumes", WARNING, lacks, step)
    when = "in use" if host.grows_in_use else "when no pod uses them, because CAP_SYS_RESOURCE is missing"
    return Finding(NODE, "volumes", OK, f"volumes of the StorageClass exact grow {when}")


def _require(check: str, holds: bool, good: str, bad: str, step: str) -> Finding:
    return Finding(NODE, check, OK, good) if holds else Finding(NODE, check, FAILED, bad, step)


def _free_space(folder: Path) -> int:
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    found = os.statvfs(existing)
    return found.f_bavail * found.f_frsize


def _find_builder() -> str | None:
    for engine in ("docker", "podman"):
        # docker is often installed without a running daemon.
        if find_program(engine) and _run(engine, "info").returncode == 0:
            return engine
    return "buildah" if find_program("apt-get") else None


def _try_network() -> str:
    result = _run(*NETWORK)
    lines = result.stderr.strip().splitlines() or ["no error message"]
    return "" if result.returncode == 0 else lines[-1]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        environment = os.environ | {"PATH": SEARCH}
        return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
