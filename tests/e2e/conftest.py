"""Fixtures of the end-to-end tests: a separate state directory, the command, and one shared node."""

import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.failure_reports import FAILED, pytest_runtest_makereport
from e2e.kubectl_client import SYSTEM, KubectlClient, install, object_list
from e2e.machine_state import CLUSTER, MachineState
from kit.permissions.audit_logs import copy_audit_log, is_recording
from quintet.local import cluster as local
from quintet.local.cluster import Cluster, prepare

__all__ = ["pytest_runtest_makereport"]

COMMAND = Path(sys.executable).parent / "quintet"
# The first test that needs the node waits for its whole start.
LONGEST = 900
IS_ROOT = platform.system() == "Linux" and os.geteuid() == 0


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build before the first test: a first build takes longer than the timeout of a test."""
    if not session.config.option.collectonly:
        prepare(node=IS_ROOT, progress=lambda line: sys.stderr.write(f"{line}\n"))


# Last, because pytest reorders tests by fixture scope.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a node where none can run; run tests that stop the node last."""
    items.sort(key=_rank)
    for item in items:
        if item.get_closest_marker("node"):
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(LONGEST))
            if not IS_ROOT:
                item.add_marker(pytest.mark.skip(reason="a node needs root on Linux"))


def _rank(item: pytest.Item) -> int:
    """Return the rank of a test: after `test_down_with_node_leaves_…` the shared node is stopped."""
    if item.path.stem != "test_node":
        return 0
    if "node" not in getattr(item, "fixturenames", ()):
        return 3
    return 2 if item.name.startswith("test_down_with_node_leaves") else 1


@pytest.fixture(scope="session", autouse=True)
def kubectl_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep kubectl's cache out of the home directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECACHEDIR", str(tmp_path_factory.mktemp("kubectl")))
        yield


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A separate state directory, so that the user's clusters are not touched."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield tmp_path
    local.down_all()


@pytest.fixture
def quintet(state: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Return a function that runs the `quintet` command."""

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([COMMAND, *arguments], capture_output=True, text=True)

    return run


@pytest.fixture(scope="session")
def node_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state directory of the cluster with a node."""
    return tmp_path_factory.mktemp("node")


@pytest.fixture(scope="session")
def before(node_state: Path) -> MachineState:
    """The state of the machine before the node was started."""
    return MachineState.read(node_state)


@pytest.fixture(scope="session")
def node(node_state: Path, before: MachineState) -> Iterator[Cluster]:
    """The cluster with a real node that all tests share; the test of `down` uses it last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(node_state))
        started = local.up(CLUSTER, nodes=1, audited=is_recording())
        yield started
        copy_audit_log(started)
        local.down(CLUSTER)


@pytest.fixture(scope="session")
async def operator(node: Cluster) -> KubectlClient:
    """The operator's namespace, after installation from config/default."""
    system = KubectlClient(node, SYSTEM)
    await install(system)
    return system


def new_namespace(operator: KubectlClient, *objects: object) -> KubectlClient:
    """Create a namespace that admits pods of the `restricted` standard only, with these objects in it."""
    client = operator.in_namespace(f"test-{secrets.token_hex(4)}")
    metadata = {"name": client.namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    client.apply(object_list(namespace, *objects))
    return client


def remove_namespace(client: KubectlClient) -> None:
    """Delete a namespace without waiting."""
    client.run("delete", "namespace", client.namespace, "--wait=false")


@pytest.fixture
def client(operator: KubectlClient) -> Iterator[KubectlClient]:
    """A new `restricted` namespace."""
    created = new_namespace(operator)
    yield created
    remove_namespace(created)


@pytest.fixture(scope="module")
def _shared_namespaces(operator: KubectlClient) -> Iterator[list[KubectlClient]]:
    """The namespaces of `shared_client`, the last one in use."""
    created: list[KubectlClient] = []
    yield created
    for each in created:
        remove_namespace(each)


@pytest.fixture
def shared_client(
    operator: KubectlClient, _shared_namespaces: list[KubectlClient], request: pytest.FixtureRequest
) -> Iterator[KubectlClient]:
    """A namespace that the tests of a module share; after a failure, the next test gets a new one.

    Each test first brings the objects into the state that it needs.
    """
    if not _shared_namespaces:
        _shared_namespaces.append(new_namespace(operator))
    yield _shared_namespaces[-1]
    if request.node.stash.get(FAILED, False):
        remove_namespace(_shared_namespaces.pop())
