"""Stops and removes one cluster, after checking that `up` created its folder on this machine.

Every kill and removal goes through `teardown`. The file `host` names the machine that runs the cluster's
processes: a home directory can be shared between machines, and the processes are visible on one only.
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
# Files that every start writes first; earlier versions did not write HOST.
_MARKS = (HOST, "attempt", "processes", "processes.ending")
_MACHINE_ID = Path("/etc/machine-id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_FIRST_PID_NAMESPACE = "pid:[4026531836]"


def write_host(directory: Path) -> None:
    """Write the file that says that this cluster runs on this machine."""
    write_file(directory / HOST, json.dumps({"machine": machine_id(), "hostname": platform.node()}))


def machine_id() -> str:
    """Return the machine-id; in a container, or without a machine-id, return the host name."""
    try:
        # Containers often share the machine-id of their image.
        if str(_PID_NAMESPACE.readlink()) == _FIRST_PID_NAMESPACE:
            return _MACHINE_ID.read_text().strip() or platform.node()
    except OSError:
        pass
    return platform.node() if platform.system() == "Linux" else ""


def check_ownership(directory: Path) -> None:
    """Raise an error if `up` did not create the folder, or if its processes run on another machine."""
    found = [path.name for path in directory.iterdir() if not path.name.endswith(UNFINISHED)]
    if directory.is_symlink() or (found and not set(_MARKS) & set(found)):
        raise teardown.RefusedError(
            f"{directory} is not the folder of a cluster", "remove it by hand, or choose another --name"
        )
    try:
        stored = json.loads((directory / HOST).read_text())
    except (FileNotFoundError, ValueError):
        return  # written by an earlier version
    if stored.get("machine") not in ("", machine_id()):
        raise LocalError(
            f"cluster {directory.name} runs on another machine, {stored.get('hostname')}",
            f"run the command there; if that machine is gone, remove {directory}; or choose another --name",
        )


def remove_cluster(directory: Path, *, keep_logs: bool = False) -> None:
    """Stop every process of a cluster and remove its folder; `keep_logs` keeps the log files."""
    if not directory.exists():
        return
    check_ownership(directory)
    records, ending = directory / "processes", directory / "processes.ending"
    # A process writes its record before it executes its program. After the folder is renamed, a process
    # that is just starting cannot write its record and exits, so the records found now are complete.
    if records.exists() and not ending.exists():
        records.rename(ending)
    processes = [ManagedProcess(path.stem, path.parent) for path in directory.glob("processes*/*.pid")]
    # On SIGTERM the API server waits up to a minute for open watches, so kill it at once.
    end_processes([each for each in processes if each.name == "kube-apiserver"], grace=0)
    # All processes of a node are in its cgroup; its network and mounts end with the last process.
    cluster_cgroup(directory).clear()
    end_processes(processes)
    if not keep_logs:
        # If this is killed, the next `down` still recognizes the folder of a cluster.
        teardown.remove_tree(directory, within=clusters_directory(), last=_MARKS)
        return
    for path in [*directory.iterdir(), *directory.glob("processes.ending/*")]:
        if path.is_dir() and path != ending:
            teardown.remove_tree(path, within=directory)
        elif path.is_file() and path.suffix != ".log" and path.name != HOST:
            teardown.remove_file(path, within=directory)
    if ending.exists():
        ending.rename(records)
