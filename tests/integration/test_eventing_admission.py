"""EventingBackends and Subscriptions on a real API server: CRDs and webhooks.

test_eventingbackend.py covers what the status reports about the same validation errors.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from kit.cli.quintet import apply, free_port
from kit.cluster.api import Api, RefusedError
from kit.cluster.webhooks import wait_until_unregistered
from kit.eventually import eventually
from kit.kinds.controllers import install_crds
from quintet.admission import subscription
from quintet.admission.eventingbackend import NAMESPACE_LABEL, admissions
from quintet.admission.modes import by_url
from quintet.apis.eventingbackend import EVENTINGBACKEND, EVENTINGBACKENDS
from quintet.apis.eventingbackend.types import LABEL, PARTS, ConfigErrors
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.apis.subscription import SUBSCRIPTION, SUBSCRIPTIONS
from quintet.apis.subscription.types import FINALIZER
from quintet.authoring.documents import Document
from quintet.authoring.validation import validate_document
from quintet.clock import SystemClock
from quintet.kube.client import Client
from quintet.local.cluster import Cluster

ROOT = Path(__file__).parent.parent.parent
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
REQUIRED = [{"streamName": "sap"}, {"streamSubjectPrefix": "kyma"}, {"eventTypePrefix": "sap.kyma.custom"}]
FAULTY = [{"maxInFlightMessages": "ten"}, {"streamReplicas": 9}, {"foo": "bar"}]
FAULTS = [
    'spec.config[maxInFlightMessages]: Invalid type: "ten": should be of type int',
    'spec.config[streamReplicas]: Invalid value: "9": must be set between 1 and 5',
    'spec.config[foo]: Unsupported value: "bar": config does not exist for backend type nats',
]


def a_backend(name: str = "any", type_: str = "nats", config: object = None) -> JsonObject:
    spec: JsonObject = {"type": type_} | ({} if config is None else {"config": config})
    return {
        "apiVersion": EVENTINGBACKENDS.api_version,
        "kind": EVENTINGBACKENDS.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def a_subscription(namespace: str, **spec: object) -> JsonObject:
    good = {
        "sink": f"http://orders.{namespace}.svc.cluster.local",
        "source": "commerce",
        "types": ["order.created.v1"],
    }
    return {
        "apiVersion": SUBSCRIPTIONS.api_version,
        "kind": SUBSCRIPTIONS.kind,
        "metadata": {"name": "orders"},
        "spec": {**good, **spec},
    }


@pytest.fixture(scope="module")
async def kinds(client: Client) -> None:
    await install_crds(client, EVENTINGBACKEND, SUBSCRIPTION)


@pytest.fixture(scope="module")
async def webhooks(kinds, client: Client, api: Api) -> AsyncIterator[None]:
    """The webhooks of `quintet run`, served in this process."""
    served = [*admissions(ConfigErrors.WARN), subscription.ADMISSION]
    hooks = by_url(
        served, client, SystemClock(), host="127.0.0.1", port=free_port(), name="quintet-eventing-tests"
    )
    async with hooks.running():
        await eventually(lambda: _wait_until_called(api), within=60)
        yield
    await wait_until_unregistered(api, (EVENTINGBACKENDS, SUBSCRIPTIONS))


async def _wait_until_called(api: Api) -> None:
    """Wait until the API server calls the webhooks; it learns of each registration through a watch."""

    async def tried(resource: Resource, body: JsonObject) -> JsonObject:
        return await api.create(resource.path("default"), body, dryRun="All")

    assert (await tried(EVENTINGBACKENDS, a_backend()))["metadata"].get("labels"), "it is not labelled"
    assert (await tried(SUBSCRIPTIONS, a_subscription("default")))["metadata"].get("finalizers"), (
        "it is not held"
    )
    with pytest.raises(RefusedError, match="kafka"):
        await tried(EVENTINGBACKENDS, a_backend("any", "kafka"))
    with pytest.raises(RefusedError, match="must not be empty"):
        await tried(SUBSCRIPTIONS, a_subscription("default", source=""))


Put = Callable[[JsonObject], Awaitable[tuple[bool, str]]]


def apply_with_kubectl(cluster: Cluster, namespace: str) -> Put:
    """Run `kubectl apply` in a thread, because the webhooks are served in this one; return success and stderr."""

    async def applied(body: JsonObject) -> tuple[bool, str]:
        done = await asyncio.to_thread(apply, cluster, namespace, body)
        return done.returncode == 0, done.stderr

    return applied


@pytest.fixture
def put(cluster: Cluster, namespace: str) -> Put:
    return apply_with_kubectl(cluster, namespace)


@pytest.fixture
def put_together(cluster: Cluster, shared_namespace: str) -> Put:
    """Apply to the shared namespace: for objects that are rejected or have a unique name."""
    return apply_with_kubectl(cluster, shared_namespace)


async def get_backend(client: Client, namespace: str, name: str = "any") -> JsonObject:
    return await client.get(EVENTINGBACKENDS, ObjectKey(namespace, name), dict)


@pytest.mark.parametrize(
    ("type_", "config", "want"),
    [
        ("nats", [{"maxInFlightMessages": 10}], [{"maxInFlightMessages": 10}, *REQUIRED]),
        ("beb", [{"secretRef": "some-secret"}], [{"secretRef": "some-secret"}, REQUIRED[2]]),
        ("nats", None, REQUIRED),
    ],
    ids=["nats backend of the design", "beb backend of the design", "type only"],
)
async def test_valid_backend_is_stored_with_label_and_complete_config(
    type_, config, want, webhooks, put, client: Client, namespace
):
    assert await put(a_backend("any", type_, config)) == (True, "")
    backend = await get_backend(client, namespace)
    assert backend["spec"]["config"] == want
    assert backend["metadata"]["labels"][LABEL[0]] == LABEL[1]


async def test_applying_same_manifest_again_changes_nothing(webhooks, put, client: Client, namespace):
    body = a_backend("any", "nats", [{"maxInFlightMessages": 10}])
    await put(body)
    first = await get_backend(client, namespace)
    assert await put(body) == (True, "")
    again = await get_backend(client, namespace)
    assert again["metadata"]["generation"] == first["metadata"]["generation"]


async def test_config_errors_cause_exact_warnings_and_are_admitted(webhooks, put, client: Client, namespace):
    done, said = await put(a_backend("any", "nats", FAULTY))
    assert done
    assert said.splitlines() == [f"Warning: {fault}" for fault in FAULTS]
    assert (await get_backend(client, namespace))["spec"]["config"][:3] == FAULTY


async def test_unknown_backend_type_is_rejected_with_supported_values(webhooks, put_together):
    done, said = await put_together(a_backend("any", "kafka"))
    assert not done
    assert 'spec.type: Unsupported value: "kafka": supported values: "nats", "beb"' in said


async def label_namespace(client: Client, namespace: str, mode: str | None) -> None:
    change = {"metadata": {"labels": {NAMESPACE_LABEL: mode}}}
    await client.patch(NAMESPACES, ObjectKey("", namespace), change, Object)


async def test_namespace_label_turns_config_warnings_into_rejection_and_back(
    webhooks, put, client: Client, namespace
):
    faulty = a_backend("any", "nats", FAULTY)
    await label_namespace(client, namespace, "Reject")

    async def assert_rejected() -> None:
        done, said = await put(faulty)
        assert not done, "the API server has not seen the label yet"
        for fault in FAULTS:
            assert fault in said

    await eventually(assert_rejected)
    assert await put(a_backend("right", "nats", [{"streamReplicas": 3}])) == (True, "")

    await label_namespace(client, namespace, None)

    async def assert_warned() -> None:
        done, said = await put(faulty)
        assert done, said
        assert len(said.splitlines()) == 3, "warned of once, not by two webhooks"

    await eventually(assert_warned)
    await label_namespace(client, namespace, "Reject")

    async def assert_refused_again() -> None:
        done, said = await put(a_backend("any", "nats", FAULTY[:1]))
        assert not done, said

    await eventually(assert_refused_again)
    await client.patch(
        EVENTINGBACKENDS, ObjectKey(namespace, "any"), {"metadata": {"labels": {"team": "a"}}}, Object
    )


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ([{"streamName": "a", "streamReplicas": 1}], "must have at most 1 item"),
        ([{}], "should have at least 1 propert"),
        ({"streamName": "a"}, 'unknown field "spec.config.streamName"'),
        ([{"streamReplicas": 1}] * 65, "must have at most 64 items"),
    ],
    ids=["two keys in one map", "an empty map", "a map instead of a list", "too many entries"],
)
async def test_config_that_is_no_list_of_single_key_maps_is_rejected_by_crd(
    config, want, kinds, put_together
):
    done, said = await put_together(a_backend("any", "nats", config))
    assert not done
    assert want in said


@pytest.mark.parametrize("given", [1, 10_000, "1", "10000"])
async def test_max_in_flight_as_number_or_numeric_string_is_accepted(
    given, webhooks, put_together, shared_namespace
):
    body = a_subscription(shared_namespace, config={"maxInFlightMessages": given})
    body["metadata"]["name"] = f"orders-{secrets.token_hex(4)}"
    assert await put_together(body) == (True, "")


@pytest.mark.parametrize("given", [0, -1, 10_001, "0", "010", "ten", "", "10001", True])
async def test_invalid_max_in_flight_is_rejected_by_crd(given, kinds, put_together, shared_namespace):
    done, said = await put_together(a_subscription(shared_namespace, config={"maxInFlightMessages": given}))
    assert not done
    assert "must be a number from 1 to 10000" in said or "must be of type" in said


async def test_subscription_gets_finalizer_and_default_type_matching(
    webhooks, put, client: Client, namespace
):
    assert await put(a_subscription(namespace)) == (True, "")
    found = await client.get(SUBSCRIPTIONS, ObjectKey(namespace, "orders"), dict)
    assert found["spec"]["typeMatching"] == "standard"
    assert found["metadata"]["finalizers"] == [FINALIZER]
    await client.patch(
        SUBSCRIPTIONS, ObjectKey(namespace, "orders"), {"metadata": {"finalizers": None}}, Object
    )


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"source": ""}, "spec.source: Invalid value: \"\": must not be empty"),
        ({"types": []}, "spec.types: Invalid value: []: must not be empty"),
        ({"types": ["order"]}, "must have minimum 2 segments"),
        ({"types": ["a.b", "a.b"]}, "must not have duplicate types"),
        ({"types": [""]}, "must not be of length zero"),
        ({"sink": "ftp://a"}, "must have URL scheme 'http' or 'https'"),
        ({"sink": "http://example.com"}, "must have valid sink URL suffix svc.cluster.local"),
        ({"sink": "http://a.svc.cluster.local"}, "must have sink URL with 5 sub-domains"),
        ({"sink": "http://a.kube-system.svc.cluster.local"}, "must have the same namespace as the subscriber"),
        ({"typeMatching": "Exact"}, "spec.typeMatching: Unsupported value"),
        ({"types": ["a.*", "a.b"], "typeMatching": "wildcard"}, "spec.types[1]: Invalid value: \"a.b\": must not match events that 'a.*' matches too"),
        ({"filters": [{"any": [{"exact": {"type": ""}}]}]}, "spec.filters[0].any[0].exact[type]: Invalid value: \"\": must not be empty"),
    ],
    ids=str,
)  # fmt: skip
async def test_invalid_subscription_is_rejected_with_specified_message(
    spec, want, webhooks, put_together, shared_namespace
):
    done, said = await put_together(a_subscription(shared_namespace, **spec))
    assert not done
    assert want in said


async def test_kubectl_get_shows_specified_backend_columns(kinds, cluster, client: Client, namespace):
    await client.create(EVENTINGBACKENDS, a_backend(), Object, namespace=namespace)
    conditions = [
        {"type": part, "status": "True", "reason": f"{part} so", "message": "", "lastTransitionTime": "2022-05-06T08:35:11Z"}
        for part in (*PARTS, "Ready")
    ]  # fmt: skip
    status = {"backendType": "nats", "eventingReady": True, "conditions": conditions}
    await client.patch(
        EVENTINGBACKENDS, ObjectKey(namespace, "any"), {"status": status}, Object, subresource="status"
    )
    head, row = cluster.kubectl("get", "-n", namespace, "evb").stdout.splitlines()
    assert head.split() == [
        "NAME", "BACKEND", "EVENTINGREADY", "SUBSCRIPTIONCONTROLLERREADY", "PUBLISHERPROXYREADY", "AGE",
    ]  # fmt: skip
    assert row.split()[:5] == ["any", "nats", "true", "True", "True"]
    wide = cluster.kubectl("get", "-n", namespace, "evb", "-o", "wide").stdout.splitlines()
    assert (wide[0].split()[-1], wide[1].split()[-1]) == ("BACKENDREADY", "True")
    for condition in ("Ready", "Backend Ready", "Publisher Proxy Ready", "Subscription Controller Ready"):
        waited = cluster.kubectl(
            "wait", "-n", namespace, "evb/any", f"--for=condition={condition}", "--timeout=30s"
        )
        assert waited.returncode == 0, waited.stderr
    listed = cluster.kubectl("get", "quintet", "-n", namespace, "-o", "name").stdout
    assert "eventingbackend.eventing.kyma-project.io/any" in listed


async def test_kubectl_get_shows_subscription_columns(kinds, cluster, client: Client, namespace):
    await client.create(SUBSCRIPTIONS, a_subscription(namespace), Object, namespace=namespace)
    backlog = {"pending": 7, "oldest": "2025-01-31T12:00:00Z"}
    status = {"ready": False, "backend": {"name": "main", "type": "nats"}, "backlog": backlog}
    await client.patch(
        SUBSCRIPTIONS, ObjectKey(namespace, "orders"), {"status": status}, Object, subresource="status"
    )
    head, row = cluster.kubectl("get", "-n", namespace, "evsub", "-o", "wide").stdout.splitlines()
    assert head.split() == ["NAME", "READY", "BACKEND", "PENDING", "AGE", "SINK", "OLDEST"]
    assert row.split()[:4] == ["orders", "false", "main", "7"]
    by_backend = cluster.kubectl(
        "get", "-n", namespace, "evsub", "-o", "name", "--field-selector", "spec.backend=other"
    )
    assert by_backend.stdout == "", "the field can be selected by, and nothing has that backend"


SAMPLES = sorted(
    [
        *(ROOT / "config/samples").glob("eventingbackend*.yaml"),
        *(ROOT / "config/samples").glob("subscription*.yaml"),
    ]
)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
async def test_samples_are_accepted_without_warning(sample, webhooks, put, client: Client, namespace):
    documents = list(filter(None, yaml.safe_load_all(sample.read_text())))
    assert documents
    for body in documents:
        if body["kind"] not in ("EventingBackend", "Subscription"):
            continue
        moved = json.loads(json.dumps(body).replace(".shop.svc", f".{namespace}.svc"))
        moved["metadata"].pop("namespace", None)
        assert await put(moved) == (True, "")
        if body["kind"] == "Subscription":
            released = {"metadata": {"finalizers": None}}
            await client.patch(
                SUBSCRIPTIONS, ObjectKey(namespace, body["metadata"]["name"]), released, Object
            )


WRITTEN = [
    {},
    {"type": None},
    {"type": 7},
    {"config": [{"streamReplicas": 3}]},
    {"config": {}},
    {"config": [7]},
    {"config": [{}]},
    {"config": [None]},
    {"config": [{"a": 1, "b": 2}]},
    {"config": [{"url": None}]},
    {"config": "text"},
    {"more": 1},
]


@pytest.mark.parametrize("spec", WRITTEN, ids=str)
async def test_validate_command_rejects_exactly_what_crd_rejects(
    spec, webhooks, put_together, shared_namespace
):
    body = a_backend(f"any-{secrets.token_hex(4)}")
    body["spec"] |= spec
    errors = validate_document(Document("f", 1, body), shared_namespace).errors
    done, said = await put_together(body)
    assert done == (not errors), (said, errors)
