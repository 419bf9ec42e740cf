"""Requirements, programs and images of nodes, found or built before anything is started."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quintet.local.build import programs
from quintet.local.build.packages import install_tools
from quintet.local.build.runtime import ContainerRuntime, find_container_runtime
from quintet.local.errors import LocalError
from quintet.local.images.build import build_archives
from quintet.local.node.cgroups import find_hierarchies

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOOLS = {
    "ip": "iproute2",
    "nft": "nftables",
    "mount": "mount",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "resize2fs": "e2fsprogs",
}


@dataclass(frozen=True, slots=True)
class NodeParts:
    """Programs and images of a node."""

    runtime: ContainerRuntime
    dns: Path
    archives: dict[str, Path]

    @classmethod
    def find(cls, report: Callable[[str], None]) -> NodeParts:
        """Find the parts in the cache or on the machine; build or download what is missing."""
        install_tools(TOOLS, report)
        return cls(find_container_runtime(report), programs.build_dns(report), build_archives(report))


def check_requirements() -> None:
    """Raise an error if a node cannot run on this machine."""
    if platform.system() != "Linux":
        raise LocalError(
            f"--node needs Linux, because pods are Linux processes; this is {platform.system()}",
            "omit --node: the control plane runs here",
        )
    if os.geteuid() != 0:
        raise LocalError(
            "--node needs root, because it creates network namespaces, mounts and cgroups",
            "run the command as root, or omit --node: the control plane needs no root",
        )
    if not find_hierarchies() or not all(os.access(each, os.W_OK) for each in find_hierarchies()):
        raise LocalError(
            "--node needs writable cgroups, and /sys/fs/cgroup is not writable",
            "in a container, run it privileged; or omit --node",
        )
