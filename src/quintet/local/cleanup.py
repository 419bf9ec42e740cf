"""Ends and removes one cluster, after checking that its folder was made here by `up`.

Called by `cluster`; everything it ends or removes goes through `teardown`. A folder says by the file `host`
which machine its processes run on: a home directory can be shared, and only there can they be seen.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

from quintet.local import teardown
from quintet.local.errors import LocalError
from quintet.local.node.cgroups import cluster_cgroup
from quintet.local.paths import UNFINISHED, clusters_directory, write_file
from quintet.local.process import ManagedProcess, end_processes

HOST = "host"
# What every start writes first; one of an earlier version has no HOST.
_MARKS = (HOST, "attempt", "processes", "processes.ending")
_MACHINE_ID = Path("/etc/machine-id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_FIRST_PID_NAMESPACE = "pid:[4026531836]"


def write_host(directory: Path) -> None:
    """Note that the processes of this cluster run on this machine."""
    write_file(directory / HOST, json.dumps({"machine": machine_id(), "hostname": platform.node()}))


def machine_id() -> str:
    """Name this machine: by its machine-id, or by its host name in a container or without that file."""
    try:
        # Containers share the machine-id of their image as often as not.
        if str(_PID_NAMESPACE.readlink()) == _FIRST_PID_NAMESPACE:
            return _MACHINE_ID.read_text().strip() or platform.node()
    except OSError:
        pass
    return platform.node() if platform.system() == "Linux" else ""


def check_ownership(directory: Path) -> None:
    """Refuse a folder that `up` did not make, or whose processes are those of another machine."""
    found = [path.name for path in directory.iterdir() if not path.name.endswith(UNFINISHED)]
    if directory.is_symlink() or (found and not set(_MARKS) & set(found)):
        raise teardown.RefusedError(
            f"{directory} is not the folder of a cluster", "remove it by hand, or choose another --name"
        )
    try:
        stored = json.loads((directory / HOST).read_text())
    except (FileNotFoundError, ValueError):
        return  # of an earlier version
    if stored.get("machine") not in ("", machine_id()):
        raise LocalError(
            f"cluster {directory.name} runs on another machine, {stored.get('hostname')}",
            f"run the command there; if that machine is gone, remove {directory}; or choose another --name",
        )


def remove_cluster(directory: Path, *, keep_logs: bool = False) -> None:
    """End every process of a cluster, then remove its folder, but for the logs an error names."""
    if not directory.exists():
        return
    check_ownership(directory)
    records, ending = directory / "processes", directory / "processes.ending"
    # A process notes itself before it becomes its program. Once the folder has another name, one that
    # is just being started can do neither: those found now are all there will ever be.
    if records.exists() and not ending.exists():
        records.rename(ending)
    processes = [ManagedProcess(path.stem, path.parent) for path in directory.glob("processes*/*.pid")]
    # On SIGTERM the API server would wait up to a minute for open watches.
    end_processes([each for each in processes if each.name == "kube-apiserver"], grace=0)
    # Everything of a node is in its cgroup; its network and mounts go with the last process.
    cluster_cgroup(directory).clear()
    end_processes(processes)
    if not keep_logs:
        teardown.remove_tree(directory, within=clusters_directory())
        return
    for path in [*directory.iterdir(), *directory.glob("processes.ending/*")]:
        if path.is_dir() and path != ending:
            teardown.remove_tree(path, within=directory)
        elif path.is_file() and path.suffix != ".log" and path.name != HOST:
            teardown.remove_file(path, within=directory)
    if ending.exists():
        ending.rename(records)
