"""Children applied by `runtime.apply` on a real API server."""

import copy

import pytest

from kit.cluster.objects import exists, find_differences
from kit.eventually import eventually
from kit.faults.proxy import Before, DropReply, FaultProxy, changes_state, matching
from kit.kinds.widgets import (
    CHILD_TYPES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    SERVICES,
    WIDGETS,
    Widget,
    a_widget,
    desired,
    widget_operator,
)
from quintet.apis.meta import Object, ObjectKey, ObjectMeta
from quintet.kube.client import JSON, Client
from quintet.runtime.ownership import APPLIED, ATOMIC, with_ownership


@pytest.fixture
async def operator(widgets, proxy: FaultProxy, namespace, tmp_path):
    async with widget_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace) as controller:
        yield controller


@pytest.fixture
async def w(operator, widgets: Client, namespace) -> ObjectKey:
    """A Widget whose children exist."""
    await widgets.create(WIDGETS, a_widget("w", text="hello", replicas=2), Object, namespace=namespace)
    await wait_until_converged(widgets, ObjectKey(namespace, "w"))
    return ObjectKey(namespace, "w")


async def wait_until_converged(client: Client, key: ObjectKey) -> Widget:
    async def probe() -> Widget:
        widget = await client.get(WIDGETS, key, Widget)
        assert widget.status.observed_generation == widget.metadata.generation, widget.status
        assert widget.status.message == "reconciled", widget.status
        return widget

    return await eventually(probe)


async def children(client: Client, key: ObjectKey) -> dict[str, dict]:
    return {resource.kind: await client.get(resource, key, dict) for resource in CHILD_TYPES}


def stable_fields(child: dict) -> dict:
    """Return a child without fields that change by themselves."""
    form = copy.deepcopy(child)
    form.pop("status", None)
    for name in ("resourceVersion", "generation", "managedFields", "uid", "creationTimestamp"):
        form["metadata"].pop(name, None)
    annotations = form["metadata"].pop("annotations", {})
    annotations.pop("deployment.kubernetes.io/revision", None)
    return {**form, "annotations": annotations}


async def test_creation_sends_one_write_per_child_and_one_status_write_without_reads(w, proxy: FaultProxy):
    await proxy.quiet(0.5)
    writes = [str(exchange.request) for exchange in proxy.trace.writes()]
    assert len(writes) == 4, f"\n{proxy.trace}"
    assert proxy.trace.requests(matching("get")) == [], f"\n{proxy.trace}"


async def test_reconcile_of_unchanged_children_sends_no_write(w, widgets, operator, proxy: FaultProxy):
    await proxy.quiet(0.5)
    mark, runs = proxy.trace.mark(), len(operator.runs)
    await widgets.patch(WIDGETS, w, {"metadata": {"annotations": {"touched": "yes"}}}, Object)

    async def assert_reconciled() -> None:
        assert len(operator.runs) > runs

    await eventually(assert_reconciled)
    await proxy.quiet(0.5)
    assert proxy.trace.requests(changes_state, since=mark) == [], f"\n{proxy.trace}"


