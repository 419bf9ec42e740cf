"""The suite operator on a real API server, with its shipped permissions."""

import json
from collections.abc import AsyncIterator

import pytest

from kit.background import run_in_background
from kit.cluster.api import Api, RefusedError
from kit.eventually import eventually
from kit.faults.proxy import Before, FaultProxy, anything, matching
from kit.kinds.suite import (
    ALL,
    NAMES,
    PATH,
    a_flavour,
    apply_quintet,
    hold_leases,
    installed_operator,
    list_owned,
    path_of,
    register_webhooks,
    simulate_controllers,
    suite_operator,
    wait_for_condition,
    wait_until_settled,
)
from quintet.controllers.suite.decide.installation import OWNED, key_of
from quintet.kube.client import Client
from quintet.manifests.installation import KIAGNOSE, Flavour, in_namespace, installer, objects
from quintet.manifests.operator import quintet_object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def flavour(namespace) -> Flavour:
    return a_flavour(namespace)


@pytest.fixture
async def operator(
    api: Api, proxy: FaultProxy, flavour: Flavour, tmp_path, simulated_node
) -> AsyncIterator[None]:
    """The operator with its own ServiceAccount; its objects are removed afterwards."""
    async with installed_operator(api, flavour) as token, suite_operator(proxy, token, tmp_path, flavour):
        yield


async def exists(api: Api, path: str) -> bool:
    return await api.exists(path)


def deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


async def test_all_components_of_quintet_become_ready(operator, api: Api, client: Client, flavour):
    from quintet.apis.suite import QuintetSpec

    await apply_quintet(api)
    quintet = await wait_until_settled(client)
    assert [each.name for each in quintet.status.components] == NAMES
    assert {each.version for each in quintet.status.components} == {"1"}
    assert quintet.status.version == "1.2.3"
    assert quintet.status.ready == f"{len(ALL)}/{len(ALL)}"
    for body in objects(installer(ALL, flavour)(QuintetSpec(), {})):
        seen = await api.get(path_of(body))
        owners = [each["uid"] for each in seen["metadata"].get("ownerReferences", ())]
        want = [] if body["kind"] == "CustomResourceDefinition" else [quintet.metadata.uid]
        assert owners == want, f"{body['kind']} {key_of(body)}"


async def test_component_is_available_when_api_server_calls_its_webhooks(
    api: Api, client: Client, proxy: FaultProxy, flavour: Flavour, tmp_path, simulated_node
):
    async with (
        installed_operator(api, flavour, register=False) as token,
        suite_operator(proxy, token, tmp_path, flavour),
    ):
        await apply_quintet(api, controllers=["checkup"])
        quintet = await wait_for_condition(client, "Progressing", "True", "WaitingForWebhooks")
        assert quintet.status.ready == "0/1", quintet.status
        await wait_for_condition(client, "Available", "False", "ControllersNotServing")
        async with run_in_background(simulate_controllers(api)):
            await wait_until_settled(client, ready="1/1")
            await wait_for_condition(client, "Available", "True")


async def test_component_without_a_leader_is_not_available(
    api: Api, client: Client, proxy: FaultProxy, flavour: Flavour, tmp_path, simulated_node
):
    async with (
        installed_operator(api, flavour, register=False) as token,
        suite_operator(proxy, token, tmp_path, flavour),
        run_in_background(register_webhooks(api)),
    ):
        await apply_quintet(api, controllers=["checkup"])
        quintet = await wait_for_condition(client, "Available", "False", "NoLeader")
        (component,) = quintet.status.components
        assert (component.ready, component.message) == (False, "no pod holds the Lease quintet-checkup")
        async with run_in_background(hold_leases(api)):
            await wait_for_condition(client, "Available", "True")


