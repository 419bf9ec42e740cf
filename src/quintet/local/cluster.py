"""Starts and stops clusters, and gives tests and the command line a handle to a running cluster.

cluster.json is written last, so a cluster whose folder has that file was started completely. The next
start removes the remains of an incomplete one.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import subprocess
import urllib.request
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.local.api import Api
from quintet.local.build.programs import build_kubernetes
from quintet.local.build.versions import find_version, requested_version
from quintet.local.cleanup import remove_cluster, write_host
from quintet.local.controlplane import audit
from quintet.local.controlplane.layout import Layout, StartOptions
from quintet.local.controlplane.ports import free_ports
from quintet.local.controlplane.start import start_control_plane, wait_until_ready, write_certificates
from quintet.local.errors import LocalError, explain_os_error
from quintet.local.guard import guard_start, read_attempt
from quintet.local.node.layout import Node, is_of_stopped_node, list_nodes
from quintet.local.paths import cluster_directory, clusters_directory, hold_lock, write_file
from quintet.local.process import ManagedProcess, find_processes, wait_until
from quintet.local.repair import is_removable, repair_cluster
from quintet.local.teardown import remove_if_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


RESTART_SECONDS = 60.0
PORT_RACES = 3


@dataclass(frozen=True, slots=True)
class ClusterProcess(ManagedProcess):
    """A process of a running cluster, which a test can kill and restart."""

    cluster: Cluster

    def restart(self) -> None:
        """Kill the process, start the same command again and wait until it is ready."""
        self.kill()
        self.start_again()
        late = self.failure
        if self.name == "etcd" and not self.cluster.nodes:
            wait_until(self.cluster._etcd_healthy, RESTART_SECONDS, lambda: late("does not get ready"))
        else:
            self.cluster.wait_until_ready()


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    name: str
    kubeconfig: Path
    server: str
    version: str
    directory: Path
    programs: Path
    # With nodes, this address is inside the network namespace of the control plane.
    etcd_url: str
    nodes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()

    @property
    def node(self) -> str | None:
        """The name of the first node; None if there is none."""
        return self.nodes[0] if self.nodes else None

    @property
    def ca(self) -> Path:
        """The CA certificate that signed every certificate of the cluster."""
        return self.directory / "pki/ca.crt"

    @property
    def audit_log(self) -> Path | None:
        """The API server's audit log; None if the cluster was started without one."""
        return self.directory / audit.LOG if audit.is_enabled(self.directory) else None

    @property
    def port(self) -> int:
        """The loopback port of the API server."""
        return int(self.server.rpartition(":")[2])

    def summary(self) -> dict[str, str | list[str] | None]:
        """Return the fields that `quintet up -o json` prints."""
        return {
            "name": self.name,
            "kubeconfig": str(self.kubeconfig),
            "server": self.server,
            "version": self.version,
            "node": self.node,
            "nodes": list(self.nodes),
        }

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which kubectl uses this cluster and a cache of its own."""
        # In the user's kubectl cache, the next cluster on the same port would be taken for this one.
        own = {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.directory / "kubectl-cache")}
        return os.environ | own

    def process(self, name: str) -> ClusterProcess:
        """Return the process of a program, for example "kube-apiserver"."""
        return ClusterProcess(name, self.directory / "processes", self)

    def processes(self) -> list[ClusterProcess]:
        """Return every process that was started for the cluster."""
        return [self.process(each.name) for each in find_processes(self.directory / "processes")]

    def is_healthy(self) -> bool:
        """Return whether the API server is ready, and every process runs that is not of a stopped node."""
        nodes = self.list_nodes()
        expected = [each for each in self.processes() if not is_of_stopped_node(each, nodes)]
        return all(process.is_alive() for process in expected) and (
            Api(self.directory, self.port).get("/readyz") is not None
        )

    def list_nodes(self) -> list[Node]:
        """Return the nodes of the cluster, also stopped ones."""
        return list_nodes(self.directory, len(self.nodes), self.zones)

    def wait_until_ready(self) -> None:
        """Wait until the API server is ready."""
        wait_until_ready(self.directory, self.port, [self.process("kube-apiserver")])

    def _etcd_healthy(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.etcd_url}/health", timeout=2) as response:
                return b'"true"' in response.read()
        except OSError:
            return False

    def kubectl(self, *arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl on this cluster and return its result."""
        command = [str(self.programs / "kubectl"), *arguments]
        return subprocess.run(command, input=input, capture_output=True, text=True, env=self.environment)

    def certificate(
        self,
        common_name: str,
        organizations: Sequence[str] = (),
        valid_days: int = 1,
        not_after: datetime.datetime | None = None,
    ) -> tuple[Path, Path]:
        """Sign a client certificate for a user and groups; return the paths of certificate and key."""
        from quintet.local.controlplane.certificates import Authority

        until = not_after or datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=valid_days)
        file_name = f"client-{secrets.token_hex(6)}"
        return Authority.load(self.directory / "pki").issue(
            file_name, common_name, organizations, not_after=until
        )

    def client_kubeconfig(
        self,
        common_name: str,
        organizations: Sequence[str] = (),
        not_after: datetime.datetime | None = None,
    ) -> Path:
        """Write a kubeconfig for a new user, whose permissions RBAC decides; return its path."""
        from quintet.local.controlplane.certificates import write_kubeconfig

        certificate, key = self.certificate(common_name, organizations, not_after=not_after)
        path = certificate.with_suffix(".kubeconfig")
        write_kubeconfig(path, self.server, self.ca, certificate, key)
        return path