# Every field that the operator sends, changed by a user: (child, JSON patch path, value).
DRIFT = [
    (CONFIG_MAPS, "/data/text", "other"),
    (CONFIG_MAPS, "/metadata/labels/app", "other"),
    (CONFIG_MAPS, "/metadata/labels/app.kubernetes.io~1managed-by", "other"),
    (CONFIG_MAPS, "/metadata/annotations/quintet.dev~1applied", "0"),
    (SERVICES, "/spec/ports/0/port", 3001),
    (SERVICES, "/spec/ports/0/targetPort", 3001),
    (SERVICES, "/spec/ports/0/name", "other"),
    (SERVICES, "/spec/ports/0/protocol", "UDP"),
    (SERVICES, "/spec/selector/app", "other"),
    (SERVICES, "/spec/type", "NodePort"),
    (SERVICES, "/metadata/labels/app", "other"),
    (DEPLOYMENTS, "/spec/replicas", 7),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/image", "other:1"),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/args", ["other"]),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/args/1", "other"),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/env/0/value", "other"),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/ports/0/containerPort", 3001),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/ports/0/name", "other"),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/volumeMounts/0/mountPath", "/other"),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/resources/requests/cpu", "20m"),
    (DEPLOYMENTS, "/spec/template/spec/volumes/0/configMap/name", "other"),
    (DEPLOYMENTS, "/metadata/labels/app", "other"),
]
REMOVED = [
    (CONFIG_MAPS, "/data"),
    (CONFIG_MAPS, "/metadata/labels"),
    (CONFIG_MAPS, "/metadata/annotations"),
    (CONFIG_MAPS, "/metadata/ownerReferences"),
    (CONFIG_MAPS, "/metadata/ownerReferences/0/controller"),
    (CONFIG_MAPS, "/metadata/ownerReferences/0/blockOwnerDeletion"),
    (SERVICES, "/metadata/ownerReferences"),
    (DEPLOYMENTS, "/metadata/ownerReferences"),
    (SERVICES, "/spec/selector"),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/env"),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/ports"),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/args"),
    (DEPLOYMENTS, "/spec/template/spec/containers/0/resources/requests"),
    (DEPLOYMENTS, "/metadata/labels"),
]


async def test_changed_or_removed_field_of_ours_is_restored(w, widgets: Client):
    widget = await widgets.get(WIDGETS, w, Widget)
    want = {resource: with_ownership(body, widget, WIDGETS) for resource, body in desired(widget)}
    changes = [(resource, {"op": "replace", "path": path, "value": value}) for resource, path, value in DRIFT]
    changes += [(resource, {"op": "remove", "path": path}) for resource, path in REMOVED]
    # Prevents a rollout for each of the many changes.
    await widgets.patch(DEPLOYMENTS, w, {"spec": {"paused": True}}, Object)
    for resource, operation in changes:
        await widgets.patch(resource, w, [operation], Object, content_type=JSON)

        async def assert_restored(resource=resource, operation=operation) -> None:
            seen = await widgets.get(resource, w, dict)
            assert find_differences(want[resource], seen) == [], f"after {operation} on the {resource.kind}"

        await eventually(assert_restored, within=90.0)


async def test_child_with_other_controller_reference_is_not_taken_over(w, widgets: Client, namespace):
    other = await widgets.create(CONFIG_MAPS, {"metadata": {"name": "other"}}, Object, namespace=namespace)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "other",
        "uid": other.metadata.uid,
        "controller": True,
    }
    await widgets.patch(CONFIG_MAPS, w, {"metadata": {"ownerReferences": [reference]}}, Object)

    async def assert_rejected() -> None:
        widget = await widgets.get(WIDGETS, w, Widget)
        assert "is not controlled by this object" in widget.status.message, widget.status

    await eventually(assert_rejected)
    seen = await widgets.get(CONFIG_MAPS, w, Object)
    assert [item.uid for item in seen.metadata.owner_references] == [other.metadata.uid]


async def test_fields_added_by_others_survive_repairs_and_updates(w, widgets: Client):
    sidecar = {"name": "sidecar", "image": "side:1"}
    foreign = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"annotations": {"theirs": "yes"}, "labels": {"theirs": "yes"}},
        "spec": {"template": {"spec": {"containers": [sidecar]}}},
    }
    await widgets.apply(DEPLOYMENTS, w, foreign, Object)
    port = {"port": 9000, "protocol": "TCP", "name": "theirs"}
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [port]}}
    await widgets.apply(SERVICES, w, service, Object)
    await widgets.patch(CONFIG_MAPS, w, {"data": {"theirs": "yes"}}, Object)
    # It must survive a repair and an update.
    await widgets.patch(DEPLOYMENTS, w, {"spec": {"replicas": 9}}, Object)
    await widgets.patch(WIDGETS, w, {"spec": {"text": "changed"}}, Object)

    async def assert_kept() -> None:
        seen = await children(widgets, w)
        deployment, service = seen["Deployment"], seen["Service"]
        containers = {item["name"]: item for item in deployment["spec"]["template"]["spec"]["containers"]}
        assert containers["main"]["args"] == ["--text", "changed"]
        assert deployment["spec"]["replicas"] == 2
        assert seen["ConfigMap"]["data"] == {"text": "changed", "theirs": "yes"}
        assert containers["sidecar"]["image"] == "side:1"
        assert deployment["metadata"]["labels"]["theirs"] == "yes"
        assert deployment["metadata"]["annotations"]["theirs"] == "yes"
        assert [item["port"] for item in service["spec"]["ports"]] == [3000, 9000]

    await eventually(assert_kept, within=90.0)


