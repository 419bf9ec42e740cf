"""Permissions that only installations need, and those of users.

All other tests run controllers with their ServiceAccounts too (`kit.cluster.service_accounts`). The control plane is a
separate one, because webhooks for a Service without pods would block other tests.
"""

import asyncio
import contextlib
import itertools
import json
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from kit.cli.quintet import COMMAND, free_port
from kit.cluster.api import Api, RefusedError
from kit.cluster.control_plane import fresh_namespace
from kit.cluster.service_accounts import (
    TESTED,
    context,
    context_tokens,
    optional_role_name,
    role_binding,
    shipped_rbac_objects,
)
from kit.eventually import eventually
from kit.faults.proxy import Answer, FaultProxy, matching
from kit.kinds.casconfigs import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    a_policy,
    a_workload,
    casconfig_operator,
    create,
    delete_and_wait,
    edit,
    wait_for_reason,
    wait_until_applied,
)
from kit.kinds.controllers import install_crds, run_controllers
from kit.kinds.eventingbackends import IMAGE, LOOPBACK, NATS_IMAGE
from kit.kinds.suite import a_flavour, installed_operator, suite_operator
from kit.process import Program
from quintet.admission.registration import MUTATING, VALIDATING
from quintet.admission.sources import secret_name
from quintet.apis.casconfig import SERVICE_ACCOUNT
from quintet.apis.meta import ObjectKey
from quintet.apis.suite import QUINTET
from quintet.clock import SystemClock
from quintet.components import COMPONENTS, CUSTOM_RESOURCES, Settings
from quintet.controllers.eventingbackend.options import Options
from quintet.kube.client import Client
from quintet.kube.config import load
from quintet.kube.transport import Transport
from quintet.local.cluster import Cluster
from quintet.manifests.operator import user_facing_roles
from quintet.runtime.events import Recorder
from quintet.runtime.manager import Manager

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SYSTEM = TESTED.namespace
SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
NO_STREAMING = Answer(422, "Invalid")
SETTINGS = Settings(IMAGE, eventing=Options(image=IMAGE, nats_image=NATS_IMAGE, limits=LOOPBACK))
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@pytest.fixture(scope="module")
async def bare(own: Cluster) -> AsyncIterator[Api]:
    async with Api.connect(own.kubeconfig) as connected, Transport(load(str(own.kubeconfig))) as transport:
        await install_crds(Client(transport), QUINTET, *CUSTOM_RESOURCES)
        yield connected


@pytest.fixture
async def between(own: Cluster) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(own.kubeconfig) as running:
        yield running


def assert_listed(proxy: FaultProxy) -> None:
    """Assert that every cache was filled by paged lists and no request was forbidden."""
    watched = {(each.group, each.resource) for each in proxy.watches}
    listed = {(each.request.group, each.request.resource) for each in proxy.trace.requests(matching("list"))}
    assert watched, f"\n{proxy.trace}"
    assert watched <= listed, f"\n{proxy.trace}"
    assert [str(each) for each in proxy.trace if each.status == 403] == []


@pytest.mark.parametrize("name", COMPONENTS)
async def test_controller_can_list_watched_types_without_streaming_lists(
    name, bare: Api, between: FaultProxy, tmp_path
):
    between.inject(NO_STREAMING, when=lambda request: "sendInitialEvents" in request.query, times=None)

    def build(manager: Manager) -> None:
        COMPONENTS[name].start(manager, SETTINGS)

    async with run_controllers(between.write_kubeconfig(tmp_path), build, context=context(name)):
        await eventually(lambda: assert_listed(between))


async def test_suite_operator_can_list_watched_types_without_streaming_lists(
    bare: Api, between: FaultProxy, tmp_path
):
    between.inject(NO_STREAMING, when=lambda request: "sendInitialEvents" in request.query, times=None)
    async with fresh_namespace(bare) as namespace:
        flavour = a_flavour(namespace)
        async with (
            installed_operator(bare, flavour) as token,
            suite_operator(between, token, tmp_path, flavour),
        ):
            await eventually(lambda: assert_listed(between))


