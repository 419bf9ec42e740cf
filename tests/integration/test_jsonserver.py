"""The test plan of the JsonServer design, with its test case numbers, on a real API server.

Tests that need pods are in tests/e2e; rejections through the webhooks are in test_jsonserver_admission.py.
"""

import json
from collections.abc import AsyncIterator

import pytest

from kit.cluster.objects import exists, find_differences
from kit.eventually import eventually
from kit.faults.proxy import Answer, Before, FaultProxy, anything, matching
from kit.kinds.jsonservers import (
    CHILD_TYPES,
    IMAGE,
    PEOPLE,
    a_jsonserver,
    children,
    install,
    jsonserver_operator,
    wait_for_state,
)
from quintet.apis.jsonserver import JSONSERVERS, JsonServer
from quintet.apis.jsonserver.types import FINALIZER, MAX_CONFIG_BYTES
from quintet.apis.meta import JsonObject, Object, ObjectKey, find_condition
from quintet.controllers.jsonserver.decide import desired
from quintet.kube.client import JSON, Client
from quintet.kube.errors import Invalid
from quintet.runtime.manager import Manager


@pytest.fixture(scope="module")
async def servers(client: Client) -> Client:
    await install(client)
    return client


@pytest.fixture
async def operator(servers, proxy: FaultProxy, namespace, tmp_path) -> AsyncIterator[Manager]:
    async with jsonserver_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as manager:
        yield manager


async def create(client: Client, namespace: str, name: str, *args, **spec) -> ObjectKey:
    """Create a JsonServer as the mutating webhook returns it, with the finalizer."""
    body = a_jsonserver(name, *args, **spec)
    body["metadata"]["finalizers"] = [FINALIZER]
    await client.create(JSONSERVERS, body, Object, namespace=namespace)
    return ObjectKey(namespace, name)


@pytest.fixture
async def app(operator, servers: Client, namespace) -> ObjectKey:
    """A synced JsonServer with two replicas."""
    key = await create(servers, namespace, "app-my-server", replicas=2)
    await wait_for_state(servers, key, "Synced")
    return key


async def test_tc_01_created_jsonserver_gets_configmap_deployment_and_service(app, servers: Client):
    seen = await children(servers, app)
    server = await servers.get(JSONSERVERS, app, JsonServer)
    for kind, child in seen.items():
        assert child["metadata"]["labels"]["app"] == app.name, kind
        owner = child["metadata"]["ownerReferences"][0]
        assert (owner["uid"], owner["controller"]) == (server.metadata.uid, True), kind
    deployment = seen["Deployment"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["selector"] == {"matchLabels": {"app": app.name}}
    pod = deployment["template"]
    assert pod["metadata"]["labels"]["app"] == app.name
    main = pod["spec"]["containers"][0]
    assert main["image"] == IMAGE
    assert main["volumeMounts"] == [{"name": "json-config", "mountPath": "/data"}]
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == app.name
    service = seen["Service"]["spec"]
    assert service["selector"] == {"app": app.name}
    assert [(port["port"], port["targetPort"]) for port in service["ports"]] == [(3000, 3000)]
    assert seen["ConfigMap"]["data"] == {"db.json": PEOPLE}
    assert (server.status.state, server.status.message) == ("Synced", "Synced successfully!")


async def test_tc_02_omitted_replicas_default_to_one(operator, servers: Client, namespace):
    key = await create(servers, namespace, "app-default")
    await wait_for_state(servers, key, "Synced")
    assert (await children(servers, key))["Deployment"]["spec"]["replicas"] == 1


async def test_tc_03_invalid_name_is_rejected(servers: Client, cluster, namespace):
    done = cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(a_jsonserver("web")))
    assert done.returncode != 0
    assert "Invalid name: must start with 'app-'." in done.stderr


async def test_tc_05_updated_replicas_reach_deployment(app, servers: Client, cluster):
    await servers.patch(JSONSERVERS, app, {"spec": {"replicas": 5}}, Object)
    await wait_for_state(servers, app, "Synced")
    assert (await children(servers, app))["Deployment"]["spec"]["replicas"] == 5