async def test_field_that_is_no_longer_desired_is_removed(w, widgets: Client):
    for label in (
        "first",
        "second",
    ):  # once from the managedFields entry of our POST, once from that of an apply
        await widgets.patch(WIDGETS, w, {"spec": {"extraLabel": label}}, Object)

        async def assert_present(label=label) -> None:
            for kind, child in (await children(widgets, w)).items():
                assert child["metadata"]["labels"].get("extra") == label, kind

        await eventually(assert_present)
        await widgets.patch(WIDGETS, w, {"spec": {"extraLabel": ""}}, Object)

        async def assert_gone() -> None:
            for kind, child in (await children(widgets, w)).items():
                assert "extra" not in child["metadata"]["labels"], kind

        await eventually(assert_gone)


async def test_managed_fields_entry_of_other_manager_before_ours_does_not_block_update(
    w, widgets: Client, proxy: FaultProxy
):
    async def somebody_else() -> None:
        # Apply entries come first in managedFields, so the entry of our create has moved.
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": w.name},
            "data": {"theirs": "yes"},
        }
        await widgets.with_manager("another").apply(CONFIG_MAPS, w, body, Object)

    await proxy.quiet(0.5)
    moved = proxy.inject(Before(somebody_else), when=matching("patch", "configmaps"))
    began = proxy.trace.mark()
    await widgets.patch(WIDGETS, w, {"spec": {"text": "changed"}}, Object)

    async def assert_changed() -> None:
        found = await widgets.get(CONFIG_MAPS, w, dict)
        assert found["data"] == {"text": "changed", "theirs": "yes"}

    await eventually(assert_changed)
    await wait_until_converged(widgets, w)
    assert moved.hits
    asked = [
        (each.request.verb, each.status)
        for each in proxy.trace.requests(since=began)
        if each.request.resource == "configmaps"
    ]
    # Detected and handled in the same reconciliation: none fails.
    assert asked == [("patch", 422), ("get", 200), ("patch", 200), ("apply", 200)], f"\n{proxy.trace}"


async def test_container_inserted_before_ours_keeps_its_ports(w, widgets: Client, proxy: FaultProxy):
    await widgets.patch(WIDGETS, w, {"spec": {"text": "changed"}}, Object)
    await wait_until_converged(widgets, w)  # so that the next JSON patch is the one that restores a list
    await proxy.quiet(0.5)
    theirs = {"name": "theirs", "containerPort": 9000, "protocol": "TCP"}
    sidecar = {"name": "sidecar", "image": "side:1", "ports": [theirs]}

    async def somebody_else() -> None:
        first = {"op": "add", "path": "/spec/template/spec/containers/0", "value": sidecar}
        await widgets.patch(DEPLOYMENTS, w, [first], Object, content_type=JSON)

    moved = proxy.inject(Before(somebody_else), when=matching("patch", "deployments"))
    ports = "/spec/template/spec/containers/0/ports"
    number = {"op": "replace", "path": f"{ports}/0/containerPort", "value": 3001}
    await widgets.patch(DEPLOYMENTS, w, [number], Object, content_type=JSON)
    await moved.hit()

    async def assert_both() -> None:
        containers = (await widgets.get(DEPLOYMENTS, w, dict))["spec"]["template"]["spec"]["containers"]
        seen = {each["name"]: [port["containerPort"] for port in each["ports"]] for each in containers}
        assert seen == {"sidecar": [9000], "main": [3000]}

    await eventually(assert_both)


