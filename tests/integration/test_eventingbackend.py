"""EventingBackends with real NATS servers: creation, failures and the examples of the design."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kit.cluster.objects import exists
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.eventingbackends import (
    CHILD_TYPES,
    a_backend,
    children,
    condition,
    connect_jetstream,
    create,
    create_secret,
    get,
    kinds_and_names,
    statuses,
    update_config,
    wait_for_reason,
    wait_until_ready,
)
from kit.nats.server import NatsServer, a_nats_server
from quintet.apis.eventingbackend import EVENTINGBACKENDS
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.kube.client import Client
from quintet.local.controlplane.certificates import Authority


async def test_example_from_design_becomes_ready_with_specified_conditions(
    backend_operator, witness, backends: Client, nats, namespace
):
    key = await create(backends, namespace, "any", maxInFlightMessages=10, url=nats.url)
    status = (await wait_until_ready(backends, key)).status
    assert status.backend_type == "nats"
    assert [(each.type, each.status, each.reason) for each in status.conditions] == [
        ("Backend Ready", "True", "Backend ready"),
        ("Publisher Proxy Ready", "True", "Publisher proxy deployment ready"),
        ("Subscription Controller Ready", "True", "Subscription controller started"),
        ("Ready", "True", "AllPartsReady"),
    ]
    assert status.validation_errors == ()
    witness.assert_truth()


async def test_all_children_exist_and_are_owned_by_backend(
    backend_operator, backends: Client, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    backend = await wait_until_ready(backends, key)
    found = await children(backends, namespace)
    assert kinds_and_names(found) == {
        "Deployment/any-publisher-proxy",
        "Deployment/any-dispatcher",
        "Service/any-publisher-proxy",
        "Service/any-dispatcher",
        "PodDisruptionBudget/any-publisher-proxy",
        "PodDisruptionBudget/any-dispatcher",
        "ServiceAccount/any-dispatcher",
        "Role/any-dispatcher",
        "RoleBinding/any-dispatcher",
    }
    for name, body in found.items():
        owners = [(owner["uid"], owner["controller"]) for owner in body["metadata"]["ownerReferences"]]
        assert owners == [(backend.metadata.uid, True)], name


async def test_changed_children_are_restored_and_deleted_with_their_backend(
    backend_operator, backends: Client, nats: NatsServer, namespace
):
    # One has a dispatcher, the other its own server: together they have children of every kind.
    keys = [
        await create(backends, namespace, "bus", url=nats.url),
        await create(backends, namespace, "own"),
    ]
    sorts: dict[str, tuple[Resource, JsonObject]] = {}

    async def assert_all_created() -> None:
        found = await children(backends, namespace)
        for kind, name in found:
            resource = next(each for each in CHILD_TYPES if each.kind == kind)
            sorts[kind] = resource, found[kind, name]
        assert sorts.keys() == {each.kind for each in CHILD_TYPES}, sorts.keys()

    await eventually(assert_all_created, within=120)
    changed = {"metadata": {"labels": {"app.kubernetes.io/component": "something-else"}}}
    for resource, body in sorts.values():
        where = ObjectKey(namespace, body["metadata"]["name"])
        await backends.patch(resource, where, changed, Object)

    async def assert_restored() -> None:
        for resource, body in sorts.values():
            where = ObjectKey(namespace, body["metadata"]["name"])
            seen = (await backends.get(resource, where, Object)).metadata.labels
            assert seen == body["metadata"]["labels"], resource.kind

    await eventually(assert_restored, within=120)
    for key in keys:
        await backends.delete(EVENTINGBACKENDS, key)

    async def assert_gone() -> None:
        assert await children(backends, namespace) == {}
        assert not [key for key in keys if await exists(backends, EVENTINGBACKENDS, key)]

    await eventually(assert_gone, within=120)


async def test_ready_backend_causes_no_writes(
    backend_operator, backends: Client, proxy: FaultProxy, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    # The server is probed many times in this period.
    with backend_operator.clock.running_fast():
        await proxy.quiet(1.0)


async def test_kubectl_columns_show_conditions_with_spaces_in_type(
    backend_operator, backends: Client, cluster, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    shown = cluster.kubectl("get", "evb", "-n", namespace).stdout.splitlines()
    assert shown[0].split() == [
        "NAME", "BACKEND", "EVENTINGREADY", "SUBSCRIPTIONCONTROLLERREADY", "PUBLISHERPROXYREADY", "AGE"
    ]  # fmt: skip
    assert shown[1].split()[:5] == ["any", "nats", "true", "True", "True"]
    waited = cluster.kubectl("wait", "--for=condition=Ready", "evb/any", "-n", namespace, "--timeout=30s")
    assert waited.returncode == 0, waited.stderr


async def test_config_errors_are_reported_while_last_valid_config_serves(
    backend_operator, witness, backends: Client, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    before = await wait_until_ready(backends, key)
    pods = (await children(backends, namespace))["Deployment", "any-publisher-proxy"]["spec"]["template"]
    await update_config(
        backends, key, url="nats://elsewhere.example:4222", maxInFlightMessages="ten", foo="bar",
        publisherReplicas=100,
    )  # fmt: skip
    await wait_for_reason(backends, key, "The provided spec.config has validation errors")
    status = (await get(backends, key)).status
    assert [(each.type, each.config, each.value, each.error) for each in status.validation_errors] == [
        ("invalid-data-type-error", "maxInFlightMessages", "ten", "should be of type int"),
        ("unsupported-config-error", "foo", "bar", "config does not exist for backend type nats"),
        ("invalid-value-error", "publisherReplicas", "100", "must be set between 1 and 10"),
    ]
    assert [(each.type, each.status) for each in status.conditions] == [
        ("Backend Ready", "False"),
        ("Publisher Proxy Ready", "True"),
        ("Subscription Controller Ready", "True"),
        ("Ready", "False"),
    ]
    assert (status.eventing_ready, status.backend_type) == (False, "nats")
    assert status.effective_config == before.status.effective_config
    now = (await children(backends, namespace))["Deployment", "any-publisher-proxy"]["spec"]["template"]
    assert now == pods, "the pods were changed"
    await update_config(backends, key, url=nats.url, maxInFlightMessages=20)
    assert (await wait_until_ready(backends, key)).status.validation_errors == ()


async def test_backend_without_any_valid_config_has_no_children(
    backend_operator, backends: Client, namespace
):
    key = await create(backends, namespace, "any", maxInFlightMessages="ten")
    await wait_for_reason(backends, key, "The provided spec.config has validation errors")
    status = (await get(backends, key)).status
    assert {each.status for each in status.conditions} == {"False"}
    assert await children(backends, namespace) == {}


async def test_backend_becomes_ready_when_nats_server_starts_later(
    backend_operator, witness, backends: Client, proxy: FaultProxy, namespace, tmp_path
):
    server = NatsServer(tmp_path / "later")
    key = await create(backends, namespace, "any", url=server.url)
    found = await wait_for_reason(backends, key, "Server not reached")
    assert f"127.0.0.1:{server.port}" in found.message
    assert await children(backends, namespace) == {}
    await server.start()
    try:
        await wait_until_ready(backends, key)
    finally:
        await server.kill()
    witness.assert_truth()


async def test_killed_nats_server_is_reported_at_once_and_recovered(
    backend_operator, witness, backends: Client, proxy: FaultProxy, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    await nats.kill()
    await wait_for_reason(backends, key, "Server not reached")
    backend = await get(backends, key)
    assert condition(backend, "Publisher Proxy Ready").status == "True", "pods were removed"
    await nats.start()
    await wait_until_ready(backends, key)

    def assert_transitions() -> None:  # the proxy records the response after its effect is visible
        states = [status["conditions"][0]["status"] for status in statuses(proxy, key)]
        changes = [state for state, last in zip(states, [None, *states], strict=False) if state != last]
        assert changes[-3:] == ["True", "False", "True"], states

    await eventually(assert_transitions)


async def test_nats_server_without_jetstream_is_reported(
    backend_operator, backends: Client, namespace, tmp_path
):
    async with a_nats_server(tmp_path / "plain", jetstream=False) as server:
        key = await create(backends, namespace, "any", url=server.url)
        await wait_for_reason(backends, key, "JetStream not available")


async def test_wrong_credentials_are_reported_and_correct_ones_make_backend_ready(
    backend_operator, witness, backends: Client, namespace, tmp_path
):
    users = {"authorization": {"user": "operator", "password": "right"}}
    async with a_nats_server(tmp_path / "closed", users) as server:
        key = await create(backends, namespace, "any", url=server.url, credentialsSecretRef="login")
        found = await wait_for_reason(backends, key, "Secret not found")
        assert "Secret login does not exist" in found.message
        await create_secret(backends, namespace, "login", username="operator", password="wrong")
        found = await wait_for_reason(backends, key, "Login refused")
        assert "wrong" not in found.message
        assert await children(backends, namespace) == {}
        await create_secret(backends, namespace, "login", username="operator", password="right")
        await wait_until_ready(backends, key)
    witness.assert_truth()


@pytest.mark.parametrize(
    ("hosts", "days", "want"),
    [
        (("127.0.0.1",), -1, "Server certificate expired"),
        (("elsewhere.example",), 1, "TLS handshake failed"),
        (("127.0.0.1",), 1, "Backend ready"),
    ],
    ids=["expired", "other host name", "valid"],
)
async def test_server_certificate_with_wrong_time_or_name_is_reported(
    hosts, days, want, backend_operator, backends: Client, namespace, tmp_path
):
    authority = Authority.create(tmp_path / "pki")
    certificate, signer = authority.issue(
        "server", "nats", hosts=hosts, not_after=datetime.now(UTC) + timedelta(days=days)
    )
    tls = {"tls": {"cert_file": str(certificate), "key_file": str(signer), "timeout": 20}}
    async with a_nats_server(tmp_path / "tls", tls) as server:
        await create_secret(backends, namespace, "trust", ca_crt=(authority.directory / "ca.crt").read_text())
        key = await create(backends, namespace, "any", url=server.tls_url, credentialsSecretRef="trust")
        await wait_for_reason(backends, key, want)


async def test_new_credentials_are_tested_before_rollout_to_pods(
    backend_operator, witness, backends: Client, namespace, tmp_path
):
    users = {"authorization": {"users": [{"user": "a", "password": "1"}, {"user": "b", "password": "2"}]}}
    async with a_nats_server(tmp_path / "closed", users) as server:
        await create_secret(backends, namespace, "login", username="a", password="1")
        key = await create(backends, namespace, "any", url=server.url, credentialsSecretRef="login")
        await wait_until_ready(backends, key)

        async def version() -> str:
            found = (await children(backends, namespace))["Deployment", "any-publisher-proxy"]
            return found["spec"]["template"]["metadata"]["annotations"][
                "eventing.kyma-project.io/secret-version"
            ]

        before = await version()
        await create_secret(backends, namespace, "login", username="b", password="mistyped")
        await wait_for_reason(backends, key, "Login refused")
        assert await version() == before, "pods were rolled out with credentials that do not work"
        await create_secret(backends, namespace, "login", username="b", password="2")

        async def assert_rolled_out() -> None:
            assert await version() != before

        await eventually(assert_rolled_out, within=90)
        await wait_until_ready(backends, key)
    witness.assert_truth()


async def test_edited_stream_is_restored(backend_operator, backends: Client, nats, namespace):
    key = await create(backends, namespace, "any", url=nats.url, streamName="orders", maxMessages=1000)
    await wait_until_ready(backends, key)
    async with connect_jetstream(nats.url) as jetstream:
        made = (await jetstream.stream_info("orders")).config
        edited = msgspec.structs.replace(made, max_msgs=5, max_age=10**9, duplicate_window=10**9)
        await jetstream.update_stream(edited)

        async def assert_restored() -> None:
            assert (await jetstream.stream_info("orders")).config == made

        await eventually(assert_restored, within=90)
        await jetstream.delete_stream("orders")
        await eventually(assert_restored, within=90)
    await wait_until_ready(backends, key)


async def test_stream_rejected_by_server_is_reported_with_server_message(
    backend_operator, backends: Client, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url, streamReplicas=3)
    found = await wait_for_reason(backends, key, "Stream refused by the server")
    assert "replicas > 1 not supported in non-clustered mode" in found.message


async def test_changed_limits_update_stream(backend_operator, backends: Client, nats, namespace):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    await update_config(backends, key, url=nats.url, maxMessagesPerSubject=7, maxBytes="10Mi")
    await wait_until_ready(backends, key)
    async with connect_jetstream(nats.url) as jetstream:
        config = (await jetstream.stream_info("sap")).config
    assert (config.max_msgs_per_subject, config.max_bytes) == (7, 10 * 2**20)


async def test_deleted_backend_removes_children_and_keeps_stream(
    backend_operator, backends: Client, nats, namespace
):
    key = await create(backends, namespace, "any", url=nats.url)
    await wait_until_ready(backends, key)
    await backends.delete(EVENTINGBACKENDS, key)

    async def assert_gone() -> None:
        assert await children(backends, namespace) == {}
        assert not await exists(backends, EVENTINGBACKENDS, key)

    await eventually(assert_gone, within=90)
    async with connect_jetstream(nats.url) as jetstream:
        config = (await jetstream.stream_info("sap")).config
    assert "quintet.dev/backend" not in (config.metadata or {}), "the stream still has an owner"


async def test_backend_with_long_name_starting_with_digit_becomes_ready(
    backend_operator, backends: Client, nats, namespace
):
    name = "1." + "very-long-name." * 8 + "x"
    body = a_backend(name, url=nats.url)
    await backends.create(EVENTINGBACKENDS, body, Object, namespace=namespace)

    async def probe() -> None:
        assert (await get(backends, ObjectKey(namespace, name))).status.eventing_ready

    await eventually(probe, within=90)
