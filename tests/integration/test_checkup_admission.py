"""Rejections, aliases and warnings of Checkups through `quintet run --webhooks url`, as kubectl shows them.

The CRD itself enforces the bounds of the timeout and the immutable spec; see also test_checkup_verdicts.py.
"""

import secrets
from collections.abc import AsyncIterator

import pytest
import yaml

from kit.cli.quintet import apply, with_webhooks
from kit.kinds.checkups import ROOT, a_checkup, create_service_account, get, run_to_success, wait_for_verdict
from kit.process import Program
from quintet.apis.checkup.types import FINALIZER
from quintet.apis.meta import ObjectKey
from quintet.kube.client import Client


@pytest.fixture(scope="module")
async def webhooks(checkups: Client, cluster) -> AsyncIterator[Program]:
    async with with_webhooks(cluster.kubeconfig, "checkup") as program:
        yield program


async def test_timeout_alias_is_rewritten_with_warning(webhooks, cluster, checkups: Client, namespace):
    body = a_checkup("old")
    body["spec"]["timeout"] = body["spec"].pop("timeoutSeconds")
    for _ in range(2):
        done = apply(cluster, namespace, body)
        assert done.returncode == 0, done.stderr
        assert "Warning: spec.timeout is deprecated and was replaced: use spec.timeoutSeconds" in done.stderr
    checkup = await get(checkups, ObjectKey(namespace, "old"))
    assert (checkup.spec.timeout_seconds, checkup.spec.timeout) == (60, None)
    assert checkup.metadata.finalizers == (FINALIZER,), "no finalizer"


@pytest.mark.parametrize("timeout", [5, "5", 86400, "86400"])
async def test_timeout_as_number_or_numeric_string_is_accepted(timeout, webhooks, cluster, shared_namespace):
    body = a_checkup(f"timed-{secrets.token_hex(4)}", timeout=timeout)
    assert apply(cluster, shared_namespace, body).returncode == 0


@pytest.mark.parametrize("timeout", [0, -1, 86401, "0", "1m", "", "99999", None])
async def test_invalid_timeout_is_rejected(timeout, webhooks, cluster, shared_namespace):
    done = apply(cluster, shared_namespace, a_checkup("timed", timeout=timeout))
    assert done.returncode != 0
    assert "must be a number of seconds from 1 to 86400" in done.stderr


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        pytest.param("{", "spec.params: Invalid value", id="invalid JSON"),
        pytest.param("[]", "must be a JSON object", id="a list"),
        pytest.param('{"a": {"b": "c"}}', "spec.params[a]: Invalid value", id="nested"),
        pytest.param({"a": 5}, "write it as a text, in quotes", id="a number"),
        pytest.param({"a b": "c"}, "is no name for a variable", id="an illegal name"),
        pytest.param(
            {"message": "1", "Message": "2"}, "are both the variable MESSAGE", id="a duplicate name"
        ),
        pytest.param({"checkup_uid": "x"}, "tells the checkup where its results go", id="a reserved name"),
    ],
)
async def test_invalid_params_are_rejected_before_objects_are_created(
    params, sentence, webhooks, cluster, shared_namespace
):
    done = apply(cluster, shared_namespace, a_checkup("bad", params=params))
    assert done.returncode != 0
    assert sentence in done.stderr


async def test_template_that_overrides_reserved_fields_is_rejected(webhooks, cluster, shared_namespace):
    env = [{"name": "CONFIGMAP_NAME", "value": "x"}]
    overlay = {
        "spec": {"serviceAccountName": "admin", "containers": [{"name": "checkup", "image": "x", "env": env}]}
    }
    done = apply(cluster, shared_namespace, a_checkup("bad", template=overlay))
    assert "spec.template.spec.serviceAccountName: Forbidden" in done.stderr
    assert "spec.template.spec.containers[0].image: Forbidden" in done.stderr
    assert "spec.template.spec.containers[0].env[0].name: Forbidden" in done.stderr


async def test_spec_is_immutable_after_start(webhooks, cluster, checkups: Client, namespace):
    await create_service_account(checkups, namespace)
    assert apply(cluster, namespace, a_checkup("fixed", params={"a": "b"})).returncode == 0
    key = ObjectKey(namespace, "fixed")
    await run_to_success(checkups, key)
    await wait_for_verdict(checkups, key, "Passed")
    for spec in (
        {"params": {"a": "c"}},
        {"timeout": 61},
        {"template": {"spec": {"nodeSelector": {"a": "b"}}}},
    ):
        done = apply(cluster, namespace, a_checkup("fixed", **{"params": {"a": "b"}, **spec}))
        assert done.returncode != 0, spec
        assert "spec must not be changed once the checkup has started" in done.stderr
    assert cluster.kubectl("annotate", "-n", namespace, "ckup", "fixed", "note=x").returncode == 0


async def test_kubectl_wait_and_columns_show_verdict(webhooks, cluster, checkups: Client, namespace):
    await create_service_account(checkups, namespace)
    assert apply(cluster, namespace, a_checkup("read")).returncode == 0
    await run_to_success(checkups, ObjectKey(namespace, "read"))
    done = cluster.kubectl("wait", "-n", namespace, "ckup/read", "--for=condition=Succeeded", "--timeout=60s")
    assert done.returncode == 0, done.stderr
    listed = cluster.kubectl("get", "-n", namespace, "ckup").stdout.splitlines()
    assert listed[0].split() == ["NAME", "VERDICT", "REASON", "DURATION", "AGE"]
    assert listed[1].split()[:3] == ["read", "Passed", "CheckupSucceeded"]


@pytest.mark.parametrize(
    "sample", sorted((ROOT / "config/samples").glob("checkup*.yaml")), ids=lambda path: path.name
)
async def test_samples_are_accepted(sample, webhooks, cluster, namespace):
    documents = [
        body for body in yaml.safe_load_all(sample.read_text()) if body and body["kind"] == "Checkup"
    ]
    assert documents
    for body in documents:
        body["metadata"].pop("namespace", None)
        done = apply(cluster, namespace, body)
        assert done.returncode == 0, done.stderr