async def test_deleted_child_is_recreated(w, widgets: Client):
    for resource in CHILD_TYPES:
        before = await widgets.get(resource, w, Object)
        await widgets.delete(resource, w)

        async def assert_restored(resource=resource, before=before) -> None:
            assert (await widgets.get(resource, w, Object)).metadata.uid != before.metadata.uid

        await eventually(assert_restored)


async def test_foreign_object_is_never_changed_and_its_deletion_unblocks_reconcile(
    operator, widgets: Client, namespace
):
    for resource in CHILD_TYPES:
        name = f"taken-{resource.plural}"
        key = ObjectKey(namespace, name)
        widget = Widget(ObjectMeta(name=name, namespace=namespace))
        theirs = next(body for kind, body in desired(widget) if kind == resource)
        before = await widgets.create(resource, theirs, dict, namespace=namespace)
        await widgets.create(WIDGETS, a_widget(name, text="x"), Object, namespace=namespace)

        async def assert_rejected(resource=resource, key=key) -> None:
            widget = await widgets.get(WIDGETS, key, Widget)
            want = f"{resource.kind} {key} exists and is not controlled by this object: rename or delete it"
            assert widget.status.message == want
            assert widget.status.conditions[0].status == "False"

        await eventually(assert_rejected)
        after = await widgets.get(resource, key, dict)
        assert stable_fields(after) == stable_fields(before)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        await widgets.delete(resource, key)
        await wait_until_converged(widgets, key)


async def test_restart_with_unchanged_objects_sends_no_write(w, widgets, namespace, cluster, tmp_path):
    async with FaultProxy(cluster.kubeconfig) as second:
        async with widget_operator(second.write_kubeconfig(tmp_path), namespace=namespace) as controller:

            async def assert_reconciled() -> None:
                assert controller.runs, "the new process has not reconciled the Widget"

            await eventually(assert_reconciled)
            await second.quiet(0.5)
        assert second.trace.writes() == [], f"\n{second.trace}"


async def test_created_child_whose_response_was_lost_is_recognised_as_ours(
    operator, widgets: Client, proxy: FaultProxy, namespace
):
    injected = proxy.inject(DropReply(), when=matching("create", "services"))
    await widgets.create(WIDGETS, a_widget("lost", text="x"), Object, namespace=namespace)
    await injected.hit()
    await wait_until_converged(widgets, ObjectKey(namespace, "lost"))


async def test_widget_with_finalizer_is_removed_after_its_children(operator, widgets: Client, namespace):
    key = ObjectKey(namespace, "held")
    await widgets.create(WIDGETS, a_widget("held", mode="finalized"), Object, namespace=namespace)
    await wait_until_converged(widgets, key)
    await widgets.delete(WIDGETS, key)

    async def assert_gone() -> None:
        for resource in (*CHILD_TYPES, WIDGETS):
            assert not await exists(widgets, resource, key), resource.kind

    await eventually(assert_gone)


async def test_children_carry_digest_annotation(w, widgets: Client):
    for kind, child in (await children(widgets, w)).items():
        assert child["metadata"]["annotations"].get(APPLIED), kind


async def test_fields_that_we_treat_as_atomic_are_atomic_on_this_api_server(api):
    granular: dict[str, set[str]] = {}
    for group in ("api/v1", "apis/apps/v1", "apis/batch/v1", "apis/rbac.authorization.k8s.io/v1",
                  "apis/policy/v1", "apis/networking.k8s.io/v1"):  # fmt: skip
        schemas = (await api.get(f"/openapi/v3/{group}"))["components"]["schemas"]
        for kind, schema in schemas.items():
            for name, field in schema.get("properties", {}).items():
                if name in ATOMIC and not _is_atomic(field, schemas):
                    granular.setdefault(name, set()).add(kind)
    assert granular == {}


def _is_atomic(field: dict, schemas: dict) -> bool:
    references = [item["$ref"] for item in [field, *field.get("allOf", ())] if "$ref" in item]
    full = {**schemas[references[0].rpartition("/")[2]], **field} if references else field
    if full.get("type") == "array":
        return full.get("x-kubernetes-list-type", "atomic") == "atomic"
    return full.get("type") != "object" or full.get("x-kubernetes-map-type") == "atomic"
