"""Fixtures of the end-to-end tests: a state directory of one's own, the command, and one node for all."""

import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.diagnosis import pytest_runtest_makereport
from e2e.place import SYSTEM, Place, install
from e2e.traces import CLUSTER, Traces
from kit.recording import keep, recording
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what needs a node where none can run; what takes the node down comes last."""
    items.sort(key=lambda item: item.path.stem == "test_node")
    for item in items:
        if item.get_closest_marker("node"):
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(LONGEST))
            if not IS_ROOT:
                item.add_marker(pytest.mark.skip(reason="a node needs root on Linux"))


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
        started = local.up(CLUSTER, node=True, audited=recording())
        yield started
        keep(started)
        local.down(CLUSTER)


@pytest.fixture(scope="session")
async def operator(node: Cluster) -> Place:
    """The operator's own namespace, once it is installed from config/default and works."""
    system = Place(node, SYSTEM)
    await install(system)
    return system


@pytest.fixture
def place(operator: Place) -> Iterator[Place]:
    """A namespace of one's own that takes pods of the strictest kind only."""
    made = operator.at(f"test-{secrets.token_hex(4)}")
    made.kubectl("create", "namespace", made.namespace)
    made.kubectl("label", "namespace", made.namespace, "pod-security.kubernetes.io/enforce=restricted")
    yield made
    made.run("delete", "namespace", made.namespace, "--wait=false")