def up(
    name: str,
    *,
    nodes: int = 0,
    zones: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
    durable: bool = False,
    audited: bool = False,
    kubernetes: str | None = None,
) -> Cluster:
    """Start the cluster, or return the one that already runs; a failed start leaves nothing behind.

    Without `nodes`, any number of nodes of a running cluster is accepted.
    """
    report = progress or (lambda _: None)
    check = partial(_check, nodes=nodes, zones=tuple(zones), audited=audited, kubernetes=kubernetes)
    try:
        # Report an invalid name, or a running cluster of another version, before a build of ten minutes.
        directory = cluster_directory(name)
        if (found := load_cluster(name)) and found.is_healthy():
            return _refresh(check(found), report)
        programs = prepare(node=nodes > 0, progress=report, kubernetes=kubernetes)
        with hold_lock(find_lock(name)):
            if not is_removable(directory):
                repaired = repair_cluster(directory, load_cluster(name), report)
                return _refresh(check(repaired), report)
            return _start(StartOptions(name, programs, nodes, tuple(zones), durable, audited), report)
    except OSError as error:
        raise explain_os_error(error) from error
    finally:
        remove_if_empty(clusters_directory(), clusters_directory().parent)


def prepare(*, node: bool, progress: Callable[[str], None], kubernetes: str | None = None) -> Path:
    """Build what the cache lacks for a cluster; return the folder with the Kubernetes programs."""
    find_version(kubernetes)  # report an unknown version before the build
    if node:
        from quintet.local.node.parts import NodeParts, check_requirements

        check_requirements()
        NodeParts.find(progress)
    return build_kubernetes(progress, kubernetes)


def down(name: str, *, only_attempt: str | None = None) -> bool:
    """Stop the cluster and remove its folder; return whether the folder existed.

    With `only_attempt`, keep a cluster that another start has created since.
    """
    directory = cluster_directory(name)
    try:
        with hold_lock(find_lock(name)):
            existed = directory.exists()
            if existed and only_attempt in (None, read_attempt(name)):
                remove_cluster(directory)
            return existed
    except OSError as error:
        raise explain_os_error(error) from error
    finally:
        remove_if_empty(clusters_directory(), clusters_directory().parent)


def down_all() -> list[str]:
    """Stop every cluster of this user; return their names."""
    return [name for name in list_clusters() if down(name)]


def list_clusters() -> list[str]:
    """Return the names of this user's clusters."""
    return sorted(path.name for path in clusters_directory().glob("*") if path.is_dir())


