"""Records what a cluster can leave behind on a machine, for comparison."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from quintet.local.node.cgroups import cluster_cgroup
from quintet.local.paths import cache_directory
from quintet.local.process import ProcessIdentity

# The name of the cluster with a node.
CLUSTER = "e2e"
# Folders that Kubernetes, containerd or the CNI plugins write to by default.
WATCHED = (
    "/etc",
    "/etc/cni",
    "/etc/cni/net.d",
    "/opt",
    "/opt/cni",
    "/run",
    "/run/netns",
    "/run/lock",
    "/tmp/hostpath_pv",
    "/usr/libexec",
    "/var/lib",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log",
    "/var/run",
)
SETTINGS = (
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)


@dataclass(frozen=True)
class MachineState:
    """Processes, mounts, network namespaces, cgroups, files, loop devices and kernel settings."""

    processes: frozenset[str]
    mounts: frozenset[str]
    networks: frozenset[str]
    cgroups: frozenset[str]
    files: frozenset[str]
    loops: frozenset[str]
    settings: frozenset[str]

    @classmethod
    def read(cls, state: Path) -> "MachineState":
        """Read the state of the machine and of everything below a state directory."""
        return cls(
            processes=frozenset(processes(state)),
            mounts=frozenset(_mounts(state)),
            networks=frozenset(_networks(state)),
            cgroups=frozenset(_cgroups(_group(state, CLUSTER))),
            files=frozenset(_files(state)),
            loops=frozenset(loop_devices(state)),
            settings=frozenset(_settings()),
        )

    def added_since(self, before: "MachineState") -> dict[str, list[str]]:
        """Return what was added since, by kind."""
        found = {each.name: getattr(self, each.name) - getattr(before, each.name) for each in fields(self)}
        return {name: sorted(added) for name, added in found.items() if added}


def processes(state: Path) -> list[str]:
    """Return processes of clusters in this state directory, found by command, environment or cgroup."""
    return [f"{folder.name} {command[:160]}" for folder, command in _processes(state)]


def find_processes_in_networks(networks: Iterable[str]) -> list[ProcessIdentity]:
    """Return the processes in these network namespaces. Namespace ids can be reused later."""
    ids = set(networks)
    folders = [folder for folder in Path("/proc").glob("[0-9]*") if _networks_of([folder]) & ids]
    return [found for folder in folders if (found := ProcessIdentity.of(int(folder.name)))]


def _processes(state: Path) -> Iterator[tuple[Path, str]]:
    groups = [_group(state, name) for name in (CLUSTER, "demo")]
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (folder / "environ").read_bytes().decode(errors="replace")
            cgroup = (folder / "cgroup").read_text()
            ours = str(state) in command + environment or any(name in cgroup for name in groups)
            if ours and int(folder.name) != os.getpid():
                yield folder, command


def _group(state: Path, name: str) -> str:
    return cluster_cgroup(state / "quintet/clusters" / name).name


def list_files(folder: Path) -> Iterator[str]:
    """Yield everything below a folder, even while it is being removed, where `rglob` fails."""
    for place, folders, files in os.walk(folder):
        yield from (str(Path(place) / name) for name in (*folders, *files))


def loop_devices(state: Path) -> set[str]:
    """Return the files below a state directory that loop devices use."""
    found = set()
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            found.add(path.read_text().strip())
    return {each for each in found if each.startswith(str(state))}


def _cgroups(name: str) -> set[str]:
    walked = os.walk("/sys/fs/cgroup")
    return {str(Path(place) / name) for place, folders, _ in walked if name in folders}


def _mounts(state: Path) -> set[str]:
    """Return mounts, without those of other tests (temporary folders) and image builds (the cache)."""
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    others = (tempfile.gettempdir() + os.sep, str(cache_directory()) + os.sep)
    return {point for point in points if point.startswith(str(state)) or not point.startswith(others)}


def _networks(state: Path) -> set[str]:
    """Return network namespaces of clusters in this state directory; others may start meanwhile."""
    return _networks_of(folder for folder, _ in _processes(state)) - {os.readlink("/proc/self/ns/net")}


def _networks_of(folders: Iterable[Path]) -> set[str]:
    found = set()
    for folder in folders:
        with suppress(OSError):
            found.add(os.readlink(folder / "ns/net"))
    return found


def _files(state: Path) -> set[str]:
    found = set(list_files(state))
    for folder in WATCHED:
        with suppress(OSError):
            found.update(str(path) for path in Path(folder).iterdir())
    return found


def _settings() -> set[str]:
    return {f"{name}={(Path('/proc/sys') / name).read_text().strip()}" for name in SETTINGS}
