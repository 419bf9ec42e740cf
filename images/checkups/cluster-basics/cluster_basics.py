"""Checks the basics of a cluster from a pod: DNS, API server, a Service, and the nodes.

- samples: number of measurements of each part (5)
- maxDnsMs, maxApiServerMs, maxServiceMs: the slowest median that passes, in milliseconds (no limit)

The Service part needs permission to create and delete Services, the node part to list nodes. A part without
permission is skipped, and its result says so. Every part runs, even after another has failed; the failure
reason names all failed parts.
"""

from __future__ import annotations

import http.client
import http.server
import os
import secrets
import socket
import statistics
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import kiagnose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

API_NAME = "kubernetes.default.svc"
PORT = 8080
MOST_SAMPLES = 1000
# kube-proxy and DNS take a moment to handle a new Service.
SERVICE_SECONDS = 20.0
PAUSE = 0.1
LEFT_OUT = "left out: the ServiceAccount may not {verb} {resource}"
# Conditions that mean a problem if they are True; Ready means one if it is not.
TROUBLES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def check(run: kiagnose.Run) -> None:
    """Run every part; fail with the problems of all parts."""
    samples = int(run.number("samples", 5))
    if not 1 <= samples <= MOST_SAMPLES:
        raise kiagnose.Failure(f"input: parameter samples is {samples}; use 1 to {MOST_SAMPLES}")
    findings = []
    for part in (_dns, _api_server, _service, _nodes):
        try:
            part(run, samples)
        except (kiagnose.Failure, kiagnose.Refused, OSError, http.client.HTTPException) as error:
            name = part.__name__.strip("_").replace("_", " ")
            findings.append(f"{name}: {error}")
            kiagnose.say(findings[-1])
        run.publish()
    if findings:
        raise kiagnose.Failure(f"check: {'; '.join(findings)}")


def _dns(run: kiagnose.Run, samples: int) -> None:
    """Resolve the name of the API server, and a name that does not exist."""
    found: list[str] = []
    times = [_timed(lambda: found.append(_lookup())) for _ in range(samples)]
    run.result("dnsAddress", found[-1])
    _record(run, "dns", "maxDnsMs", times)
    with suppress(socket.gaierror):
        wrong = _resolve(f"{secrets.token_hex(8)}.{run.namespace}.svc.cluster.local")
        raise kiagnose.Failure(
            f"a name that does not exist resolves to {wrong}; check the resolver for a wildcard record"
        )


def _api_server(run: kiagnose.Run, samples: int) -> None:
    """Request the version of the API server through its Service."""
    answers: list[Any] = []
    times = [_timed(lambda: answers.append(run.api.request("GET", "/version"))) for _ in range(samples)]
    run.result("apiServerVersion", answers[-1]["gitVersion"])
    _record(run, "apiServer", "maxApiServerMs", times)


def _service(run: kiagnose.Run, samples: int) -> None:
    """Send requests to a new Service whose endpoint is this pod."""
    if not all(_is_allowed(run, verb, "services") for verb in ("create", "delete")):
        run.result("service", LEFT_OUT.format(verb="create and delete", resource="services"))
        return
    nonce = secrets.token_hex(16)
    with _serve(nonce), _create_service(run) as name:
        started = time.monotonic()
        while True:
            try:
                _send_request(name, run.namespace, nonce)
                break
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() - started > SERVICE_SECONDS:
                    raise kiagnose.Failure(
                        f"a new Service does not respond within {SERVICE_SECONDS:g} s: {error};"
                        " check kube-proxy and the NetworkPolicies of the namespace"
                    ) from error
                time.sleep(PAUSE)
        run.result("serviceReadyMs", round((time.monotonic() - started) * 1000, 1))
        times = [_timed(lambda: _send_request(name, run.namespace, nonce)) for _ in range(samples)]
    run.result("service", "answered")
    _record(run, "service", "maxServiceMs", times)


