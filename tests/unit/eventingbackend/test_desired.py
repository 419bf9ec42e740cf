"""The pods of a backend and what belongs to them."""

import json
import math
import re

import msgspec
import pytest

from quintet.apis.eventingbackend import EventingBackend
from quintet.controllers.eventingbackend import caches
from quintet.controllers.eventingbackend.decide import desired, server
from quintet.controllers.eventingbackend.decide.desired import DataPlane, Pods
from quintet.controllers.eventingbackend.drivers.nats import NatsDriver
from quintet.eventing.children import child_name, server_url
from quintet.eventing.dispatcher.decide.retry_policy import RetryPolicy
from quintet.eventing.dispatcher.process import GRACE_SECONDS
from quintet.eventing.settings import VARIABLE
from quintet.eventing.streams import dead_letter_config, retry_config, stream_config
from unit.eventingbackend.samples import a_backend, a_config

BUS = a_backend()
PODS = Pods(image="quintet:1")
WITH_SECRET = Pods(image="quintet:1", secret="login", secret_version="uid/7")


def a_plane(backend: EventingBackend = BUS, **values) -> DataPlane:
    driver = NatsDriver.__new__(NatsDriver)  # what it wants needs none of its tools
    return driver.data_plane(backend, a_config(url="nats://nats.example:4222", **values))


def pod_of(deployment):
    return deployment["spec"]["template"]["spec"]


def test_every_pod_meets_the_restricted_profile():
    plane = a_plane()
    bodies = [
        desired.publisher(BUS, plane, PODS, replicas=2),
        desired.dispatcher(BUS, plane.dispatcher, PODS, replicas=2),
        server.stateful_set(BUS, a_config(), "nats:1", size="1Gi"),
    ]
    for body in bodies:
        pod = pod_of(body)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"readinessProbe", "livenessProbe", "startupProbe"} <= container.keys()


def test_only_dispatchers_have_an_api_token():
    plane = a_plane()
    assert pod_of(desired.publisher(BUS, plane, PODS, replicas=2))["automountServiceAccountToken"] is False
    pod = pod_of(desired.dispatcher(BUS, plane.dispatcher, PODS, replicas=2))
    assert (pod["automountServiceAccountToken"], pod["serviceAccountName"]) == (True, "bus-dispatcher")
    rules = desired.role(BUS)["rules"]
    assert [(rule["resources"], rule["verbs"]) for rule in rules] == [
        (["subscriptions"], ["list", "watch"]),
        (["events"], ["create", "patch"]),
    ]


def test_pods_get_settings_but_no_secrets_in_their_environment():
    plane = a_plane(credentialsSecretRef="login", streamName="orders")
    container = pod_of(desired.publisher(BUS, plane, WITH_SECRET, replicas=2))["containers"][0]
    (variable,) = container["env"]
    assert variable["name"] == VARIABLE
    told = json.loads(variable["value"])
    assert told["nats"] == {
        "url": "nats://nats.example:4222",
        "stream": "orders",
        "subjectPrefix": "kyma",
        "reconnectSeconds": 3.0,
        "credentials": "/etc/quintet/credentials",
    }
    assert container["volumeMounts"] == [
        {"name": "credentials", "mountPath": "/etc/quintet/credentials", "readOnly": True}
    ]


def test_new_secret_version_changes_the_pod_template():
    plane = a_plane(credentialsSecretRef="login")
    bodies = [
        desired.publisher(BUS, plane, Pods(image="i", secret="login", secret_version=version), replicas=2)
        for version in ("uid/7", "uid/8")
    ]
    assert bodies[0]["spec"]["template"] != bodies[1]["spec"]["template"]
    annotations = bodies[0]["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {desired.SECRET_VERSION: "uid/7"}


def test_rolling_update_starts_new_pods_first():
    spec = desired.publisher(BUS, a_plane(), PODS, replicas=2)["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert desired.budget(BUS, "publisher-proxy")["spec"]["maxUnavailable"] == 1
    assert {each["topologyKey"] for each in pod_of({"spec": spec})["topologySpreadConstraints"]} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }


def test_replicas_are_omitted_with_an_autoscaler():
    assert "replicas" not in desired.publisher(BUS, a_plane(), PODS, replicas=None)["spec"]
    assert desired.publisher(BUS, a_plane(), PODS, replicas=3)["spec"]["replicas"] == 3


def test_pods_have_time_to_finish_deliveries_in_flight():
    settings = a_plane().dispatcher
    assert settings is not None
    body = desired.dispatcher(BUS, settings, PODS, replicas=1)
    grace = pod_of(body)["terminationGracePeriodSeconds"]
    assert RetryPolicy().timeout < GRACE_SECONDS < grace


def test_publisher_service_listens_on_port_80():
    ports = {port["name"]: port["port"] for port in desired.publisher_service(BUS)["spec"]["ports"]}
    assert ports == {"http": 80, "metrics": 9090}


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ({}, "1131Mi"),
        ({"maxBytes": "100Mi"}, "456Mi"),
        ({"maxBytes": "1"}, "343Mi"),
        ({"maxBytes": "1", "deadLetterMaxBytes": "1Gi"}, "1351Mi"),
        ({"maxBytes": "-1"}, "10240Mi"),
        ({"maxBytes": "0"}, "10240Mi"),
    ],
    ids=[
        "by default",
        "small",
        "tiny",
        "many dead letters",
        "without a limit",
        "without a limit, said otherwise",
    ],
)
def test_claim_size_covers_the_stream_with_reserve(values, want):
    assert server.claim_size(a_config(**values)) == want