def load_cluster(name: str) -> Cluster | None:
    """Return the cluster if its start was completed, healthy or not; else None."""
    known = {each.name for each in fields(Cluster)}
    directory = cluster_directory(name)
    try:
        stored = json.loads((directory / "cluster.json").read_text())
        values = {key: value for key, value in stored.items() if key in known}
        # Derived, never read: in a copied folder, the file names the cluster that it was copied from.
        values |= {"name": name, "directory": directory, "kubeconfig": directory / "kubeconfig"}
        values["programs"] = Path(values["programs"])
        for key in ("nodes", "zones"):
            values[key] = tuple(values.get(key, ()))
        return Cluster(**values)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None  # missing, damaged, or written by a version with other fields


def _start(options: StartOptions, report: Callable[[str], None]) -> Cluster:
    for remaining in reversed(range(PORT_RACES)):
        try:
            return _attempt_start(options, report)
        except LocalError as error:
            # Between choosing a free port and listening on it another process may take it.
            if remaining == 0 or "address already in use" not in error.message:
                raise
    raise AssertionError("unreachable")


def _attempt_start(options: StartOptions, report: Callable[[str], None]) -> Cluster:
    name, programs = options.name, options.programs
    directory = cluster_directory(name)
    attempt = secrets.token_hex(8)
    if directory.exists():
        report(f"removing the remains of cluster {name}")
        remove_cluster(directory)
    with guard_start(name, attempt):
        try:
            directory.mkdir(mode=0o700, parents=True)
            write_host(directory)
            write_file(directory / "attempt", attempt)
            nodes: list[Node] = []
            if options.nodes:
                from quintet.local.node.start import start_with_nodes

                layout, nodes = start_with_nodes(options, directory, report)
            else:
                etcd, peer, api = free_ports(3)
                layout = Layout(directory, programs, etcd, peer, api, api)
                layout = replace(layout, durable=options.durable, audited=options.audited)
                report(f"starting the control plane of cluster {name}")
                write_certificates(layout)
                start_control_plane(layout)
            return _store(layout, nodes, options.zones)
        except BaseException as error:
            remove_cluster(directory, keep_logs=isinstance(error, LocalError))
            raise


def _store(layout: Layout, nodes: Sequence[Node], zones: Sequence[str]) -> Cluster:
    """Write cluster.json, which marks the start as completed."""
    name = layout.directory.name
    version = Api(layout.directory, layout.outer_port).get("/version")
    stored = {
        "server": f"https://127.0.0.1:{layout.outer_port}",
        "version": version["gitVersion"] if version else "",
        "nodes": [node.name for node in nodes],
        "zones": list(zones),
        "programs": str(layout.programs),
        "etcd_url": layout.etcd_url,
    }
    write_file(layout.directory / "cluster.json", json.dumps(stored, indent=2))
    cluster = load_cluster(name)
    assert cluster is not None
    return cluster


def _check(
    cluster: Cluster, *, nodes: int, zones: tuple[str, ...], audited: bool, kubernetes: str | None
) -> Cluster:
    """Return the running cluster; raise an error if it lacks what the caller requires."""
    lacks = None
    if nodes and len(cluster.nodes) != nodes:
        found = len(cluster.nodes)
        lacks = f"with {found} node{'' if found == 1 else 's'}" if found else "without a node"
    elif zones and cluster.zones != zones:
        lacks = f"with the zones {', '.join(cluster.zones)}" if cluster.zones else "without zones"
    elif audited and cluster.audit_log is None:
        lacks = "without an audit log"
    elif requested_version(kubernetes) and cluster.version != f"v{find_version(kubernetes).release}":
        lacks = f"with Kubernetes {cluster.version}"
    if lacks:
        step = f"quintet down --name {cluster.name}, or choose another --name"
        raise LocalError(f"cluster {cluster.name} already runs, {lacks}", step)
    return cluster


def _refresh(cluster: Cluster, report: Callable[[str], None]) -> Cluster:
    """Load changed images into the nodes of a running cluster."""
    if cluster.nodes:
        from quintet.local.node.start import refresh_images

        refresh_images(cluster.list_nodes(), report)
    return cluster


def find_lock(name: str) -> Path:
    """Return the lock file that serializes changes of a cluster."""
    return clusters_directory() / f"{name}.lock"
