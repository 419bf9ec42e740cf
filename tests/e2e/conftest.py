"""Fixtures of the end-to-end tests: a state directory of one's own, the command, and one node for all."""

import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.diagnosis import FAILED, pytest_runtest_makereport
from e2e.place import SYSTEM, Place, a_list, install
from e2e.traces import CLUSTER, Traces
from kit.permissions.audit_logs import copy_audit_log, is_recording
from quintet.local import cluster as local
from quintet.local.cluster import Cluster, prepare

__all__ = ["pytest_runtest_makereport"]

COMMAND = Path(sys.executable).parent / "quintet"
# Whichever test is the first to need the node waits for all of it to start.
LONGEST = 900
IS_ROOT = platform.system() == "Linux" and os.geteuid() == 0


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build before the first test: a cold build takes longer than any test may."""
    if not session.config.option.collectonly:
        prepare(node=IS_ROOT, progress=lambda line: sys.stderr.write(f"{line}\n"))


# Last, because pytest itself brings tests into another order when they run in several rounds.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what needs a node where none can run; what takes the node down comes last."""
    items.sort(key=_turn)
    for item in items:
        if item.get_closest_marker("node"):
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(LONGEST))
            if not IS_ROOT:
                item.add_marker(pytest.mark.skip(reason="a node needs root on Linux"))


def _turn(item: pytest.Item) -> int:
    """When a test runs: after `test_down_leaves_…` nobody can use the shared node."""
    if item.path.stem != "test_node":
        return 0
    if "node" not in getattr(item, "fixturenames", ()):
        return 3
    return 2 if item.name.startswith("test_down_leaves") else 1


@pytest.fixture(scope="session", autouse=True)
def cache_of_kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what a kubectl of the user's would remember out of the home directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECACHEDIR", str(tmp_path_factory.mktemp("kubectl")))
        yield


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of one's own: the clusters of a person on this machine are not touched."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield tmp_path
    local.down_all()


@pytest.fixture
def quintet(state: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run the command as a person would."""

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([COMMAND, *arguments], capture_output=True, text=True)

    return run


@pytest.fixture(scope="session")
def node_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the cluster with a node keeps its state."""
    return tmp_path_factory.mktemp("node")


@pytest.fixture(scope="session")
def before(node_state: Path) -> Traces:
    """What the machine looked like before the node was started."""
    return Traces.of(node_state)


@pytest.fixture(scope="session")
def node(node_state: Path, before: Traces) -> Iterator[Cluster]:
    """One cluster with a real node for all tests; the test of `down` is the last to use it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(node_state))
        started = local.up(CLUSTER, node=True, audited=is_recording())
        yield started
        copy_audit_log(started)
        local.down(CLUSTER)


@pytest.fixture(scope="session")
async def operator(node: Cluster) -> Place:
    """The operator's own namespace, once it is installed from config/default and works."""
    system = Place(node, SYSTEM)
    await install(system)
    return system


def new_namespace(operator: Place, *objects: object) -> Place:
    """Create a namespace that admits pods of the `restricted` standard only, with these objects in it."""
    made = operator.at(f"test-{secrets.token_hex(4)}")
    metadata = {"name": made.namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    made.apply(a_list(namespace, *objects))
    return made


def remove_namespace(place: Place) -> None:
    """Delete a namespace, but wait for nothing."""
    place.run("delete", "namespace", place.namespace, "--wait=false")


@pytest.fixture
def place(operator: Place) -> Iterator[Place]:
    """A namespace of one's own that takes pods of the strictest kind only."""
    made = new_namespace(operator)
    yield made
    remove_namespace(made)


@pytest.fixture(scope="module")
def _kept(operator: Place) -> Iterator[list[Place]]:
    """The namespaces of `shared_place`, the last one in use."""
    made: list[Place] = []
    yield made
    for each in made:
        remove_namespace(each)


@pytest.fixture
def shared_place(operator: Place, _kept: list[Place], request: pytest.FixtureRequest) -> Iterator[Place]:
    """A namespace for the tests of a module one after the other; after a failure, the next test gets another.

    Whoever uses it brings its objects to the state that the test starts from: most are in it already.
    """
    if not _kept:
        _kept.append(new_namespace(operator))
    yield _kept[-1]
    if request.node.stash.get(FAILED, False):
        remove_namespace(_kept.pop())