async def test_pods_are_replaced_when_their_service_account_was_deleted(
    operator, api: Api, client: Client, namespace
):
    await apply_quintet(api, controllers=["checkup", "jsonserver"])
    await wait_until_settled(client)
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/quintet-checkup"
    pods = f"/api/v1/namespaces/{namespace}/pods"

    async def list_pods(name: str) -> set[str]:
        found = await api.get(pods, labelSelector=f"app.kubernetes.io/name={name}")
        return {each["metadata"]["uid"] for each in found["items"]}

    before, others = await list_pods("quintet-checkup"), await list_pods("quintet-jsonserver")
    assert before
    await api.delete(account)

    async def assert_replaced() -> None:
        assert not before & await list_pods("quintet-checkup")

    await eventually(assert_replaced, within=120)
    await wait_until_settled(client, ready="2/2")
    template = (await api.get(f"{deployments(namespace)}/quintet-checkup"))["spec"]["template"]
    uid = (await api.get(account))["metadata"]["uid"]
    assert template["metadata"]["annotations"]["quintet.dev/service-account-uid"] == uid
    assert await list_pods("quintet-jsonserver") == others


async def test_pod_that_cannot_be_created_degrades_the_installation_with_the_cause(
    operator, api: Api, client: Client, namespace
):
    quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    await api.create(quotas, quota)

    async def assert_enforced() -> None:
        assert "hard" in (await api.get(f"{quotas}/full")).get("status", {})

    await eventually(assert_enforced, within=60)
    await apply_quintet(api, controllers=["checkup"])
    quintet = await wait_for_condition(client, "Degraded", "True", "PodsFail")
    assert "exceeded quota: full" in quintet.status.components[0].message
    await api.delete(f"{quotas}/full")
    await wait_until_settled(client, ready="1/1", within=180)
    await wait_for_condition(client, "Degraded", "False")


async def test_changed_owned_object_of_every_kind_is_restored(operator, api: Api, client: Client, flavour):
    from quintet.apis.suite import QuintetSpec

    await apply_quintet(api, controllers=["checkup"])
    await wait_until_settled(client)
    spec = QuintetSpec(controllers=("checkup",))  # type: ignore[arg-type]  # component names as in a manifest
    made = {body["kind"]: body for body in objects(installer(ALL, flavour)(spec, {}))}
    # Definitions have no other label than the one they are found by, and their fields have tests of their own;
    # what is in the configurations of webhooks is up to the controllers.
    changed = [body for kind, body in made.items() if "Definition" not in kind and "Webhook" not in kind]
    assert len(changed) == len(OWNED) - 2
    label = "app.kubernetes.io/part-of"
    for body in changed:
        await api.merge(path_of(body), {"metadata": {"labels": {label: "something-else"}}})

    async def assert_restored() -> None:
        for body in changed:
            seen = await api.get(path_of(body))
            assert seen["metadata"]["labels"][label] == body["metadata"]["labels"][label], body["kind"]

    await eventually(assert_restored, within=120)


async def test_deleted_or_changed_owned_object_is_restored(operator, api: Api, client: Client, namespace):
    await apply_quintet(api, controllers=["checkup"])
    await wait_until_settled(client)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/quintet-checkup"
    before = (await api.get(role))["rules"]
    await api.delete(role)
    await api.merge(f"{deployments(namespace)}/quintet-checkup", {"spec": {"replicas": 4}})

    async def assert_restored() -> None:
        assert (await api.get(role))["rules"] == before
        assert (await api.get(f"{deployments(namespace)}/quintet-checkup"))["spec"]["replicas"] == 2

    await eventually(assert_restored, within=60)


async def test_object_deleted_during_write_is_recreated_without_error_status(
    operator, api: Api, client: Client, proxy: FaultProxy
):
    await apply_quintet(api, controllers=["checkup"])
    await wait_until_settled(client)
    await proxy.quiet(1.0, anything)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/quintet-checkup"
    before = await api.get(role)
    gone = proxy.inject(Before(lambda: api.delete(role)), when=matching("patch|apply", "clusterroles"))
    began = proxy.trace.mark()
    await api.merge(role, {"rules": []})
    await gone.hit()

    async def assert_restored() -> None:
        after = await api.get(role)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["rules"] == before["rules"]

    await eventually(assert_restored, within=60)
    await proxy.quiet(1.0, anything)
    said = proxy.trace.requests(matching("create|patch", "events"), since=began)
    said += proxy.trace.requests(matching("patch", "quintets"), since=began)
    assert said == [], f"\n{proxy.trace}"


