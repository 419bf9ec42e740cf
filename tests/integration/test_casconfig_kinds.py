"""Target kinds whose CRDs and versions change while CASConfigs are applied to their objects."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.cluster.api import Api
from kit.eventually import eventually
from kit.faults.proxy import Answer, FaultProxy, matching
from kit.kinds.casconfigs import (
    DEPLOYMENTS,
    STATEFUL_SETS,
    VERBS,
    a_deployment,
    a_policy,
    a_workload,
    bind,
    create,
    create_service_account,
    delete_and_wait,
    edit,
    wait_for_reason,
    wait_until_applied,
    wait_until_gone,
)
from kit.kinds.casconfigs import casconfig_operator as operator
from kit.kinds.controllers import CRDS, wait_until_served
from quintet.apis.casconfig.kinds import as_text
from quintet.apis.casconfig.types import CASCONFIGS
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.controllers.casconfig import kinds, survey, watches
from quintet.kube import discovery
from quintet.kube.client import Client
from quintet.kube.discovery import list_resources

OLD, NEW = "v1beta1", "v1"


def an_object_schema(**properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties}


def a_version(name: str, served: bool = True) -> JsonObject:
    container = an_object_schema(name={"type": "string"}, image={"type": "string"})
    pod = an_object_schema(containers={"type": "array", "items": container})
    schema = {"openAPIV3Schema": an_object_schema(spec=an_object_schema(template=an_object_schema(spec=pod)))}
    return {"name": name, "served": served, "storage": name == NEW, "schema": schema}


class Rollouts:
    """A separate kind in two versions for one test."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace, self.group = client, namespace, f"{namespace}.example.com"
        self.old, self.new = (Resource(self.group, each, "Rollout", "rollouts") for each in (OLD, NEW))
        self.key = ObjectKey("", f"rollouts.{self.group}")

    async def define(self) -> None:
        names = {"kind": "Rollout", "listKind": "RolloutList", "plural": "rollouts", "singular": "rollout"}
        spec = {
            "group": self.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [a_version(NEW), a_version(OLD)],
        }
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": CRDS.kind}
        await self.client.create(CRDS, {**kind, "metadata": {"name": self.key.name}, "spec": spec}, Object)
        for each in (self.old, self.new):
            await wait_until_served(self.client, each)
        pod = {"containers": [{"name": "main", "image": "a:1"}]}
        body = {"apiVersion": self.new.api_version, "kind": "Rollout", "metadata": {"name": "web"}}
        body |= {"spec": {"template": {"spec": pod}}}
        await self.client.create(self.new, body, Object, namespace=self.namespace)

    async def end_of_the_old_version(self) -> None:
        versions = [a_version(NEW), a_version(OLD, served=False)]
        await self.client.patch(CRDS, self.key, {"spec": {"versions": versions}}, Object)

    async def without(self, *resources: Resource) -> None:
        """Wait until discovery no longer lists these resources."""

        async def probe() -> None:
            assert not {*resources} & {*await list_resources(self.client)}

        await eventually(probe, within=120)

    async def labels(self) -> dict[str, str]:
        found = await self.client.get(self.new, ObjectKey(self.namespace, "web"), Object)
        return found.metadata.labels


@pytest.fixture
async def rollouts(to_come: Rollouts) -> Rollouts:
    await to_come.define()
    return to_come


@pytest.fixture
async def to_come(casconfigs: Client, api: Api, namespace: str) -> AsyncIterator[Rollouts]:
    """A kind whose CRD does not exist yet."""
    made = Rollouts(casconfigs, namespace)
    await create_service_account(api, namespace)
    rule: dict[str, Any] = {"apiGroups": [made.group], "resources": ["rollouts"], "verbs": [*VERBS]}
    await bind(api, namespace, rule, name="rollouts")
    yield made
    if made.new in await list_resources(casconfigs):
        await casconfigs.delete(CRDS, made.key)


def a_policy_for(resource: Resource) -> JsonObject:
    return a_policy(include={"kinds": [as_text(resource)]}, labels={"tier": "ours"})


async def test_values_set_through_removed_api_version_are_undone_through_another_version(
    rollouts: Rollouts, casconfigs: Client, proxy: FaultProxy, namespace, tmp_path
):
    kubeconfig = proxy.write_kubeconfig(tmp_path)
    async with operator(kubeconfig, namespace=namespace):
        key = await create(casconfigs, namespace, "old", a_policy_for(rollouts.old))
        config = await wait_until_applied(casconfigs, key, 1)
        assert [each.kind for each in config.status.reach] == [as_text(rollouts.old)]
    await rollouts.end_of_the_old_version()
    await rollouts.without(rollouts.old)
    await casconfigs.delete(CASCONFIGS, key)
    async with operator(kubeconfig, namespace=namespace):
        await wait_until_gone(casconfigs, key)
    assert await rollouts.labels() == {}