async def test_tc_06_updated_json_config_restarts_pods(app, servers: Client):
    before = (await children(servers, app))["Deployment"]["spec"]["template"]
    changed = '{"people": []}'
    await servers.patch(JSONSERVERS, app, {"spec": {"jsonConfig": changed}}, Object)
    server = await wait_for_state(servers, app, "Synced")
    seen = await children(servers, app)
    assert seen["ConfigMap"]["data"] == {"db.json": changed}
    assert seen["Deployment"]["spec"]["template"] != before, "the pods were not restarted"
    assert server.status.config_hash == desired.config_hash(changed)


async def test_tc_07_deleted_jsonserver_leaves_no_children(app, servers: Client):
    await servers.delete(JSONSERVERS, app)

    async def assert_gone() -> None:
        for resource in (*CHILD_TYPES, JSONSERVERS):
            assert not await exists(servers, resource, app), resource.kind

    await eventually(assert_gone)


async def test_tc_07_deleted_namespace_removes_jsonserver_and_children(
    app, servers: Client, cluster, namespace
):
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")

    async def assert_gone() -> None:
        for resource in (*CHILD_TYPES, JSONSERVERS):
            assert not await exists(servers, resource, app), resource.kind

    await eventually(assert_gone, within=120.0)


async def test_tc_08_deleted_child_is_recreated(app, servers: Client):
    for resource in CHILD_TYPES:
        before = await servers.get(resource, app, Object)
        await servers.delete(resource, app)

        async def assert_restored(resource=resource, before=before) -> None:
            after = await servers.get(resource, app, Object)
            assert after.metadata.uid != before.metadata.uid

        await eventually(assert_restored)
    await wait_for_state(servers, app, "Synced")