async def test_removed_controller_loses_workload_and_permissions_but_no_user_object(
    operator, cluster, api: Api, client: Client, namespace
):
    await apply_quintet(api, controllers=["checkup", "jsonserver"])
    await wait_until_settled(client)
    servers = f"/apis/example.com/v1/namespaces/{namespace}/jsonservers"
    body = {
        "apiVersion": "example.com/v1",
        "kind": "JsonServer",
        "metadata": {"name": "app-kept"},
        "spec": {"jsonConfig": "{}"},
    }
    await api.create(servers, body)
    await apply_quintet(api, controllers=["checkup"])
    await wait_until_settled(client, ready="1/1")

    async def assert_gone() -> None:
        left = {resource.plural: await list_owned(api, resource.path(namespace)) for resource in OWNED}
        found = {name for names in left.values() for name in names if "jsonserver" in name}
        assert found == {"jsonserver-without-controller.quintet.dev"}, left

    await eventually(assert_gone, within=60)
    assert await exists(api, f"{servers}/app-kept")
    assert await exists(api, f"{CRDS}/jsonservers.example.com")

    def assert_warned() -> None:
        new = json.dumps({**body, "metadata": {"name": "app-new"}})
        done = cluster.kubectl("create", "-n", namespace, "--dry-run=server", "-f", "-", input=new)
        assert "no jsonserver controller runs" in done.stderr, done

    await eventually(assert_warned, within=60)


async def test_deleting_quintet_deletes_its_owned_objects_and_keeps_crds(
    operator, api: Api, client: Client, namespace
):
    await apply_quintet(api, controllers=["checkup"])
    await wait_until_settled(client)
    await api.delete(f"{PATH}/quintet")

    async def assert_gone() -> None:
        left = {resource.plural: await list_owned(api, resource.path(namespace)) for resource in OWNED}
        assert not any(left.values()), left

    await eventually(assert_gone, within=120)
    assert await exists(api, f"{CRDS}/checkups.kiagnose.io")
    assert await exists(api, f"{CRDS}/quintets.quintet.dev")


async def test_existing_foreign_object_is_not_taken_over(operator, api: Api, client: Client, namespace):
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(account, {"metadata": {"name": "quintet-checkup"}})
    await apply_quintet(api, controllers=["checkup"])
    quintet = await wait_for_condition(client, "Degraded", "True", "ForeignObject")
    assert quintet.status.components[0].message == "not started yet"
    assert await list_owned(api, deployments(namespace)) == [], (
        "a Deployment was created without its permissions"
    )


