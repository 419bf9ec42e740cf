"""What a failed test on a node reports: objects, status, Events, logs of pods and of the operator.

conftest.py loads the hook. It asks once per failure, so no probe that is called until it succeeds has to.
For tests without a node, `kit.plugins.failure_reports` does the same.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkups import Case
from e2e.place import SYSTEM, Place
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
# An API server that does not answer must not keep the report from being written.
PATIENCE = "--request-timeout=10s"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what is on the clusters of a failed test to its report."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
        found = [*_locals(call), *getattr(item, "funcargs", {}).values()]
        report.sections += sections(found)
    return report


def sections(values: Sequence[Any]) -> list[tuple[str, str]]:
    """Return titles and texts for the namespaces and clusters among these values."""
    # As administrator, whoever the test was: a user with few permissions could see nothing.
    places = list(dict.fromkeys(replace(each, kubeconfig=None) for each in _places(values)))
    # The namespace of the operator is in every test; its own objects matter where there is no other.
    own = [each for each in places if each.namespace != SYSTEM] or places
    found = [section for place in own[:NAMESPACES] for section in _of_a_namespace(place)]
    clusters = [each.cluster for each in places] + [each for each in values if isinstance(each, Cluster)]
    for cluster in {each.directory: each for each in clusters}.values():
        found += _of_a_cluster(cluster, everything=not places)
    return found


def _locals(call: "pytest.CallInfo[None]") -> Iterator[Any]:
    """Yield the variables of all frames of an error, the innermost first: they say which of many cases it is."""
    for entry in reversed(call.excinfo.traceback if call.excinfo else ()):
        yield from entry.frame.f_locals.values()


def _places(values: Iterable[Any]) -> Iterator[Place]:
    for value in values:
        if isinstance(value, Place):
            yield value
        elif isinstance(value, Case):
            yield value.place
        elif isinstance(value, tuple):
            yield from _places(value)


def _of_a_namespace(place: Place) -> Iterator[tuple[str, str]]:
    where = f"namespace {place.namespace}"
    yield f"{where}: objects", _ask(place.run, "get", OBJECTS, "-o", "wide")
    listed = place.run(PATIENCE, "get", "quintet", "-o", "json").stdout
    objects = json.loads(listed)["items"] if listed else []
    yield f"{where}: status", "\n".join(_status(each) for each in objects)[:LONGEST]
    events = ("get", "events", "--sort-by=.lastTimestamp", "-o", EVENT_COLUMNS)
    yield f"{where}: Events", _ask(place.run, *events)
    names = place.run(PATIENCE, "get", "pods", "-o", "name").stdout.split()
    for name in names[:PODS]:
        yield f"{where}: log of {name}", _ask(place.run, "logs", name, "--all-containers", "--tail=20")


def _of_a_cluster(cluster: Cluster, *, everything: bool) -> Iterator[tuple[str, str]]:
    dead = [each.name for each in cluster.processes() if not each.is_alive()]
    if dead:
        yield f"cluster {cluster.name}: programs that do not run", ", ".join(dead)
    if everything:
        for kind in ("pods", "events"):
            yield f"cluster {cluster.name}: {kind}", _ask(cluster.kubectl, "get", kind, "--all-namespaces")
    system = Place(cluster, SYSTEM)
    pods = _ask(system.run, "get", "pods,leases", "-o", "wide")
    if "pod/" in pods:
        yield f"{SYSTEM}: pods and leases", pods
        asked = ("logs", "-l", "app.kubernetes.io/part-of=quintet", "--tail=60", "--prefix")
        yield f"{SYSTEM}: log of the operator", _ask(system.run, *asked)


def _status(found: dict[str, Any]) -> str:
    name = f"{found['kind']} {found['metadata']['name']}"
    return f"{name} generation {found['metadata'].get('generation')}: {json.dumps(found.get('status'))}"


def _ask(kubectl: "Callable[..., subprocess.CompletedProcess[str]]", *arguments: str) -> str:
    """Return the end of what kubectl printed: what happened last is there."""
    answer = kubectl(PATIENCE, *arguments)
    text = answer.stdout + answer.stderr
    return text if len(text) <= LONGEST else f"…{text[-LONGEST:]}"
