"""The Grafana dashboard queries only metrics and labels that the processes export."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from quintet.apis.meta import ObjectKey
from quintet.apis.subscription.dead_letters import DeadLetterAction
from quintet.controllers.subscription import metrics as subscribing
from quintet.eventing.dispatcher import metrics as dispatching
from quintet.eventing.dispatcher.decide.retry_policy import DeliveryResult
from quintet.eventing.publisher.metrics import PublisherMetrics

BOARD = Path(__file__).parents[3] / "config/grafana/eventing.json"
# What Prometheus adds to every series of a pod.
OF_THE_POD = {"namespace", "pod"}


def exported() -> dict[str, set[str]]:
    """Return the names and labels of all metrics of proxy, dispatcher and controller."""
    publishing = PublisherMetrics("nats:4222")
    publishing.count_request(204, "POST", "/publish", 0.1)
    publishing.count_event(204, "order.created", "/shop", 0.1)
    meters = dispatching.DeliveryMetrics(ObjectKey("shop", "orders"))
    meters.count_attempt("order.created", DeliveryResult(204), 0.1)
    subscribing.status.labels("shop", "grafana").set(1)
    subscribing.subscribed.labels("shop", "grafana", "order.created").set(1)
    for gauge in (subscribing.pending, subscribing.retrying, subscribing.oldest, subscribing.stored):
        gauge.labels("shop", "grafana").set(1)
    subscribing.show_storage(ObjectKey("shop", "grafana"), 1, 2)
    subscribing.count_dead_letter(ObjectKey("shop", "grafana"), DeadLetterAction.DROP)
    registry = CollectorRegistry()
    registry.register(publishing)
    for family in (*vars(dispatching).values(), *vars(subscribing).values()):
        if isinstance(family, MetricWrapperBase):
            registry.register(family)
    shown = generate_latest(registry).decode()
    meters.close()
    for each in (
        subscribing.status,
        subscribing.subscribed,
        subscribing.pending,
        subscribing.retrying,
        subscribing.oldest,
        subscribing.stored,
        subscribing.storage,
        subscribing.handled,
    ):
        each.remove_by_labels({"subscription_name": "grafana"})
    found: dict[str, set[str]] = {}
    for described in text_string_to_metric_families(shown):
        for sample in described.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def queries() -> Iterator[tuple[str, str]]:
    board = json.loads(BOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


@pytest.mark.parametrize(("title", "query"), [pytest.param(*each, id=each[0]) for each in queries()])
def test_dashboard_query_uses_exported_metrics_and_labels(title: str, query: str):
    known = exported()
    names = re.findall(r"\beventing_\w+", query)
    assert names, f"{title}: {query} asks for nothing of ours"
    for name in names:
        assert name in known, f"{title}: no process shows {name}; there are {sorted(known)}"
    labels = {word for group in re.findall(r"\bby \(([^)]*)\)", query) for word in re.split(r",\s*", group)}
    for selector in re.findall(r"\{([^}]*)\}", query):
        labels.update(re.findall(r"(\w+)(?:=~|!=|=)", selector))
    missing = labels - OF_THE_POD - set().union(*(known[name] for name in names))
    assert not missing, f"{title}: {names} have no label {sorted(missing)}"


def test_every_data_plane_metric_is_on_the_dashboard():
    asked = " ".join(query for _, query in queries())
    families = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in exported()}
    assert {name for name in families if name not in asked and not name.endswith("_created")} == set()