async def test_api_version_removed_while_casconfig_runs_is_still_undone(
    rollouts: Rollouts, casconfigs: Client, proxy: FaultProxy, namespace, tmp_path
):
    async with operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as running:
        key = await create(casconfigs, namespace, "old", a_policy_for(rollouts.old))
        await wait_until_applied(casconfigs, key, 1)
        await rollouts.end_of_the_old_version()
        await rollouts.without(rollouts.old)
        with running.clock.running_fast():
            await delete_and_wait(casconfigs, key)
    assert await rollouts.labels() == {}


async def test_not_found_for_resource_type_is_not_treated_as_deleted_target(
    casconfig_operator, casconfigs: Client, proxy: FaultProxy, namespace
):
    await casconfigs.create(DEPLOYMENTS, a_deployment("web"), Object, namespace=namespace)
    key = await create(casconfigs, namespace, "held", a_policy(labels={"tier": "ours"}))
    await wait_until_applied(casconfigs, key, 1)
    # The message of an API server that does not serve the version.
    answer = Answer(404, "NotFound", "the server could not find the requested resource")
    fault = proxy.inject(answer, when=matching("patch", "deployments"), times=1)
    with casconfig_operator.clock.running_fast():
        await delete_and_wait(casconfigs, key)
    assert fault.hits
    seen = await casconfigs.get(DEPLOYMENTS, ObjectKey(namespace, "web"), Object)
    assert "tier" not in seen.metadata.labels


async def test_kind_missing_from_discovery_for_a_moment_is_still_undone(
    rollouts: Rollouts, casconfigs: Client, proxy: FaultProxy, namespace, tmp_path, monkeypatch
):
    async def without_rollouts(client: Client) -> tuple[Resource, ...]:
        return tuple(each for each in await list_resources(client) if each.group != rollouts.group)

    kubeconfig = proxy.write_kubeconfig(tmp_path)
    await casconfigs.create(DEPLOYMENTS, a_deployment("web"), Object, namespace=namespace)
    async with operator(kubeconfig, namespace=namespace):
        key = await create(casconfigs, namespace, "held", a_policy_for(rollouts.new))
        await wait_until_applied(casconfigs, key, 1)
    monkeypatch.setattr(discovery, "list_resources", without_rollouts)
    async with operator(kubeconfig, namespace=namespace) as running:
        await edit(casconfigs, key, a_policy_for(DEPLOYMENTS))
        config = await wait_until_applied(casconfigs, key, 1)
        assert [each.kind for each in config.status.reach] == [as_text(DEPLOYMENTS), as_text(rollouts.new)]
        monkeypatch.undo()
        with running.clock.running_fast():
            await delete_and_wait(casconfigs, key)
    assert await rollouts.labels() == {}


async def test_deleted_kind_does_not_block_deletion_of_casconfig(
    rollouts: Rollouts, casconfigs: Client, proxy: FaultProxy, namespace, tmp_path
):
    async with operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as running:
        key = await create(casconfigs, namespace, "old", a_policy_for(rollouts.old))
        await wait_until_applied(casconfigs, key, 1)
        await casconfigs.delete(CRDS, rollouts.key)
        await rollouts.without(rollouts.old, rollouts.new)
        with running.clock.running_fast():
            await delete_and_wait(casconfigs, key)


async def test_kind_with_pod_template_that_is_added_later_is_found(
    to_come: Rollouts, casconfigs: Client, proxy: FaultProxy, namespace, tmp_path, monkeypatch
):
    for module in (kinds, survey):
        monkeypatch.setattr(module, "CACHE_SECONDS", 5.0)
    async with operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as running:
        policy = a_policy(include={"names": ["web"]}, labels={"tier": "ours"})
        key = await create(casconfigs, namespace, "all", policy)
        await wait_until_applied(casconfigs, key, 0)
        await to_come.define()
        # Not faster: every reconciliation reads the schemas of all groups.
        with running.clock.running_fast(5.0):
            await wait_until_applied(casconfigs, key, 1)
        assert await to_come.labels() == {"tier": "ours"}
        await delete_and_wait(casconfigs, key)


async def test_failing_list_of_one_kind_is_reported_and_does_not_block_other_kinds(
    casconfigs: Client, api: Api, proxy: FaultProxy, namespace, tmp_path, monkeypatch
):
    monkeypatch.setattr(watches, "FIRST_LIST_SECONDS", 0.0)
    await create_service_account(api, namespace)
    for resource in (DEPLOYMENTS, STATEFUL_SETS):
        await casconfigs.create(resource, a_workload(resource, "web"), Object, namespace=namespace)
    answer = Answer(500, "InternalError", "conversion webhook failed")
    fault = proxy.inject(answer, when=matching("list|watch", "statefulsets"), times=None)
    async with operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as running:
        anything = a_policy(include={"names": ["web"]}, labels={"tier": "ours"})
        some = await create(casconfigs, namespace, "some", anything)
        named = await create(casconfigs, namespace, "named", a_policy_for(STATEFUL_SETS))
        config = await wait_for_reason(casconfigs, named, "NotShown")
        assert "cannot list statefulsets.apps" in config.status.message
        assert "conversion webhook failed" in config.status.message
        await wait_until_applied(casconfigs, some, 1)
        fault.remove()
        with running.clock.running_fast():
            await wait_until_applied(casconfigs, some, 2)
            await wait_until_applied(casconfigs, named, 1)