@pytest.mark.parametrize("size", ["1", "1k", "77Mi", "700Mi", "1Gi", "3Ti", "1Pi"])
def test_server_may_store_what_the_streams_of_its_backend_can_hold(size):
    config = a_config(maxBytes=size)
    body = server.stateful_set(BUS, config, "nats:1", size=server.claim_size(config))
    settings = json.loads(body["spec"]["template"]["metadata"]["annotations"][server.CONFIG])
    reserved = sum(each.max_bytes for each in (stream_config(BUS, config), dead_letter_config(BUS, config)))
    most = reserved + retry_config(BUS, config).max_msgs * 64 * 1024
    assert most <= settings["jetstream"]["max_file_store"] <= most + 2 * 1024 * 1024


@pytest.mark.parametrize("mebibytes", [0, 1, 64, 700, 3072, 10**6])
def test_server_with_claim_of_an_earlier_release_may_store_what_its_streams_reserve(mebibytes):
    size = f"{math.ceil(mebibytes * 1.25) + 256}Mi"
    assert server.max_file_store(size) >= (mebibytes + 128) * 1024 * 1024


def test_clustered_servers_have_routes_and_a_single_server_has_none():
    def arguments(**values) -> list[str]:
        body = server.stateful_set(BUS, a_config(**values), "nats:1", size="1Gi")
        assert body["spec"]["replicas"] == values.get("streamReplicas", 1)
        return list(pod_of(body)["containers"][0]["args"])

    assert "--routes" not in arguments()
    cluster = arguments(streamReplicas=3)
    assert cluster[cluster.index("--routes") + 1] == ",".join(
        f"nats://bus-nats-{number}.bus-nats:6222" for number in range(3)
    )


@pytest.mark.parametrize("count", [1, 3, 5])
def test_configured_servers_are_independent_of_scaling(count):
    body = server.stateful_set(BUS, a_config(streamReplicas=count), "nats:1", size="1Gi")
    body["spec"]["replicas"] = 2
    assert caches.workload_state(msgspec.convert(body, caches.WorkloadView)).servers == count


def test_network_policy_admits_only_pods_of_the_backend_and_the_operator():
    policy = server.network_policy(BUS, "quintet-system")["spec"]
    clients, members = policy["ingress"]
    assert clients["ports"] == [{"port": 4222, "protocol": "TCP"}]
    label = "eventing.kyma-project.io/backend"
    assert clients["from"] == [
        {"podSelector": {"matchLabels": {label: "bus-publisher-proxy"}}},
        {"podSelector": {"matchLabels": {label: "bus-dispatcher"}}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "quintet-system"}}},
    ]
    assert members["from"] == [{"podSelector": {"matchLabels": {label: "bus-nats"}}}]


def test_short_child_name_is_kept():
    assert child_name("bus", "publisher-proxy") == "bus-publisher-proxy"


@pytest.mark.parametrize("name", ["1st", "a.b", "x" * 253, "a" * 40, "-".join("ab" * 60)])
def test_long_child_name_becomes_a_valid_label_and_service_name(name):
    made = child_name(name, "publisher-proxy")
    assert len(made) <= 52
    assert re.fullmatch("[a-z]([a-z0-9-]*[a-z0-9])?", made)
    assert made.endswith("-publisher-proxy")


def test_different_backends_have_different_child_names():
    names = ["a.b", "a-b", "a.b.c", "a-b.c", "x" * 100, "x" * 101]
    assert len({child_name(name, "nats") for name in names}) == len(names)


@pytest.mark.parametrize(
    ("url", "want"),
    [
        ("", "nats://bus-nats.shop.svc:4222"),
        ("nats://nats", "nats://nats.shop.svc:4222"),
        ("nats://nats.other:4333", "nats://nats.other:4333"),
        ("tls://nats.example.com", "tls://nats.example.com:4222"),
        ("nats://[2001:db8::1]:4222", "nats://[2001:db8::1]:4222"),
        ("nats://localhost:4222", "nats://localhost.shop.svc:4222"),
    ],
    ids=["none", "one word", "another namespace", "outside", "IPv6", "not this host"],
)
def test_server_has_one_url_for_operator_and_pods(url, want):
    config = a_config(url=url) if url else a_config()
    assert server_url(BUS.key, config) == want