async def test_casconfigs_need_only_role_offered_for_their_service_account(
    own: Cluster, bare: Api, between: FaultProxy, tmp_path
):
    between.inject(NO_STREAMING, when=lambda request: "sendInitialEvents" in request.query, times=None)
    workloads = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS)
    kinds = {"kinds": [each.kind for each in workloads]}
    source = {"kind": "ConfigMap", "name": "some", "path": ".data.x", "toType": "label", "toKey": "x"}
    async with (
        fresh_namespace(bare) as namespace,
        Transport(load(str(own.kubeconfig))) as transport,
        casconfig_operator(between.write_kubeconfig(tmp_path), namespace=namespace),
    ):
        client = Client(transport)
        home = f"/api/v1/namespaces/{namespace}"
        await bare.create(f"{home}/serviceaccounts", {"metadata": {"name": SERVICE_ACCOUNT}})
        allowed = role_binding(
            optional_role_name("casconfig-workloads"), SERVICE_ACCOUNT, namespace, of=namespace
        )
        await bare.create(f"{RBAC}/namespaces/{namespace}/rolebindings", allowed)
        await bare.create(f"{home}/configmaps", {"metadata": {"name": "some"}, "data": {"x": "y"}})
        for each in workloads:
            await bare.create(each.path(namespace), a_workload(each, "web"))
        policy = a_policy(include=kinds, **{"from": [source]})
        key = await create(client, namespace, "all", policy, mode="Preview")
        await wait_for_reason(client, key, "Preview")
        await edit(client, key, mode="Apply")
        await wait_until_applied(client, key, len(workloads))
        await delete_and_wait(client, key)


def a_process(own: Cluster, name: str, *controllers: str, metrics: int) -> Program:
    """A controller process as in the pod that the suite operator creates."""
    return Program(
        str(COMMAND), "run", "--kubeconfig", str(own.kubeconfig), "--context", name, "--instance", name,
        "--controllers", ",".join(controllers), "--system-namespace", SYSTEM, "--leader-elect",
        "--webhooks", "service", "--webhook-port", str(free_port()),
        "--health-address", "127.0.0.1:0", "--discovery-address", "127.0.0.1:0",
        "--metrics-address", f"127.0.0.1:{metrics}",
    )  # fmt: skip


@contextlib.asynccontextmanager
async def create_empty_configurations(bare: Api, name: str) -> AsyncIterator[None]:
    """Create the webhook configurations that the suite operator creates for a process."""
    for resource in (MUTATING, VALIDATING):
        await bare.create(resource.path(), {"metadata": {"name": name}})
    try:
        yield
    finally:
        for resource in (MUTATING, VALIDATING):
            await bare.delete(resource.path("", name))


async def assert_works(bare: Api, program: Program, name: str) -> None:
    """Assert that the process leads, stores its certificates and registers their CA."""
    assert program.running, "\n".join(program.log)
    lease = await bare.get(f"{LEASES}/{name}")
    assert lease["spec"].get("holderIdentity"), "\n".join(program.log)
    secret = await bare.get(f"{SECRETS}/{secret_name(name)}")
    assert secret.get("data", {}).get("tls.crt"), "\n".join(program.log)
    hooks = (await bare.get(VALIDATING.path("", name))).get("webhooks", [])
    assert hooks, "\n".join(program.log)
    assert all(hook["clientConfig"].get("caBundle") for hook in hooks), "\n".join(program.log)