async def test_pods_get_the_settings_of_the_quintet(operator, api: Api, client: Client, namespace):
    pods = {
        "labels": {"team": "platform"},
        "imagePullSecrets": [{"name": "registry"}],
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    }
    await apply_quintet(api, controllers=["checkup"], pods=pods, podDisruptionBudget={"minAvailable": "50%"})
    await wait_until_settled(client, ready="1/1")
    made = (await api.get(f"{deployments(namespace)}/quintet-checkup"))["spec"]["template"]
    (container,) = made["spec"]["containers"]
    (constraint,) = made["spec"]["topologySpreadConstraints"]
    assert made["metadata"]["labels"].items() >= {"team": "platform"}.items()
    assert made["spec"]["imagePullSecrets"] == pods["imagePullSecrets"]
    assert made["spec"]["tolerations"] == pods["tolerations"]
    assert constraint["labelSelector"] == {"matchLabels": {"app.kubernetes.io/name": "quintet-checkup"}}
    assert pods["env"][0] in container["env"]
    budget = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/quintet-checkup"
    assert (await api.get(budget))["spec"]["minAvailable"] == "50%"

    # Fields that are left out later return to their defaults.
    await api.merge(f"{PATH}/quintet", {"spec": {"pods": None, "podDisruptionBudget": None}})

    async def assert_defaults() -> None:
        made = (await api.get(f"{deployments(namespace)}/quintet-checkup"))["spec"]["template"]
        assert "team" not in made["metadata"]["labels"]
        assert "imagePullSecrets" not in made["spec"]
        assert "tolerations" not in made["spec"]
        assert (await api.get(budget))["spec"].get("maxUnavailable") == 1

    await eventually(assert_defaults, within=60)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"pods": {"labels": {"app.kubernetes.io/name": "other"}}}, "Quintet sets the labels"),
        ({"pods": {"args": ["--controllers=checkup"]}}, "Quintet sets --controllers"),
        ({"pods": {"args": ["--health-address=0.0.0.0:1"]}}, "Quintet sets --controllers"),
        ({"pods": {"env": [{"name": "POD_NAMESPACE", "value": "other"}]}}, "Quintet sets POD_NAMESPACE"),
        ({"pods": {"env": [{"value": "no name"}]}}, "spec.pods.env"),
        ({"pods": {"tolerations": [{"key": 5}]}}, "spec.pods.tolerations"),
        ({"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}}, "must not both be set"),
        ({"podDisruptionBudget": {"minAvailable": "101%"}}, "percentage from 0% to 100%"),
    ],
    ids=str,
)
async def test_invalid_pod_settings_are_rejected_with_their_field(spec, want, operator, api: Api):
    with pytest.raises(RefusedError, match=want):
        await api.create(PATH, quintet_object(spec=spec), dryRun="All")


async def test_second_quintet_is_rejected(operator, api: Api):
    body = {"apiVersion": "quintet.dev/v1alpha1", "kind": "Quintet", "metadata": {"name": "another"}}
    with pytest.raises(RefusedError, match="there is one Quintet per cluster, named 'quintet'"):
        await api.create(PATH, {**body, "spec": {}})


async def test_unchanged_quintet_causes_no_writes_even_after_restart(
    api: Api, client: Client, proxy: FaultProxy, flavour: Flavour, tmp_path, simulated_node
):
    def written() -> list[str]:
        return [str(exchange) for exchange in proxy.trace if exchange.request.mutating]

    async with installed_operator(api, flavour) as token:
        async with suite_operator(proxy, token, tmp_path, flavour):
            await apply_quintet(api)
            await wait_until_settled(client)
            await proxy.quiet(1.0, anything)  # Events follow the status
            before = written()
            assert before, "the operator does not write through the proxy"
            # A label change causes a reconciliation without a spec change.
            await api.merge(f"{PATH}/quintet", {"metadata": {"labels": {"looked": "at"}}})
            await proxy.quiet(1.0)
            assert written() == before
        async with suite_operator(proxy, token, tmp_path, flavour):
            await proxy.quiet(1.0)
        assert written() == before


async def test_kiagnose_flavour_installs_checkup_controller_under_its_own_names(
    api: Api, client: Client, proxy: FaultProxy, namespace, tmp_path, simulated_node
):
    flavour = in_namespace(KIAGNOSE, namespace, "q:1")
    async with installed_operator(api, flavour) as token, suite_operator(proxy, token, tmp_path, flavour):
        await api.create(PATH, quintet_object(flavour))
        quintet = await wait_until_settled(client)
        assert [each.name for each in quintet.status.components] == ["checkup"]
        assert await list_owned(api, deployments(namespace)) == ["kiagnose-checkup-controller"]
        await apply_quintet(api, controllers=["checkup", "jsonserver"])
        await wait_for_condition(client, "Degraded", "True", "UnknownController")
        assert await list_owned(api, deployments(namespace)) == ["kiagnose-checkup-controller"]
