"""A real operator, proxy or dispatcher exposes every metric and label that dashboards and alerts use."""

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from kit.cli.quintet import COMMAND, free_port, stop_with_webhooks
from kit.cluster.api import Api
from kit.cluster.service_accounts import context
from kit.eventually import eventually
from kit.http.sink import a_sink
from kit.kinds.jsonservers import a_jsonserver
from kit.kinds.jsonservers import install as jsonservers
from kit.kinds.subscriptions import Scene, a_scene, install, subscription_operator
from kit.manifests.promql import OF_PROMETHEUS, UP, all_queries, labels, metrics
from kit.nats.dispatchers import DispatcherProcess
from kit.nats.publishers import a_publisher, a_stream, binary, settings
from kit.nats.server import a_nats_server
from kit.process import Program
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object
from quintet.controllers.subscription import metrics as subscription_metrics
from quintet.kube.client import Client
from quintet.local.cluster import Cluster

Shown = dict[str, set[str]]
"""The name of each series → its labels."""
# Metrics without a series here, because there are no errors, elections and dead letters: their labels.
WITHOUT_A_SERIES = {
    "controller_runtime_reconcile_errors_total": {"controller"},
    "controller_runtime_terminal_reconcile_errors_total": {"controller"},
    "controller_runtime_reconcile_panics_total": {"controller"},
    "controller_runtime_reconcile_timeouts_total": {"controller"},
    "workqueue_retries_total": {"controller", "name"},
    "quintet_undecodable_objects_total": {"resource"},
    "quintet_events_dropped_total": {"controller"},
    "quintet_watch_restarts_total": {"resource", "cause"},
    "leader_election_master_status": {"name"},
    "eventing_ec_dead_letters_handled_total": {"subscription_namespace", "subscription_name", "action"},
}


def read(text: str) -> Shown:
    found: Shown = {}
    for family in text_string_to_metric_families(text):
        # A metric without series is declared nevertheless.
        kind = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        for ending in kind:
            found.setdefault(f"{family.name}{ending}", set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


async def scrape(port: int) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        assert answer.status == 200
        return await answer.text()


@contextlib.asynccontextmanager
async def an_operator(cluster: Cluster, namespace: str) -> AsyncIterator[int]:
    """Run `quintet run` with leader election and webhooks, and yield its health port."""
    health = free_port()
    program = Program(
        str(COMMAND), "run", "--kubeconfig", str(cluster.kubeconfig), "--context", context("jsonserver"),
        "--controllers", "jsonserver", "--namespace", namespace,
        "--webhooks", "url", "--webhook-port", str(free_port()),
        "--health-address", f"127.0.0.1:{health}", "--discovery-address", "127.0.0.1:0",
    )  # fmt: skip
    await program.start()
    try:
        yield health
    finally:
        await stop_with_webhooks(program, cluster.kubeconfig, "jsonserver")


@pytest.fixture
async def of_controllers(client: Client, api: Api, cluster: Cluster, namespace: str) -> Shown:
    await jsonservers(client)
    async with an_operator(cluster, namespace) as port:
        # Webhooks are registered with a delay, so the API server may not call ours at once.
        async def assert_created() -> None:
            await api.create(JSONSERVERS.path(namespace), a_jsonserver("app-probe"), dryRun="All")
            text = await scrape(port)
            assert re.search(r"webhook_requests_total\{[^}]*\} [1-9]", text), "nobody has asked yet"

        await eventually(assert_created, within=120)
        await client.create(JSONSERVERS, a_jsonserver("app-books"), Object, namespace=namespace)

        async def assert_worked() -> str:
            text = await scrape(port)
            assert re.search(r'reconcile_total\{[^}]*controller="jsonserver"[^}]*\} [1-9]', text), text
            return text

        return read(await eventually(assert_worked, within=120))


@pytest.fixture
async def of_events(client: Client, cluster: Cluster, namespace: str, tmp_path: Path) -> Shown:
    await install(client)
    found: Shown = {}
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_scene(client, namespace, server, cluster.kubeconfig) as scene,
        subscription_operator(cluster.kubeconfig, scene),
        a_sink() as sink,
    ):
        found |= await _assert_dispatched(scene, cluster, sink.port)
    async with (
        a_nats_server(tmp_path / "other") as server,
        a_stream(server),
        a_publisher(settings(server.url)) as publisher,
    ):
        await publisher.ready()
        answer = await publisher.ask(binary())
        assert answer.status == 204, answer
        found |= read(await publisher.metrics())
    # The Subscription controller ran in this process.
    registry = CollectorRegistry()
    for family in vars(subscription_metrics).values():
        if isinstance(family, MetricWrapperBase):
            registry.register(family)
    return found | read(generate_latest(registry).decode())


async def _assert_dispatched(scene: Scene, cluster: Cluster, port: int) -> Shown:
    process = DispatcherProcess(scene.settings, scene.kubeconfig, {scene.host: ("127.0.0.1", port)})
    try:
        await scene.subscribe()
        await process.start()
        await scene.wait_for_reason("orders", "Delivering")
        await scene.publish(1)

        async def assert_delivered() -> str:
            text = await scrape(process.metrics_port)
            assert re.search(r"delivery_per_subscription_total\{[^}]*\} [1-9]", text), text
            return text

        return read(await eventually(assert_delivered, within=120))
    finally:
        await process.end()


@pytest.mark.timeout(600)
async def test_every_metric_and_label_in_dashboards_and_alerts_is_exposed_by_running_process(
    of_controllers: Shown, of_events: Shown
):
    # One test, because each query is checked against all processes.
    shown: Shown = {UP: set()}
    for source in (WITHOUT_A_SERIES, of_events, of_controllers):
        for name, found in source.items():
            shown.setdefault(name, set()).update(found)
    really = {*of_events, *of_controllers}
    wrong = []
    for title, query in all_queries():
        asked = metrics(query)
        missing = asked - really - {UP}
        wrong += [f"{title}: no process exposes {name}" for name in missing]
        known = set().union(*(shown.get(name, set()) for name in asked)) | OF_PROMETHEUS
        wrong += [f"{title}: {asked} have no label {label}" for label in labels(query) - known]
    assert wrong == [], "\n".join(wrong)