async def assert_reviews_tokens(own: Cluster, port: int, name: str) -> None:
    """Assert that the process asks the API server who may read its metrics: here nobody may."""
    token = context_tokens(json.loads(own.kubeconfig.read_text()))[name]
    url, headers = f"https://127.0.0.1:{port}/metrics", {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as answer:
        text = await answer.text()
        assert answer.status == 403, text
        assert f":{name} may not get /metrics" in text


def list_processes() -> Iterator[Any]:
    """Return the processes of an installation; by default the combined one and a single controller."""
    yield pytest.param(tuple(COMPONENTS), id="all")
    for number, name in enumerate(COMPONENTS):
        yield pytest.param((name,), id=name, marks=[pytest.mark.exhaustive] if number else [])


@pytest.mark.parametrize("controllers", [*list_processes()])
async def test_process_can_lead_store_certificates_and_register_webhooks(
    controllers, own: Cluster, bare: Api
):
    name = context(*controllers)
    async with create_empty_configurations(bare, name):
        metrics = free_port()
        program = a_process(own, name, *controllers, metrics=metrics)
        try:
            await program.start()
            await eventually(lambda: assert_works(bare, program, name), within=120)
            await assert_reviews_tokens(own, metrics, name)
            program.signal(signal.SIGTERM)
            assert await program.ended() == 0, "\n".join(program.log)
            released = await bare.get(f"{LEASES}/{name}")
            assert not released["spec"].get("holderIdentity"), released
            # A lost or expiring certificate is replaced in the same Secret.
            lost = [{"op": "replace", "path": "/data", "value": {"tls.crt": "", "tls.key": ""}}]
            path = f"{SECRETS}/{secret_name(name)}"
            await bare.send("PATCH", path, lost, "application/json-patch+json", {})
            await program.start()
            await eventually(lambda: assert_works(bare, program, name), within=120)
            assert not [line for line in program.log if "forbidden" in line.lower()]
        finally:
            program.kill()
            await program.ended()


@pytest.mark.parametrize("name", COMPONENTS)
async def test_controller_can_repeat_event_as_series(name, own: Cluster, bare: Api):
    async with (
        fresh_namespace(bare) as namespace,
        Transport(load(str(own.kubeconfig), context(name))) as transport,
    ):
        recorder = Recorder(Client(transport), name, "test", SystemClock())
        writing = asyncio.create_task(recorder.run())
        for _ in range(2):
            recorder.record(VALIDATING, ObjectKey(namespace, "any"), "some", "Normal", "Said", "twice")
        await recorder.flush()
        writing.cancel()
        (event,) = (await bare.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"))["items"]
    assert event["series"]["count"] == 2, event


@contextlib.asynccontextmanager
async def create_user(bare: Api, namespace: str, *rules: object) -> AsyncIterator[str]:
    """Create a user with these permissions in a namespace and return its name."""
    user = f"user-{namespace}"
    base = f"{RBAC}/namespaces/{namespace}"
    await bare.create(f"{base}/roles", {"metadata": {"name": "some"}, "rules": list(rules)})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "some"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = {"metadata": {"name": "some"}, "roleRef": reference, "subjects": [subject]}
    await bare.create(f"{base}/rolebindings", binding)
    yield user


def list_owned_kinds(name: str) -> list[tuple[str, str]]:
    """Return group and resource of the kinds whose finalizers a controller's role includes."""
    rules = (rule for right in COMPONENTS[name].permissions for rule in [right] if "update" in right.verbs)
    return [
        (right.group, resource.removesuffix("/finalizers"))
        for right in rules
        for resource in right.resources
        if resource.endswith("/finalizers")
    ]


OWNING = [(name, *each) for name in COMPONENTS for each in list_owned_kinds(name)]


@pytest.mark.parametrize(("name", "group", "plural"), OWNING)
async def test_blocking_owner_reference_needs_permission_on_finalizers(
    name, group, plural, own: Cluster, bare: Api
):
    """OwnerReferencesPermissionEnforcement requires it, for example on OpenShift."""
    (kind,) = (each.resource for each in COMPONENTS[name].kinds if each.resource.plural == plural)
    owner = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": "owner",
        "uid": "00000000-0000-0000-0000-000000000000",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    child = {"metadata": {"generateName": "child-", "ownerReferences": [owner]}}
    creating = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    finalizers = {"apiGroups": [group], "resources": [f"{plural}/finalizers"], "verbs": ["update"]}
    for rules, allowed in (((creating,), False), ((creating, finalizers), True)):
        async with fresh_namespace(bare) as namespace, create_user(bare, namespace, *rules) as user:
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            async with Api.connect(own.client_kubeconfig(user)) as limited:
                await eventually(lambda: _assert_admitted(limited, path, child, allowed=allowed))  # noqa: B023


async def _assert_admitted(limited: Api, path: str, child: dict[str, object], *, allowed: bool) -> None:
    if allowed:
        await limited.create(path, child, dryRun="All")
        return
    # The create permission takes effect with a delay; until then the message is another one.
    with pytest.raises(RefusedError, match="cannot set blockOwnerDeletion"):
        await limited.create(path, child, dryRun="All")


async def is_allowed(bare: Api, user: str, verb: str, group: str, resource: str) -> bool:
    """Return what `kubectl auth can-i` would report for a user."""
    kind, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": kind, "subresource": subresource}
    asked = {"spec": {"user": user, "resourceAttributes": {**attributes, "namespace": "default"}}}
    answer = await bare.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)
    return bool(answer["status"]["allowed"])


@pytest.fixture(scope="module")
async def roles_of_people(bare: Api) -> dict[str, set[tuple[str, str, str]]]:
    """Every user role bound to a user of its name in namespace default, with the expected permissions."""
    wanted: dict[str, set[tuple[str, str, str]]] = {}
    for role in user_facing_roles(CUSTOM_RESOURCES):
        name = role["metadata"]["name"]
        await bare.apply(f"{RBAC}/clusterroles/{name}", role, manager="test", force=True)
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await bare.create(f"{RBAC}/namespaces/default/rolebindings", binding)
        wanted[name] = {
            (group, resource, verb)
            for rule in role["rules"]
            for group, resource, verb in itertools.product(
                rule["apiGroups"], rule["resources"], rule["verbs"]
            )
        }
    return wanted


async def test_user_role_allows_exactly_its_verbs_on_its_kind(roles_of_people, bare: Api):
    for name, wanted in roles_of_people.items():
        kind = name.rpartition("-")[0]
        declared = next(each for each in (QUINTET, *CUSTOM_RESOURCES) if each.resource.kind.lower() == kind)
        plural, group = declared.resource.plural, declared.resource.group
        places = [plural, *(f"{plural}/{part}" for part in ("status", "scale", "finalizers"))]

        async def seen(name=name, group=group, places=places) -> set[tuple[str, str, str]]:
            asked = [(group, place, verb) for place in places for verb in VERBS]
            answers = await asyncio.gather(*(is_allowed(bare, name, verb, *which) for *which, verb in asked))
            return {each for each, allowed in zip(asked, answers, strict=True) if allowed}

        async def assert_desired(seen=seen, wanted=wanted, name=name) -> None:
            assert await seen() == wanted, name

        await eventually(assert_desired, within=60)
        others = [("", "pods", "create"), ("", "secrets", "get"), ("", "configmaps", "list")]
        for other, resource, verb in others:
            assert not await is_allowed(bare, name, verb, other, resource), (name, resource)


async def test_viewer_role_is_read_only_and_editor_role_cannot_write_status(roles_of_people):
    for name, allowed in roles_of_people.items():
        verbs = {verb for _, _, verb in allowed}
        if name.endswith("-viewer"):
            assert verbs == {"get", "list", "watch"}, name
        on_status = {verb for _, resource, verb in allowed if resource.endswith("/status")}
        assert on_status == {"get"}, name


async def test_aggregated_cluster_roles_include_our_kinds_but_not_quintet(roles_of_people, bare: Api):
    async def assert_aggregated() -> None:
        for target, verb in (("view", "list"), ("edit", "patch"), ("admin", "patch")):
            rules = (await bare.get(f"{RBAC}/clusterroles/{target}"))["rules"]
            held = {
                (group, resource)
                for rule in rules
                if verb in rule["verbs"]
                for group, resource in itertools.product(rule["apiGroups"], rule["resources"])
            }
            for each in CUSTOM_RESOURCES:
                assert (each.resource.group, each.resource.plural) in held, (target, each.resource.plural)
            if target != "view":
                assert (QUINTET.resource.group, QUINTET.resource.plural) not in held, target

    await eventually(assert_aggregated, within=60)


def test_combined_service_account_has_union_of_controller_permissions():
    bodies = [*shipped_rbac_objects()]
    parts = [
        body for body in bodies if body["kind"] == "ClusterRole" and body["metadata"]["name"] != TESTED.whole
    ]
    (whole,) = (
        body for body in bodies if body["kind"] == "ClusterRole" and body["metadata"]["name"] == TESTED.whole
    )

    def single(body: dict[str, object]) -> set[tuple[str, str, str, str]]:
        name = body["metadata"]["name"]  # type: ignore[index]
        return {
            (group, resource, verb, only.replace(name, "{}"))
            for rule in body["rules"]  # type: ignore[attr-defined]
            for group, resource, verb, only in itertools.product(
                rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
            )
        }

    assert single(whole) == set().union(*map(single, parts))
