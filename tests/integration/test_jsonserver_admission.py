"""Rejections, defaults and warnings of JsonServers through `quintet run --webhooks url`, as kubectl shows them.

test_jsonserver.py covers objects that bypass the webhooks: CEL rules still reject names and replicas, and the status
reports invalid data.
"""

import json
from collections.abc import AsyncIterator

import pytest

from kit.cli.quintet import apply, with_webhooks
from kit.kinds.jsonservers import PEOPLE, a_jsonserver, install, wait_for_state
from kit.process import Program
from quintet.apis.jsonserver import JSONSERVERS, JsonServer
from quintet.apis.jsonserver.types import FINALIZER, MAX_CONFIG_BYTES
from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.kube.client import Client
from quintet.kube.errors import ApiError, Invalid

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")


@pytest.fixture(scope="module")
async def webhooks(client: Client, cluster) -> AsyncIterator[Program]:
    await install(client)
    async with with_webhooks(cluster.kubeconfig, "jsonserver") as program:
        yield program


async def test_tc_02_omitted_replicas_default_to_one(webhooks, cluster, client: Client, namespace):
    done = apply(cluster, namespace, a_jsonserver("app-default"))
    assert done.returncode == 0, done.stderr
    server = await client.get(JSONSERVERS, ObjectKey(namespace, "app-default"), JsonServer)
    assert server.spec.replicas == 1
    assert server.metadata.finalizers == (FINALIZER,), (
        "held from the first moment, without a write of its own"
    )
    await wait_for_state(client, server.key, "Synced")


@pytest.mark.parametrize("config", ["{", "null", "[]", '{"a": 1, "a": 2}', '{"a": NaN}', "text", ""])
async def test_tc_04_invalid_json_config_is_rejected(config, webhooks, cluster, shared_namespace):
    done = apply(cluster, shared_namespace, a_jsonserver("app-bad", config))
    assert done.returncode != 0
    assert "Invalid JSON configuration." in done.stderr


async def test_tc_04_invalid_json_config_reports_line_and_column(webhooks, cluster, shared_namespace):
    done = apply(cluster, shared_namespace, a_jsonserver("app-bad", '{\n  "a": 1\n  "b": 2\n}'))
    assert "Invalid JSON configuration. line 3, column 3: expecting ',' delimiter" in done.stderr


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        pytest.param(a_jsonserver("web"), "Invalid name: must start with 'app-'.", id="TC-03"),
        pytest.param(a_jsonserver("app-x", replicas=-1), "Invalid replicas number.", id="TC-11"),
    ],
)
async def test_messages_from_design_are_unchanged_with_webhooks(
    body, sentence, webhooks, cluster, shared_namespace
):
    done = apply(cluster, shared_namespace, body)
    assert done.returncode != 0
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"delay": {"milliseconds": 60_001}}, "spec.delay.milliseconds: Invalid value: 60001"),
        ({"delay": {"maxMilliseconds": 1}}, "spec.delay.milliseconds: Required value"),
        ({"faults": [{"status": 200, "percent": 1}]}, "spec.faults[0].status: Invalid value: 200"),
        ({"faults": [{"status": 500, "percent": 0}]}, "spec.faults[0].percent: Invalid value: 0"),
        ({"faults": [{"status": 500, "percent": 60}] * 2}, "spec.faults: Invalid value: 120"),
        ({"routes": [{"path": "/a", "target": "/$1"}]}, "spec.routes[0].target: Invalid value"),
        ({"readOnly": False}, "spec.readOnly: Forbidden"),
        ({"idField": "a b"}, 'spec.idField: Invalid value: "a b"'),
        ({"bodyLimit": "11Mi"}, 'spec.bodyLimit: Invalid value: "11Mi"'),
    ],
)
async def test_invalid_option_is_rejected_with_field_and_reason(
    options, sentence, webhooks, cluster, shared_namespace
):
    done = apply(cluster, shared_namespace, a_jsonserver("app-options", **options))
    assert done.returncode != 0
    assert sentence in done.stderr


async def test_invalid_update_is_rejected_like_creation(webhooks, cluster, client: Client, namespace):
    assert apply(cluster, namespace, a_jsonserver("app-x")).returncode == 0
    done = apply(cluster, namespace, a_jsonserver("app-x", "not json"))
    assert "Invalid JSON configuration." in done.stderr
    server = await client.get(JSONSERVERS, ObjectKey(namespace, "app-x"), JsonServer)
    assert server.spec.json_config == PEOPLE


async def test_config_that_cannot_be_served_causes_warning(webhooks, cluster, namespace):
    done = apply(cluster, namespace, a_jsonserver("app-doubt", '{"version": 1}'))
    assert done.returncode == 0
    assert "Warning: spec.jsonConfig: version: json-server serves only objects and arrays" in done.stderr


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("quoted", [False, True], ids=["plain text", "escaped quotes"])
async def test_size_limit_is_exact_and_never_a_server_error(
    extra, quoted, webhooks, client: Client, namespace
):
    frame = '{"a":""}'
    room = MAX_CONFIG_BYTES - 2 - len(frame) - 4 + extra
    # A quote in the data is `\"` in the text and `\\\"` where the object is stored: four bytes.
    filling = '\\"' * (room // 4) + "x" * (room % 4) if quoted else "x" * room
    config = frame[:6] + filling + frame[6:]
    body = a_jsonserver("app-large", config)
    if extra <= 0:
        await client.create(JSONSERVERS, body, Object, namespace=namespace)
        await wait_for_state(client, ObjectKey(namespace, "app-large"), "Synced")
        seen = await client.get(CONFIG_MAPS, ObjectKey(namespace, "app-large"), dict)
        assert seen["data"] == {"db.json": config}
    else:
        with pytest.raises(Invalid) as refusal:
            await client.create(JSONSERVERS, body, Object, namespace=namespace)
        assert "Invalid JSON configuration." in refusal.value.message


async def test_config_with_many_escaped_quotes_is_rejected_with_message(
    webhooks, client: Client, shared_namespace
):
    body = a_jsonserver("app-quotes", json.dumps({"a": '"' * 400_000}))
    with pytest.raises(ApiError) as refusal:
        await client.create(JSONSERVERS, body, Object, namespace=shared_namespace)
    assert refusal.value.status.code == 422
    assert "Invalid JSON configuration." in refusal.value.message


async def test_template_that_would_break_pods_is_rejected(webhooks, cluster, shared_namespace):
    overlay = {"spec": {"serviceAccountName": "admin"}, "metadata": {"labels": {"app": "other"}}}
    done = apply(cluster, shared_namespace, a_jsonserver("app-x", template=overlay))
    assert "spec.template.spec.serviceAccountName: Forbidden" in done.stderr
    assert "spec.template.metadata.labels[app]: Forbidden" in done.stderr
