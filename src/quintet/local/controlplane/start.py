"""Starts the four programs of a control plane in order, with their flags and certificates.

Without a node, ports are free ones on loopback; with a node, the programs run in a network namespace
and use the standard ports.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from quintet.local.api import Api
from quintet.local.controlplane import audit
from quintet.local.process import wait_while_running

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from quintet.local.controlplane.layout import Layout
    from quintet.local.process import ManagedProcess

SERVICE_RANGE = "10.96.0.0/16"
FIRST_SERVICE_ADDRESS = "10.96.0.1"
# For a program that hangs, on a slow machine; one that ends is reported at once.
START_SECONDS = 180.0
# With several nodes, a failure is noticed sooner than by default (50 s and 300 s), to try failover.
NOT_READY_AFTER = 20
EVICT_AFTER = 30


def write_certificates(layout: Layout) -> None:
    """Write the certificates and kubeconfigs of every component."""
    # Imported here because `cryptography` takes long to import and most commands do not need it.
    from quintet.local.controlplane.certificates import (
        CLIENTS,
        Authority,
        write_kubeconfig,
    )

    if layout.audited:
        audit.write_policy(layout.directory)
    authority = Authority.create(layout.pki)
    hosts = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1"]
    hosts += ["kubernetes.default.svc.cluster.local", FIRST_SERVICE_ADDRESS]
    hosts += [layout.address] if layout.address else []
    authority.issue("apiserver", "kube-apiserver", hosts=hosts)
    for name, (common_name, organizations) in CLIENTS.items():
        authority.issue(name, common_name, organizations)
    for name in ("admin", "kube-controller-manager", "kube-scheduler", "kube-proxy"):
        write_component_kubeconfig(layout, name)
    outer = f"https://127.0.0.1:{layout.outer_port}"
    files = layout.pki / "ca.crt", layout.pki / "admin.crt", layout.pki / "admin.key"
    write_kubeconfig(layout.directory / "kubeconfig", outer, *files)


def write_component_kubeconfig(layout: Layout, name: str) -> Path:
    """Write the kubeconfig of a component inside the cluster's network; return its path."""
    from quintet.local.controlplane.certificates import write_kubeconfig

    path = layout.pki / f"{name}.kubeconfig"
    files = layout.pki / "ca.crt", layout.pki / f"{name}.crt", layout.pki / f"{name}.key"
    write_kubeconfig(path, layout.server, *files)
    return path


def start_control_plane(layout: Layout) -> None:
    """Start the four programs and wait until the API server is ready and the controllers work."""
    etcd = layout.start("etcd", _etcd(layout))
    # The API server retries until etcd responds, so both can start at once.
    apiserver = layout.start("kube-apiserver", _apiserver(layout))
    wait_until_ready(layout.directory, layout.outer_port, [etcd, apiserver])
    controllers = layout.start("kube-controller-manager", _controller_manager(layout))
    scheduler = layout.start("kube-scheduler", _component(layout, "kube-scheduler"))
    _wait_for_controllers(layout, [etcd, apiserver, controllers, scheduler])


def wait_until_ready(directory: Path, port: int, processes: Sequence[ManagedProcess]) -> None:
    """Wait until the API server is ready; raise an error if a process ends or the time is up."""
    api, server = Api(directory, port), processes[-1]
    late = partial(server.failure, "does not get ready")
    wait_while_running(processes, lambda: api.get("/readyz") is not None, START_SECONDS, late)


def _wait_for_controllers(layout: Layout, processes: Sequence[ManagedProcess]) -> None:
    # Pods can be created only after the controllers have created the namespace's ServiceAccount.
    api = Api(layout.directory, layout.outer_port)
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    late = partial(processes[2].failure, "does not work")
    wait_while_running(processes, lambda: api.get(path) is not None, START_SECONDS, late)


def _flags(values: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


def _etcd(layout: Layout) -> list[str]:
    flags: dict[str, object] = {
        "data-dir": layout.directory / "etcd",
        "listen-client-urls": layout.etcd_url,
        "advertise-client-urls": layout.etcd_url,
        "listen-peer-urls": f"http://127.0.0.1:{layout.peer_port}",
        "initial-advertise-peer-urls": f"http://127.0.0.1:{layout.peer_port}",
        "initial-cluster": f"default=http://127.0.0.1:{layout.peer_port}",
    }
    return _flags(flags) + ([] if layout.durable else ["--unsafe-no-fsync"])


def _apiserver(layout: Layout) -> list[str]:
    pki = layout.pki
    flags: dict[str, object] = {
        "etcd-servers": layout.etcd_url,
        "secure-port": layout.api_port,
        "service-cluster-ip-range": SERVICE_RANGE,
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "client-ca-file": pki / "ca.crt",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": pki / "sa.pub",
        "service-account-signing-key-file": pki / "sa.key",
        "authorization-mode": "Node,RBAC",
        # As in OpenShift: with OwnerReferencesPermissionEnforcement, roles must grant access to finalizers.
        "enable-admission-plugins": "NodeRestriction,OwnerReferencesPermissionEnforcement",
        "kubelet-client-certificate": pki / "apiserver-kubelet.crt",
        "kubelet-client-key": pki / "apiserver-kubelet.key",
        "kubelet-preferred-address-types": "InternalIP",
        "requestheader-client-ca-file": pki / "ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": pki / "front-proxy.crt",
        "proxy-client-key-file": pki / "front-proxy.key",
        "allow-privileged": "true",
    }
    if layout.address:
        flags |= {"bind-address": "0.0.0.0", "advertise-address": layout.address}
        # Webhooks are called at the addresses of their pods: no kube-proxy runs beside the control plane.
        flags["enable-aggregator-routing"] = "true"
    else:
        # The API server rejects a loopback address as endpoint, and without pods none is needed.
        flags |= {"bind-address": "127.0.0.1", "endpoint-reconciler-type": "none"}
    if layout.nodes > 1:
        flags |= {f"default-{each}-toleration-seconds": EVICT_AFTER for each in ("not-ready", "unreachable")}
    return _flags(flags | (audit.apiserver_flags(layout.directory) if layout.audited else {}))


def _component(layout: Layout, name: str) -> list[str]:
    path = layout.pki / f"{name}.kubeconfig"
    flags: dict[str, object] = {
        "kubeconfig": path,
        "authentication-kubeconfig": path,
        "authorization-kubeconfig": path,
        "leader-elect": "false",
        "secure-port": 0,
        # The default of 20 requests per second delays fifty controllers when they start.
        "kube-api-qps": 1000,
        "kube-api-burst": 1000,
    }
    return _flags(flags)


def _controller_manager(layout: Layout) -> list[str]:
    pki = layout.pki
    flags: dict[str, object] = {
        "use-service-account-credentials": "true",
        "service-account-private-key-file": pki / "sa.key",
        "root-ca-file": pki / "ca.crt",
        "cluster-signing-cert-file": pki / "ca.crt",
        "cluster-signing-key-file": pki / "ca.key",
    }
    if layout.nodes > 1:
        flags |= {"node-monitor-period": "2s", "node-monitor-grace-period": f"{NOT_READY_AFTER}s"}
    return _component(layout, "kube-controller-manager") + _flags(flags)
