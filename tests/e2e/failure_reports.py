"""Adds to the report of a failed test: objects, status, Events, and logs of pods and of the operator.

It reads the cluster once per failure. `kit.plugins.failure_reports` does the same for tests without a node.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkups import Case
from e2e.kubectl_client import SYSTEM, KubectlClient
from quintet.local.cluster import Cluster

if TYPE_CHECKING:
    import subprocess

FAILED: pytest.StashKey[bool] = pytest.StashKey()
"""Whether a phase of a test failed, for fixtures that clean up after it."""

# Characters of one section; namespaces of one test; pods of one namespace.
LONGEST = 8000
NAMESPACES = 2
PODS = 4
OBJECTS = "quintet,deployments,statefulsets,jobs,pods,services,persistentvolumeclaims"
EVENT_COLUMNS = (
    "custom-columns=LAST:.lastTimestamp,ABOUT:.involvedObject.name,REASON:.reason,MESSAGE:.message"
)
# An unresponsive API server must not block the report.
REQUEST_TIMEOUT = "--request-timeout=10s"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of its clusters to the report of a failed test."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
        found = [*_locals(call), *getattr(item, "funcargs", {}).values()]
        report.sections += sections(found)
    return report


def sections(values: Sequence[Any]) -> list[tuple[str, str]]:
    """Return titles and texts for the namespaces and clusters among these values."""
    # Read as administrator: the user of the test may lack permissions.
    clients = list(dict.fromkeys(replace(each, kubeconfig=None) for each in _find_clients(values)))
    # Every test has the operator's namespace; report its objects only if there is no other namespace.
    own = [each for each in clients if each.namespace != SYSTEM] or clients
    found = [section for client in own[:NAMESPACES] for section in _namespace_sections(client)]
    clusters = [each.cluster for each in clients] + [each for each in values if isinstance(each, Cluster)]
    for cluster in {each.directory: each for each in clusters}.values():
        found += _cluster_sections(cluster, everything=not clients)
    return found


def _locals(call: "pytest.CallInfo[None]") -> Iterator[Any]:
    """Yield the variables of all frames of an error, innermost first, to find the failing case."""
    for entry in reversed(call.excinfo.traceback if call.excinfo else ()):
        yield from entry.frame.f_locals.values()


def _find_clients(values: Iterable[Any]) -> Iterator[KubectlClient]:
    for value in values:
        if isinstance(value, KubectlClient):
            yield value
        elif isinstance(value, Case):
            yield value.client
        elif isinstance(value, tuple):
            yield from _find_clients(value)


def _namespace_sections(client: KubectlClient) -> Iterator[tuple[str, str]]:
    title = f"namespace {client.namespace}"
    yield f"{title}: objects", _read(client.run, "get", OBJECTS, "-o", "wide")
    listed = client.run(REQUEST_TIMEOUT, "get", "quintet", "-o", "json").stdout
    objects = json.loads(listed)["items"] if listed else []
    yield f"{title}: status", "\n".join(_status(each) for each in objects)[:LONGEST]
    events = ("get", "events", "--sort-by=.lastTimestamp", "-o", EVENT_COLUMNS)
    yield f"{title}: Events", _read(client.run, *events)
    names = client.run(REQUEST_TIMEOUT, "get", "pods", "-o", "name").stdout.split()
    for name in names[:PODS]:
        yield f"{title}: log of {name}", _read(client.run, "logs", name, "--all-containers", "--tail=20")


def _cluster_sections(cluster: Cluster, *, everything: bool) -> Iterator[tuple[str, str]]:
    dead = [each.name for each in cluster.processes() if not each.is_alive()]
    if dead:
        yield f"cluster {cluster.name}: programs that do not run", ", ".join(dead)
    if everything:
        for kind in ("pods", "events"):
            yield f"cluster {cluster.name}: {kind}", _read(cluster.kubectl, "get", kind, "--all-namespaces")
    system = KubectlClient(cluster, SYSTEM)
    pods = _read(system.run, "get", "pods,leases", "-o", "wide")
    if "pod/" in pods:
        yield f"{SYSTEM}: pods and leases", pods
        arguments = ("logs", "-l", "app.kubernetes.io/part-of=quintet", "--tail=60", "--prefix")
        yield f"{SYSTEM}: log of the operator", _read(system.run, *arguments)


def _status(found: dict[str, Any]) -> str:
    name = f"{found['kind']} {found['metadata']['name']}"
    return f"{name} generation {found['metadata'].get('generation')}: {json.dumps(found.get('status'))}"


def _read(kubectl: "Callable[..., subprocess.CompletedProcess[str]]", *arguments: str) -> str:
    """Return the last part of kubectl's output, which has the latest lines."""
    result = kubectl(REQUEST_TIMEOUT, *arguments)
    text = result.stdout + result.stderr
    return text if len(text) <= LONGEST else f"…{text[-LONGEST:]}"