def _leaf_values(value, path: str = ""):
    """Yield the JSON pointer of every leaf value of a desired object."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaf_values(item, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, item in enumerate(value):
            yield from _leaf_values(item, f"{path}/{index}")
    else:
        yield path, value


def _other_value(pointer: str, value):
    """Return another valid value."""
    special = {
        "/spec/type": "NodePort",
        "/spec/ports/0/protocol": "UDP",
        "/spec/template/spec/containers/0/ports/0/protocol": "UDP",
        "/spec/template/spec/containers/0/imagePullPolicy": "Always",
        "/spec/template/spec/securityContext/seccompProfile/type": "Unconfined",
        "/spec/template/spec/securityContext/runAsNonRoot": False,
        "/spec/template/spec/containers/0/readinessProbe/httpGet/port": 3000,
        "/spec/template/spec/containers/0/livenessProbe/httpGet/port": 3000,
    }
    if pointer in special:
        return special[pointer]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return ["NET_ADMIN"] if pointer.endswith("drop") else [*value, "--more"]
    if pointer.endswith(("/cpu", "/memory")):
        return "33m" if pointer.endswith("cpu") else "33Mi"
    return f"{value}x" if "name" not in pointer.rpartition("/")[2] else "other"


# Changes of these are rejected or create another object: nothing to restore.
FIXED = {"/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/spec/selector/matchLabels/app"}
# The API server validates selectors, mounts and probe ports.
TIED = {
    "/spec/template/metadata/labels/app",
    "/spec/template/spec/volumes/0/name",
    "/spec/template/spec/containers/0/volumeMounts/0/name",
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["ConfigMap", "Service", "Deployment"])
async def test_tc_09_modified_child_is_restored(kind, app, servers: Client):
    """Every field that we send is changed by hand, one after another, and restored."""
    server = await servers.get(JSONSERVERS, app, JsonServer)
    wanted = {
        "ConfigMap": (desired.CONFIG_MAPS, desired.config_map(server)),
        "Service": (desired.SERVICES, desired.service(server)),
        "Deployment": (desired.DEPLOYMENTS, desired.deployment(server, IMAGE)),
    }
    resource, body = wanted[kind]
    if resource == desired.DEPLOYMENTS:
        # Prevents a rollout for each of the many changes.
        await servers.patch(resource, app, {"spec": {"paused": True}}, Object)
    pointers = [(pointer, value) for pointer, value in _leaf_values(body) if pointer not in FIXED | TIED]
    changed = 0
    for pointer, value in pointers:
        change = {"op": "replace", "path": pointer, "value": _other_value(pointer, value)}
        await servers.patch(resource, app, [change], Object, content_type=JSON)
        changed += 1

        async def assert_restored(change=change) -> None:
            seen = await servers.get(resource, app, dict)
            assert find_differences(body, seen) == [], f"after {change}"

        await eventually(assert_restored, within=60.0)
    for gone in ("/metadata/labels", "/metadata/ownerReferences"):
        await servers.patch(resource, app, [{"op": "remove", "path": gone}], Object, content_type=JSON)

        async def assert_restored(gone=gone) -> None:
            seen = await servers.get(resource, app, dict)
            assert find_differences(body, seen) == [], f"after the removal of {gone}"
            assert seen["metadata"]["ownerReferences"][0]["uid"] == server.metadata.uid

        await eventually(assert_restored, within=60.0)
    await wait_for_state(servers, app, "Synced")
    assert changed >= 6


async def test_tc_09_fields_added_by_others_are_kept(app, servers: Client):
    await servers.patch(desired.CONFIG_MAPS, app, {"data": {"theirs": "yes"}}, Object)
    port = {
        "apiVersion": "v1",
        "kind": "Service",
        "spec": {"ports": [{"port": 9000, "protocol": "TCP", "name": "x"}]},
    }
    await servers.apply(desired.SERVICES, app, port, Object)
    sidecar = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"labels": {"theirs": "yes"}, "annotations": {"theirs": "yes"}},
        "spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "side:1"}]}}},
    }
    await servers.apply(desired.DEPLOYMENTS, app, sidecar, Object)
    await servers.patch(desired.DEPLOYMENTS, app, {"spec": {"replicas": 9}}, Object)
    await servers.patch(JSONSERVERS, app, {"spec": {"jsonConfig": '{"a": []}'}}, Object)

    async def assert_kept() -> None:
        seen = await children(servers, app)
        assert seen["Deployment"]["spec"]["replicas"] == 2
        assert seen["ConfigMap"]["data"] == {"db.json": '{"a": []}', "theirs": "yes"}
        assert [item["port"] for item in seen["Service"]["spec"]["ports"]] == [3000, 9000]
        names = [item["name"] for item in seen["Deployment"]["spec"]["template"]["spec"]["containers"]]
        assert sorted(names) == ["json-server", "sidecar"]
        assert seen["Deployment"]["metadata"]["labels"]["theirs"] == "yes"
        assert seen["Deployment"]["metadata"]["annotations"]["theirs"] == "yes"

    await eventually(assert_kept, within=60)


async def test_tc_11_invalid_replica_number_is_rejected(servers: Client, cluster, namespace):
    body = json.dumps(a_jsonserver("app-negative", replicas=-1))
    done = cluster.kubectl("apply", "-n", namespace, "-f", "-", input=body)
    assert done.returncode != 0
    assert "Invalid replicas number." in done.stderr


@pytest.mark.parametrize("resource", CHILD_TYPES, ids=lambda resource: resource.kind)
async def test_foreign_object_with_child_name_is_never_changed(resource, operator, servers, namespace):
    name = f"app-{resource.plural}"
    key = ObjectKey(namespace, name)
    labels = {"metadata": {"name": name, "labels": {"app": name}}}
    specs = {
        "ConfigMap": {"data": {"mine": "1"}},
        "Service": {"spec": {"ports": [{"port": 80}]}},
        "Deployment": {
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"mine": "1"}},
                "template": {
                    "metadata": {"labels": {"mine": "1"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            }
        },
    }
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **labels, **specs[resource.kind]}
    before = await servers.create(resource, body, dict, namespace=namespace)
    await create(servers, namespace, name)
    server = await wait_for_state(servers, key, "Error")
    assert f"{resource.kind} {key} exists and is not controlled by this object" in server.status.message
    after = await servers.get(resource, key, dict)
    for part in ("spec", "data"):
        assert after.get(part) == before.get(part)
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert "ownerReferences" not in after["metadata"]
    await servers.delete(resource, key)
    # The deletion of a foreign object causes no event: it is found by a requeue.
    with operator.clock.running_fast():
        await wait_for_state(servers, key, "Synced")


@pytest.mark.parametrize("config", ["null", "[]", "{", '{"a": 1, "a": 2}', '{"a": NaN}'])
async def test_invalid_config_that_bypassed_webhook_sets_error_status(config, operator, servers, namespace):
    key = await create(servers, namespace, "app-bad", config)
    server = await wait_for_state(servers, key, "Error")
    assert server.status.message == "Error: spec.jsonConfig is not a valid json object"
    assert not await exists(servers, desired.CONFIG_MAPS, key), "some children were created"
    await servers.patch(JSONSERVERS, key, {"spec": {"jsonConfig": PEOPLE}}, Object)
    await wait_for_state(servers, key, "Synced")


async def test_template_that_bypassed_webhook_cannot_set_service_account(
    operator, servers: Client, namespace
):
    overlay = {"spec": {"serviceAccountName": "admin", "automountServiceAccountToken": True}}
    key = await create(servers, namespace, "app-identity", template=overlay)
    server = await wait_for_state(servers, key, "Error")
    assert "spec.template.spec.serviceAccountName: Forbidden" in server.status.message
    assert not await exists(servers, desired.DEPLOYMENTS, key)


async def test_options_reach_the_pods_unless_they_bypassed_the_webhook_and_are_invalid(
    operator, servers: Client, namespace
):
    key = await create(servers, namespace, "app-options", routes=[{"path": "/(", "target": "/"}])
    server = await wait_for_state(servers, key, "Error")
    assert "spec.routes[0].path: Invalid value" in server.status.message
    assert not await exists(servers, desired.DEPLOYMENTS, key)
    options = {"routes": [{"path": "/api/*", "target": "/$1"}], "delay": {"milliseconds": 5}}
    await servers.patch(JSONSERVERS, key, {"spec": options}, Object)
    await wait_for_state(servers, key, "Synced")
    template = (await children(servers, key))["Deployment"]["spec"]["template"]
    assert template["metadata"]["annotations"]["example.com/routes.json"] == '{"/api/*":"/$1"}'
    arguments = [
        "--routes",
        "/etc/json-server/routes.json",
        "--middlewares",
        "/etc/json-server/middleware.js",
    ]
    assert template["spec"]["containers"][0]["args"][-4:] == arguments


async def test_status_tells_where_the_service_is(operator, servers: Client, namespace):
    key = await create(servers, namespace, "app-public", service={"type": "LoadBalancer"})
    server = await wait_for_state(servers, key, "Synced")
    seen = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    await servers.patch(desired.SERVICES, key, {"status": seen}, Object, subresource="status")

    async def assert_reach(port: int, url: str) -> None:
        status = (await servers.get(JSONSERVERS, key, JsonServer)).status
        assert (status.node_port, status.external_url) == (port, url)

    (given,) = (await children(servers, server.key))["Service"]["spec"]["ports"]
    await eventually(lambda: assert_reach(given["nodePort"], "http://192.0.2.1:3000"))
    await servers.patch(JSONSERVERS, key, {"spec": {"service": None}}, Object)
    await eventually(lambda: assert_reach(0, ""))
    assert (await children(servers, key))["Service"]["spec"]["type"] == "ClusterIP"


async def test_valid_config_stays_served_when_invalid_config_bypasses_webhook(app, servers: Client):
    before = await children(servers, app)
    await servers.patch(JSONSERVERS, app, {"spec": {"jsonConfig": "nonsense"}}, Object)
    await wait_for_state(servers, app, "Error")
    after = await children(servers, app)
    for kind in before:
        assert after[kind]["metadata"]["uid"] == before[kind]["metadata"]["uid"]
    assert after["ConfigMap"]["data"] == {"db.json": PEOPLE}


@pytest.mark.parametrize("extra", [-1, 0], ids=["one byte below the limit", "at the limit"])
async def test_config_up_to_size_limit_is_stored_completely(extra, operator, servers: Client, namespace):
    config = '{"a":"' + "x" * (MAX_CONFIG_BYTES - 14 + extra) + '"}'
    key = await create(servers, namespace, "app-large", config)
    await wait_for_state(servers, key, "Synced")
    assert (await children(servers, key))["ConfigMap"]["data"] == {"db.json": config}


async def test_config_over_schema_length_is_rejected_with_reason(servers: Client, namespace):
    with pytest.raises(Invalid) as refusal:
        await create(servers, namespace, "app-too-large", "x" * (MAX_CONFIG_BYTES + 1))
    assert refusal.value.causes[0].field == "spec.jsonConfig"


async def test_creation_needs_four_writes_and_no_read(app, proxy: FaultProxy):
    await proxy.quiet(0.5)
    first, later = proxy.trace.writes()[:4], proxy.trace.writes()[4:]
    assert sorted(str(exchange.request).split()[1] for exchange in first) == [
        "configmaps",
        "deployments.apps",
        "jsonservers.example.com/status",
        "services",
    ], f"\n{proxy.trace}"
    # Later writes only report the progress of the Deployment.
    counts = [exchange.body["status"].get("replicas", 0) for exchange in later]
    assert counts == sorted(set(counts)), f"\n{proxy.trace}"
    assert all(exchange.request.subresource == "status" for exchange in later)
    assert proxy.trace.requests(matching("get")) == [], f"\n{proxy.trace}"


async def test_jsonserver_that_bypassed_webhook_gets_finalizer(operator, servers: Client, namespace):
    await servers.create(JSONSERVERS, a_jsonserver("app-bypass"), Object, namespace=namespace)
    server = await wait_for_state(servers, ObjectKey(namespace, "app-bypass"), "Synced")
    assert FINALIZER in server.metadata.finalizers


async def test_kubectl_scale_sets_replicas(app, servers: Client, cluster):
    cluster.kubectl("scale", "js", app.name, "-n", app.namespace, "--replicas", "4")

    async def assert_scaled() -> None:
        assert (await children(servers, app))["Deployment"]["spec"]["replicas"] == 4

    await eventually(assert_scaled)
    cluster.kubectl("scale", "js", app.name, "-n", app.namespace, "--replicas", "0")

    async def assert_no_replicas() -> None:
        assert (await children(servers, app))["Deployment"]["spec"]["replicas"] == 0

    await eventually(assert_no_replicas)


async def test_kubectl_get_and_explain_show_columns_and_fields(app, cluster):
    listed = cluster.kubectl("get", "js", "-n", app.namespace).stdout.splitlines()
    assert listed[0].split() == ["NAME", "STATE", "READY", "REASON", "REPLICAS", "AGE"]
    assert listed[1].split()[:3] == [app.name, "Synced", "False"]
    wide = cluster.kubectl("get", "js", "-n", app.namespace, "-o", "wide").stdout
    assert "0 of 2 replicas serve the data" in wide
    assert f"http://{app.name}.{app.namespace}.svc:3000" in wide

    def assert_explained() -> None:
        said = cluster.kubectl("explain", "jsonserver.spec").stdout
        for field in ("jsonConfig", "replicas", "image", "storage", "template"):
            assert field in said, said

    await eventually(assert_explained, within=60)  # the schema of a new CRD is published seconds later
    assert cluster.kubectl("get", "quintet", "-n", app.namespace).stdout.count(app.name) == 1
    described = cluster.kubectl("describe", "js", app.name, "-n", app.namespace).stdout
    assert "Synced successfully!" in described


async def test_events_report_error_and_recovery(operator, servers: Client, cluster, namespace):
    key = await create(servers, namespace, "app-events", "not json")
    await wait_for_state(servers, key, "Error")
    await servers.patch(JSONSERVERS, key, {"spec": {"jsonConfig": PEOPLE}}, Object)
    await wait_for_state(servers, key, "Synced")

    async def assert_reported() -> None:
        text = cluster.kubectl("describe", "js", key.name, "-n", namespace).stdout.partition("Events:")[2]
        assert "Warning" in text, text
        assert "InvalidConfig" in text, text
        assert "Error: spec.jsonConfig is not a valid json object" in text, text
        assert "Synced successfully!" in text, text

    await eventually(assert_reported)


@pytest.mark.parametrize("another", [False, True], ids=["deleted", "replaced"])
@pytest.mark.parametrize("write", ["patch", "apply"])
async def test_child_deleted_during_write_does_not_set_error_state(
    write, another, app, servers: Client, proxy: FaultProxy
):
    before = await servers.get(desired.DEPLOYMENTS, app, dict)

    async def goes() -> None:
        await servers.delete(desired.DEPLOYMENTS, app)
        if another:
            kept = {name: before["metadata"][name] for name in ("name", "labels", "ownerReferences")}
            body = {"metadata": kept, "spec": before["spec"]}
            await servers.create(desired.DEPLOYMENTS, body, Object, namespace=app.namespace)

    gone = proxy.inject(Before(goes), when=matching(write, "deployments"))
    began = proxy.trace.mark()
    await servers.patch(JSONSERVERS, app, {"spec": {"replicas": 5}}, Object)
    await gone.hit()
    await wait_for_state(servers, app, "Synced")
    after = await servers.get(desired.DEPLOYMENTS, app, dict)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["replicas"] == 5
    await proxy.quiet(0.5, anything)
    states = [
        each.body["status"].get("state")
        for each in proxy.trace.requests(matching("patch", "jsonservers"), since=began)
    ]
    assert "Error" not in states, f"\n{proxy.trace}"
    events = proxy.trace.requests(matching("create|patch", "events"), since=began)
    # There is no node, which is the only trouble that may be reported.
    assert {each.body.get("reason") for each in events} <= {"Unschedulable"}, f"\n{proxy.trace}"


async def test_lasting_api_server_error_is_reported_in_status(
    app, operator, servers: Client, proxy: FaultProxy
):
    trouble = Answer(500, "InternalError", "the store is full")
    lasting = proxy.inject(trouble, when=matching("apply", "deployments"), times=None)
    await servers.patch(JSONSERVERS, app, {"spec": {"replicas": 5}}, Object)
    with operator.clock.running_fast():
        server = await wait_for_state(servers, app, "Error")
        assert "the store is full" in server.status.message
        lasting.remove()
        await wait_for_state(servers, app, "Synced")


async def test_jsonserver_shows_internal_error_while_its_controller_fails_and_recovers(
    app, servers: Client, monkeypatch
):
    def fail(server: JsonServer) -> JsonObject:
        raise ZeroDivisionError("a bug")

    async def read_ready() -> tuple[str, str, int]:
        server = await servers.get(JSONSERVERS, app, JsonServer)
        ready = find_condition(server.status.conditions, "Ready")
        assert ready is not None
        assert (ready.reason == "InternalError") is failing, ready
        return ready.status, ready.message, server.status.observed_generation

    failing = True
    with monkeypatch.context() as broken:
        broken.setattr(desired, "config_map", fail)
        await servers.patch(JSONSERVERS, app, {"spec": {"replicas": 1}}, Object)
        status, message, observed = await eventually(read_ready)
    assert (status, observed) == ("False", 1), "the new generation was not acted on"
    assert "ZeroDivisionError" in message
    assert "Traceback" not in message
    failing = False
    await eventually(read_ready)
    server = await wait_for_state(servers, app, "Synced")
    assert (server.status.message, server.status.observed_generation) == ("Synced successfully!", 2)
