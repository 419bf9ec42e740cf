"""Fixtures for all tests. A test that asks for none of them runs without a cluster."""

import gc
import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import hypothesis.configuration
import pytest

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
    """Let a terminated run end like an interrupted one, and let no test depend on how fast a machine is."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A run in the background is born with SIGINT ignored, and so would be every program that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The same change gives the same verdict: what luck may find is looked for by `make explore`.
    exploring = "QUINTET_EXPLORE" in os.environ
    hypothesis.settings.register_profile(
        "quintet",
        deadline=None,
        derandomize=not exploring,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],  # the machine may be busy
    )
    hypothesis.settings.load_profile("quintet")
    # Its table of Unicode categories takes more than a second to compute: a new clone reads it from the cache.
    hypothesis.configuration.set_hypothesis_home_dir(cache_directory() / "hypothesis")
    durations.register(config)
    stress.register(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing running though workers were killed: an interrupted run gives them only seconds."""
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        from kit.cluster.control_plane import stop_clusters_of_workers

        stop_clusters_of_workers(config._tmp_path_factory.getbasetemp())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    stress.parametrize(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kind_selection.deselect_other_kinds(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add to a failure what is needed to understand it."""
    report = yield
    failure_reports.describe(item, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from the loaded tests: they stay until the end of the run.

    Otherwise every full collection walks over all of them, which is a sixth of the CPU of a unit run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
async def _dropped_connections() -> AsyncIterator[None]:
    """Find the connections that Python dropped while the loop is open: only then it says that they were idle.

    After its end they could not be told from leaks of ours (see the warnings in pyproject.toml).
    """
    yield
    gc.collect()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """The control plane that all tests of this run share."""
    from kit.cluster.control_plane import control_plane  # only those who need a cluster load what starts one

    with control_plane(tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture(scope="session")
async def api(cluster: "Cluster") -> AsyncIterator[Api]:
    """A bare client with all rights."""
    from kit.background import meanwhile
    from kit.cluster.namespaces import sweep

    async with Api.connect(cluster.kubeconfig) as connected, meanwhile(sweep(connected)):
        yield connected


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    """The name of a new namespace that only this test uses."""
    from kit.cluster.control_plane import fresh_namespace

    async with fresh_namespace(api) as name:
        yield name


@pytest.fixture
async def proxy(cluster: "Cluster") -> AsyncIterator[FaultProxy]:
    """A fault proxy in front of the control plane, for this test alone."""
    async with FaultProxy(cluster.kubeconfig) as running:
        yield running


@pytest.fixture(scope="session")
async def client(cluster: "Cluster") -> AsyncIterator[Client]:
    """Our own client with all rights."""
    async with Transport(load(str(cluster.kubeconfig))) as transport:
        yield Client(transport, field_manager="somebody-else")


@pytest.fixture(scope="session")
async def widgets(client: Client) -> Client:
    """The same client, once the API server serves the test kind."""
    from kit.kinds.widgets import install

    await install(client)
    return client


@pytest.fixture(scope="session")
async def checkups(client: Client) -> Client:
    """The same client, once the API server serves Checkups."""
    from kit.kinds.checkups import install

    await install(client)
    return client


@pytest.fixture
async def checkup_operator(
    checkups: Client, proxy: FaultProxy, namespace: str, tmp_path: Path
) -> "AsyncIterator[Manager]":
    """A controller of Checkups with short patience, for the namespace of the test, behind its proxy."""
    from kit.kinds.checkups import an_account, an_operator

    await an_account(checkups, namespace)
    async with an_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as manager:
        yield manager


@pytest.fixture(scope="session")
async def clusters(client: Client) -> Client:
    """The same client, once the API server serves StatefulClusters."""
    from kit.kinds.statefulclusters import install

    await install(client)
    return client


@pytest.fixture
async def cluster_operator(
    clusters: Client, proxy: FaultProxy, namespace: str, tmp_path: Path
) -> "AsyncIterator[Manager]":
    """A controller of StatefulClusters for the namespace of the test, behind its proxy."""
    from kit.kinds.statefulclusters import statefulcluster_operator

    kubeconfig = proxy.write_kubeconfig(tmp_path)
    async with statefulcluster_operator(kubeconfig, namespace=namespace) as manager:
        yield manager


@pytest.fixture(scope="session")
async def casconfigs(client: Client) -> Client:
    """The same client, once the API server serves CASConfigs."""
    from kit.kinds.casconfigs import install

    await install(client)
    return client


@pytest.fixture
async def casconfig_operator(
    casconfigs: Client, api: Api, proxy: FaultProxy, namespace: str, tmp_path: Path
) -> "AsyncIterator[Manager]":
    """A controller of CASConfigs for the namespace of the test, whose account has rights on workloads."""
    from kit.kinds.casconfigs import an_account
    from kit.kinds.casconfigs import casconfig_operator as operator

    await an_account(api, namespace)
    async with operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as manager:
        yield manager


@pytest.fixture(scope="session")
async def backends(client: Client) -> Client:
    """The same client, once the API server serves EventingBackends and Subscriptions."""
    from kit.kinds.eventingbackends import install

    await install(client)
    return client


@pytest.fixture
async def witness(backends: Client, proxy: FaultProxy) -> "Witness":
    """Compares every status that claims to be ready with what is there at that moment."""
    from kit.kinds.eventingbackends import Witness

    return Witness(backends, proxy)


@pytest.fixture
async def backend_operator(
    witness: "Witness", proxy: FaultProxy, simulated_node: "SimulatedNode", namespace: str, tmp_path: Path
) -> "AsyncIterator[Operator]":
    """A controller of EventingBackends for the namespace of the test, whose pods only pretend."""
    from kit.kinds.eventingbackends import an_operator, may_read_secrets

    await may_read_secrets(witness.client, namespace)
    async with an_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as operator:
        yield operator


@pytest.fixture
async def nats(tmp_path: Path) -> "AsyncIterator[NatsServer]":
    """A NATS server with JetStream, for this test alone."""
    from kit.nats.server import a_nats_server

    async with a_nats_server(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def simulated_node(api: Api, namespace: str) -> "AsyncIterator[SimulatedNode]":
    """A node that only says of the pods of this test what a kubelet would say."""
    from kit.cluster.simulated_node import SimulatedNode

    async with SimulatedNode(api, namespace=namespace).running() as running:
        yield running


@pytest.fixture
async def proxied(proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Api]:
    """A bare client with all rights that reaches the API server through the proxy only."""
    async with Api.connect(proxy.write_kubeconfig(tmp_path)) as connected:
        yield connected
