"""Fixtures for all tests. Tests that use none of them run without a cluster."""

import gc
import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import hypothesis.configuration
import pytest
from hypothesis.internal.conjecture import providers

from kit.cluster.api import Api
from kit.faults.proxy import FaultProxy
from kit.plugins import durations, failure_reports, kind_selection, stress
from quintet.kube.client import Client
from quintet.kube.config import load
from quintet.kube.transport import Transport
from quintet.local.paths import cache_directory

if TYPE_CHECKING:
    from kit.cluster.simulated_node import SimulatedNode
    from kit.kinds.eventingbackends import Operator, Witness
    from kit.nats.server import NatsServer
    from quintet.local.cluster import Cluster
    from quintet.runtime.manager import Manager


def pytest_addoption(parser: pytest.Parser) -> None:
    kind_selection.add_option(parser)
    stress.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Handle SIGTERM like an interrupt, and make hypothesis deterministic and independent of machine speed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A background run inherits an ignored SIGINT, and so would every process that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The same code gives the same result; `make explore` tries new random examples.
    exploring = "QUINTET_EXPLORE" in os.environ
    hypothesis.settings.register_profile(
        "quintet",
        deadline=None,
        derandomize=not exploring,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],  # the machine may be busy
    )
    hypothesis.settings.load_profile("quintet")
    if not exploring:
        # Otherwise examples depend on which modules a worker has imported before: hypothesis tries their constants.
        providers._get_local_constants = lambda: providers._local_constants
    # Its table of Unicode categories takes more than a second to compute: a new clone reads it from the cache.
    hypothesis.configuration.set_hypothesis_home_dir(cache_directory() / "hypothesis")
    durations.register(config)
    stress.register(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the clusters of killed workers: an interrupted run gives workers only seconds."""
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        from kit.cluster.control_plane import stop_clusters_of_workers

        stop_clusters_of_workers(config._tmp_path_factory.getbasetemp())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    stress.parametrize(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kind_selection.deselect_other_kinds(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add diagnostics to the report of a failed test."""
    report = yield
    failure_reports.describe(item, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the collected tests from garbage collection, because they exist until the end of the run.

    Otherwise every full collection traverses them, which takes a sixth of the CPU of a unit run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
async def _dropped_connections() -> AsyncIterator[None]:
    """Collect dropped connections while the loop is open: only then their warnings say that they were idle.

    Afterwards they could not be distinguished from leaks (see filterwarnings in pyproject.toml).
    """
    yield
    gc.collect()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """The control plane that all tests of this run share."""
    from kit.cluster.control_plane import control_plane  # imported only if a test needs a cluster

    with control_plane(tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture(scope="session")
async def api(cluster: "Cluster") -> AsyncIterator[Api]:
    """A plain API client with administrator permissions."""
    from kit.background import run_in_background
    from kit.cluster.namespaces import clear_finished_namespaces

    async with (
        Api.connect(cluster.kubeconfig) as connected,
        run_in_background(clear_finished_namespaces(connected)),
    ):
        yield connected


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    """The name of a new namespace that only this test uses."""
    from kit.cluster.control_plane import fresh_namespace

    async with fresh_namespace(api) as name:
        yield name


@pytest.fixture
async def proxy(cluster: "Cluster") -> AsyncIterator[FaultProxy]:
    """A fault proxy in front of the control plane for this test."""
    async with FaultProxy(cluster.kubeconfig) as running:
        yield running


@pytest.fixture(scope="session")
async def client(cluster: "Cluster") -> AsyncIterator[Client]:
    """A `quintet.kube` client with administrator permissions."""
    async with Transport(load(str(cluster.kubeconfig))) as transport:
        yield Client(transport, field_manager="somebody-else")


@pytest.fixture(scope="session")
async def widgets(client: Client) -> Client:
    """The same client, with the Widget CRD installed."""
    from kit.kinds.widgets import install

    await install(client)
    return client


@pytest.fixture(scope="session")
async def checkups(client: Client) -> Client:
    """The same client, with the Checkup CRD installed."""
    from kit.kinds.checkups import install

    await install(client)
    return client


@pytest.fixture
async def checkup_operator(
    checkups: Client, proxy: FaultProxy, namespace: str, tmp_path: Path
) -> "AsyncIterator[Manager]":
    """A Checkup controller with short timeouts for the test's namespace, behind its proxy."""
    from kit.kinds.checkups import an_operator, create_service_account

    await create_service_account(checkups, namespace)
    async with an_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as manager:
        yield manager


@pytest.fixture(scope="session")
async def clusters(client: Client) -> Client:
    """The same client, with the StatefulCluster CRD installed."""
    from kit.kinds.statefulclusters import install

    await install(client)
    return client


@pytest.fixture
async def cluster_operator(
    clusters: Client, proxy: FaultProxy, namespace: str, tmp_path: Path
) -> "AsyncIterator[Manager]":
    """A StatefulCluster controller for the test's namespace, behind its proxy."""
    from kit.kinds.statefulclusters import statefulcluster_operator

    kubeconfig = proxy.write_kubeconfig(tmp_path)
    async with statefulcluster_operator(kubeconfig, namespace=namespace) as manager:
        yield manager


@pytest.fixture(scope="session")
async def casconfigs(client: Client) -> Client:
    """The same client, with the CASConfig CRD installed."""
    from kit.kinds.casconfigs import install

    await install(client)
    return client


@pytest.fixture
async def casconfig_operator(
    casconfigs: Client, api: Api, proxy: FaultProxy, namespace: str, tmp_path: Path
) -> "AsyncIterator[Manager]":
    """A CASConfig controller for the test's namespace, with a ServiceAccount that can change workloads."""
    from kit.kinds.casconfigs import casconfig_operator as operator
    from kit.kinds.casconfigs import create_service_account

    await create_service_account(api, namespace)
    async with operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as manager:
        yield manager


@pytest.fixture(scope="session")
async def backends(client: Client) -> Client:
    """The same client, with the CRDs of EventingBackend and Subscription installed."""
    from kit.kinds.eventingbackends import install

    await install(client)
    return client


@pytest.fixture
async def witness(backends: Client, proxy: FaultProxy) -> "Witness":
    """Checks every ready status against the objects at that moment."""
    from kit.kinds.eventingbackends import Witness

    return Witness(backends, proxy)


@pytest.fixture
async def backend_operator(
    witness: "Witness", proxy: FaultProxy, simulated_node: "SimulatedNode", namespace: str, tmp_path: Path
) -> "AsyncIterator[Operator]":
    """An EventingBackend controller for the test's namespace, with a simulated node."""
    from kit.kinds.eventingbackends import allow_reading_secrets, an_operator

    await allow_reading_secrets(witness.client, namespace)
    async with an_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as operator:
        yield operator


@pytest.fixture
async def nats(tmp_path: Path) -> "AsyncIterator[NatsServer]":
    """A NATS server with JetStream for this test."""
    from kit.nats.server import a_nats_server

    async with a_nats_server(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def simulated_node(api: Api, namespace: str) -> "AsyncIterator[SimulatedNode]":
    """A simulated node for the pods of this test."""
    from kit.cluster.simulated_node import SimulatedNode

    async with SimulatedNode(api, namespace=namespace).running() as running:
        yield running


@pytest.fixture
async def proxied(proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Api]:
    """A plain API client with administrator permissions that uses the proxy."""
    async with Api.connect(proxy.write_kubeconfig(tmp_path)) as connected:
        yield connected