def _nodes(run: kiagnose.Run, samples: int) -> None:
    """Check the conditions of all nodes once."""
    if not _is_allowed(run, "list", "nodes"):
        run.result("nodes", LEFT_OUT.format(verb="list", resource="nodes"))
        return
    found = run.api.request("GET", "/api/v1/nodes?limit=5000")["items"]
    troubles = {node["metadata"]["name"]: trouble for node in found if (trouble := troubles_of(node))}
    run.result("nodes", len(found))
    run.result("nodesReady", sum(_status(node, "Ready") == "True" for node in found))
    if troubles:
        named = ", ".join(f"{name} ({trouble})" for name, trouble in sorted(troubles.items())[:10])
        count = f"{len(troubles)} of {len(found)}"
        raise kiagnose.Failure(f"{count} in trouble: {named}; see kubectl describe node")


def troubles_of(node: Any) -> str:
    """Return the problems of a node; empty if there are none."""
    found = [] if _status(node, "Ready") == "True" else ["not Ready"]
    found += [name for name in TROUBLES if _status(node, name) == "True"]
    return ", ".join(found)


def _status(node: Any, condition: str) -> str:
    conditions = node.get("status", {}).get("conditions", [])
    return next((str(each["status"]) for each in conditions if each["type"] == condition), "")


def _record(run: kiagnose.Run, name: str, limit: str, times: list[float]) -> None:
    median = round(statistics.median(times), 2)
    run.result(f"{name}MedianMs", median)
    run.result(f"{name}MaxMs", round(max(times), 2))
    kiagnose.say(f"{name}: median {median} ms, slowest {max(times):.2f} ms of {len(times)}")
    most = run.number(limit, float("inf"))
    if median > most:
        raise kiagnose.Failure(f"the median is {median} ms, more than the {most:g} ms of {limit}")


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def _lookup() -> str:
    try:
        return _resolve(API_NAME)
    except socket.gaierror as error:
        raise kiagnose.Failure(
            f"{API_NAME} does not resolve: {error.strerror}; check the pods of cluster DNS"
        ) from error


def _resolve(name: str) -> str:
    return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])


def _is_allowed(run: kiagnose.Run, verb: str, resource: str) -> bool:
    attributes = {"namespace": run.namespace, "verb": verb, "resource": resource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = run.api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def _send_request(name: str, namespace: str, nonce: str) -> None:
    """Send a request by name over a new connection, through DNS, Service and pod."""
    connection = http.client.HTTPConnection(f"{name}.{namespace}.svc", PORT, timeout=5)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse().read().decode(errors="replace")
    finally:
        connection.close()
    if answer != nonce:
        raise kiagnose.Failure(
            f"the Service routes elsewhere: the response is {answer[:60]!r}; check its endpoints"
        )


@contextmanager
def _serve(nonce: str) -> Iterator[None]:
    """Serve the nonce on the port for the duration of the block."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(nonce)))
            self.end_headers()
            self.wfile.write(nonce.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests of this checkup."""

    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    server_class = type("Server", (http.server.ThreadingHTTPServer,), {"address_family": family})
    with server_class(("", PORT), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


@contextmanager
def _create_service(run: kiagnose.Run) -> Iterator[str]:
    """Create a Service for this pod. The ConfigMap owns it, so it is deleted even if the pod is killed."""
    name = f"cluster-basics-{secrets.token_hex(4)}"
    path = f"/api/v1/namespaces/{run.namespace}/services"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": run.configmap, "uid": run.configmap_uid}
    owners = [owner] if run.configmap_uid else []
    # The name of a Job's pod is the Job's name with a random suffix.
    job = os.environ.get("HOSTNAME", "").rpartition("-")[0]
    spec = {"selector": {"batch.kubernetes.io/job-name": job}, "ports": [{"port": PORT, "protocol": "TCP"}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "ownerReferences": owners}}
    run.api.request("POST", path, {**service, "spec": spec})
    try:
        yield name
    finally:
        run.api.request("DELETE", f"{path}/{name}")


if __name__ == "__main__":
    kiagnose.main(check)
