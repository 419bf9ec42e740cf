"""Rejections, aliases and warnings of CASConfigs through `quintet run --webhooks url`, as kubectl shows them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.cli.quintet import apply, with_webhooks
from kit.cluster.api import Api
from kit.kinds.casconfigs import (
    DEPLOYMENTS,
    a_config,
    a_deployment,
    a_policy,
    comparable_fields,
    create_service_account,
    delete_and_wait,
    get,
    wait_until_applied,
)
from kit.process import Program
from quintet.apis.casconfig import FINALIZER
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client


@pytest.fixture(scope="module")
async def webhooks(casconfigs: Client, cluster) -> AsyncIterator[Program]:
    async with with_webhooks(cluster.kubeconfig, "casconfig") as program:
        yield program


def as_manifest(*policies: Any, **spec: Any) -> dict[str, Any]:
    """Return a CASConfig as a user writes it."""
    body = a_config("asked", *policies, **spec)
    del body["metadata"]["finalizers"]
    return body


async def test_example_from_design_is_accepted_with_warnings_and_applied(
    webhooks, cluster, casconfigs: Client, api: Api, namespace
):
    """With `maincontainer`, and `from` as a single object, as in the design."""
    await create_service_account(api, namespace)
    await casconfigs.create(DEPLOYMENTS, a_deployment("web"), Object, namespace=namespace)
    settings = {"metadata": {"name": "settings"}, "data": {"level": "low"}}
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", settings)
    before = await casconfigs.get(DEPLOYMENTS, ObjectKey(namespace, "web"), dict[str, Any])
    source = {
        "kind": "ConfigMap",
        "name": "settings",
        "path": ".data.level",
        "toType": "env",
        "toKey": "LEVEL",
    }
    main = {"name": "main", "image": "quintet.local/other:2"}
    done = apply(cluster, namespace, as_manifest(a_policy(maincontainer=main, **{"from": source})))
    assert done.returncode == 0, done.stderr
    assert "Warning: spec.policies[0].values.maincontainer: was renamed to mainContainer" in done.stderr
    assert "Warning: spec.policies[0].values.from: was converted to a list of one item" in done.stderr
    key = ObjectKey(namespace, "asked")
    stored = await get(casconfigs, key)
    assert stored.metadata.finalizers == (FINALIZER,), "no finalizer"
    assert stored.spec.policies[0].values.main_container is not None
    assert stored.spec.policies[0].values.maincontainer is None
    await wait_until_applied(casconfigs, key, 1)
    seen = await casconfigs.get(DEPLOYMENTS, ObjectKey(namespace, "web"), dict[str, Any])
    first = seen["spec"]["template"]["spec"]["containers"][0]
    assert (first["image"], first["env"]) == ("quintet.local/other:2", [{"name": "LEVEL", "value": "low"}])
    await delete_and_wait(casconfigs, key)
    after = await casconfigs.get(DEPLOYMENTS, ObjectKey(namespace, "web"), dict[str, Any])
    assert comparable_fields(after) == comparable_fields(before)


SECRET = {"kind": "Secret", "name": "db", "path": ".data.password", "toKey": "password"}
PRIVILEGED = {"name": "x", "image": "x", "securityContext": {"privileged": True}}
REFUSED = [
    pytest.param(a_policy(include={"names": []}, labels={"a": "b"}), "an empty include matches nothing", id="empty include"),
    pytest.param(a_policy(include={"kinds": ["Secret"]}, labels={"a": "b"}), "is never a target", id="Secrets"),
    pytest.param(a_policy(include={"kinds": ["RoleBinding"]}, labels={"a": "b"}), "is never a target", id="RBAC"),
    pytest.param(a_policy(**{"from": [{**SECRET, "toType": "label"}]}), "must not become a label", id="a Secret into a label"),
    pytest.param(a_policy(sidecars=[PRIVILEGED]), "a privileged container owns the node", id="a privileged sidecar"),
    pytest.param(a_policy(sidecars=[{"name": "x", "image": "x", "serviceAccountName": "admin"}]), "serviceAccountName", id="a sidecar with a ServiceAccount"),
    pytest.param(a_policy(annotations={"casconfig.openebs.io/other": "{}"}), "this annotation is reserved", id="a forged ledger"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "sentence"), REFUSED)
async def test_malicious_policy_is_rejected_with_reason(policy, sentence, webhooks, cluster, namespace):
    done = apply(cluster, namespace, as_manifest(policy))
    assert done.returncode != 0, done.stdout
    assert sentence in done.stderr


async def test_container_fields_are_validated(webhooks, cluster, namespace):
    done = apply(
        cluster,
        namespace,
        as_manifest(a_policy(sidecars=[{"name": "x", "image": "x", "imagePullPolicy": 5}])),
    )
    assert done.returncode != 0
    assert "imagePullPolicy" in done.stderr


@pytest.mark.parametrize("most", [0, -1, 100_001])
async def test_max_targets_out_of_range_is_rejected(most, webhooks, cluster, namespace):
    done = apply(cluster, namespace, as_manifest(a_policy(labels={"a": "b"}), maxTargets=most))
    assert done.returncode != 0
    assert "maxTargets" in done.stderr


async def test_overlapping_policies_cause_warning(webhooks, cluster, namespace):
    done = apply(
        cluster, namespace, as_manifest(a_policy("one", envs={"A": "1"}), a_policy("two", envs={"A": "2"}))
    )
    assert done.returncode == 0, done.stderr
    assert "policies one and two may have the same targets and both set variable A: two wins" in done.stderr
