"""Webhooks on a real API server, served on the developer's machine and registered by URL."""

import asyncio
import base64
import contextlib
import json
import secrets
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from kit.cli.quintet import free_port
from kit.cluster.access_reviews import wait_until_allowed
from kit.cluster.api import RefusedError
from kit.eventually import eventually
from kit.kinds.controllers import CRDS
from kit.kinds.widgets import CONFIG_MAPS, WIDGETS, a_widget
from quintet.admission.certs import RotationPolicy
from quintet.admission.modes import by_url
from quintet.admission.registration import (
    MUTATING,
    VALIDATING,
    Registration,
    UrlTarget,
    WebhookEndpoint,
    cluster_rules,
    namespace_rules,
)
from quintet.admission.server import AdmissionServer
from quintet.admission.sources import SECRET_NAME, SECRETS, MemoryStore, SecretStore, SelfSignedCertificates
from quintet.admission.webhooks import Webhooks
from quintet.apis.meta import ObjectKey, Resource
from quintet.clock import SystemClock
from quintet.kube.client import Client
from quintet.kube.config import load
from quintet.kube.errors import Forbidden, NotFound
from quintet.kube.transport import Transport
from unit.admission.sample import ADMISSION, SENTENCE, WARNING

HOSTS = ("127.0.0.1",)
WEBHOOK_TYPES = (MUTATING, VALIDATING)


class Hooks:
    """Webhooks for the Widgets of one namespace."""

    def __init__(self, client: Client, namespace: str, store=None, **options) -> None:
        self.namespace = namespace
        self.name = f"quintet-{namespace}"
        self._client = client
        policy = options.pop("policy", None)
        self.source = SelfSignedCertificates(store or MemoryStore(), HOSTS, policy)
        self._options = {"interval": 0.2, "remove": True} | options
        self.port = 0

    def endpoint(self) -> WebhookEndpoint:
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        return WebhookEndpoint(
            at=UrlTarget(f"https://127.0.0.1:{self.port}"), name=self.name, namespace_selector=selector
        )

    @contextlib.asynccontextmanager
    async def running(self):
        clock = SystemClock()
        self.port = self.port or free_port()
        server = AdmissionServer((ADMISSION,), clock, host="127.0.0.1", port=self.port)
        registration = Registration(self._client, self.endpoint(), (ADMISSION,))
        self.webhooks = Webhooks(server, self.source, clock, registration, **self._options)
        async with self.webhooks.running():
            yield self

    async def bundle(self, resource: Resource = VALIDATING) -> bytes:
        """Return the CA bundle that is registered with the API server."""
        live = await self._client.get(resource, ObjectKey("", self.name), dict)
        return base64.b64decode(live["webhooks"][0]["clientConfig"]["caBundle"])

    async def leaf(self) -> x509.Certificate:
        """Return the serving certificate of a TLS handshake with the registered CA bundle."""
        trust = ssl.create_default_context(cadata=(await self.bundle()).decode())
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=trust)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return x509.load_der_x509_certificate(shown)


async def wait_until_called(api, namespace: str) -> None:
    """Wait until the API server calls the webhooks; it learns of each registration through a watch."""

    async def assert_webhooks_active():
        taken = await api.create(WIDGETS.path(namespace), a_widget("probe", text="x"), dryRun="All")
        assert taken["spec"].get("replicas") == 1, taken
        with pytest.raises(RefusedError, match=SENTENCE):
            await api.create(WIDGETS.path(namespace), a_widget("probe", text=""), dryRun="All")

    await eventually(assert_webhooks_active, within=60)


@pytest.fixture
async def hooks(widgets, api, namespace):
    """Running webhooks that the API server calls."""
    async with Hooks(widgets, namespace).running() as running:
        await wait_until_called(api, namespace)
        yield running


def manifest(*args, **spec) -> str:
    return json.dumps(a_widget(*args, **spec))


async def kubectl(cluster, namespace, *arguments, input=None):
    # In a thread, because the webhook that kubectl waits for runs in this event loop.
    return await asyncio.to_thread(cluster.kubectl, f"--namespace={namespace}", *arguments, input=input)


async def test_mutating_webhook_sets_defaults_of_omitted_fields(hooks, api, namespace):
    created = await api.create(WIDGETS.path(namespace), a_widget("w", text="x"))
    assert created["spec"] == {"text": "x", "replicas": 1}


async def test_kubectl_shows_message_and_field_of_denied_object(hooks, cluster, namespace):
    seen = await kubectl(cluster, namespace, "apply", "-f", "-", input=manifest("w", text=""))
    assert seen.returncode == 1, seen
    assert seen.stderr.strip() == f'The Widget "w" is invalid: spec.text: Invalid value: "": {SENTENCE}'


async def test_api_client_gets_cause_of_denied_object(hooks, api, namespace):
    with pytest.raises(RefusedError) as refusal:
        await api.create(WIDGETS.path(namespace), a_widget("w", text=""))
    status = refusal.value.status
    assert (refusal.value.code, status["reason"]) == (422, "Invalid"), status
    assert status["details"]["causes"][0]["field"] == "spec.text", status
    assert status["message"].startswith(
        'admission webhook "validate.widgets.test.quintet.dev" denied the request: Widget "w" is invalid'
    )


async def test_denial_without_field_names_the_user(hooks, cluster, namespace):
    seen = await kubectl(cluster, namespace, "apply", "-f", "-", input=manifest("w", mode="forbidden"))
    assert seen.returncode == 1, seen
    assert "denied the request: Not for admin." in seen.stderr, seen.stderr


async def test_kubectl_shows_webhook_warnings(hooks, cluster, namespace):
    seen = await kubectl(cluster, namespace, "apply", "-f", "-", input=manifest("w", text="x", replicas=11))
    assert seen.returncode == 0, seen.stderr
    assert seen.stderr.strip() == f"Warning: {WARNING}"


async def test_exception_in_validation_rule_denies_only_that_object(hooks, api, namespace):
    with pytest.raises(RefusedError, match="failed unexpectedly") as refusal:
        await api.create(WIDGETS.path(namespace), a_widget("w", mode="crash"))
    assert refusal.value.code == 500
    await api.create(WIDGETS.path(namespace), a_widget("w", text="x"))


async def test_review_over_size_limit_is_denied_and_next_review_succeeds(hooks, api, namespace):
    """Each "<" takes six bytes in a review, so an object that the API server accepts can be too large."""
    with pytest.raises(RefusedError) as refusal:
        await api.create(WIDGETS.path(namespace), a_widget("w", text="<" * 800_000))
    assert refusal.value.code == 413, refusal.value
    assert "The object is too large. The AdmissionReview of this Widget exceeds 4194304 bytes." in str(
        refusal.value
    )
    await api.create(WIDGETS.path(namespace), a_widget("w", text="x"))


async def test_unavailable_webhook_blocks_only_create_and_update_of_our_kind(widgets, api, namespace):
    hooks = Hooks(widgets, namespace, remove=False)
    path = WIDGETS.path(namespace)
    async with hooks.running():
        await wait_until_called(api, namespace)
        for name in ("kept", "deleted", "held"):
            body = a_widget(name, text="x")
            if name == "held":
                body["metadata"]["finalizers"] = ["test.quintet.dev/hold"]
            await api.create(path, body)
    try:
        for refused in (
            api.create(path, a_widget("new", text="x")),
            api.merge(f"{path}/kept", {"spec": {"text": "y"}}),
            api.merge(f"{path}/kept", {"metadata": {"labels": {"a": "b"}}}),
        ):
            with pytest.raises(RefusedError, match="failed calling webhook"):
                await refused
        await api.merge(f"{path}/kept/status", {"status": {"message": "still written"}})
        await api.delete(f"{path}/deleted")
        await api.delete(f"{path}/held")
        await api.merge(f"{path}/held", {"metadata": {"finalizers": None}})
        assert not await api.exists(f"{path}/deleted")
        assert not await api.exists(f"{path}/held"), "a finalizer can be taken away"
        await api.create(CONFIG_MAPS.path(namespace), {"metadata": {"name": "other"}, "data": {"a": "b"}})
        await api.merge(CRDS.path("", WIDGETS.qualified), {"metadata": {"labels": {"touched": "yes"}}})
    finally:
        await Registration(widgets, hooks.endpoint(), (ADMISSION,)).remove()

    async def accepted():
        await api.create(path, a_widget(f"after-{secrets.token_hex(2)}", text="x"))

    await eventually(accepted)


async def test_webhook_process_outside_cluster_is_registered_only_while_it_runs(widgets, api, namespace):
    key = ObjectKey("", f"quintet-{namespace}")
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    hooks = by_url(
        (ADMISSION,), widgets, SystemClock(), host="127.0.0.1", port=free_port(), name=key.name,
        namespace_selector=selector,
    )  # fmt: skip
    async with hooks.running():
        await wait_until_called(api, namespace)
        assert hooks.readiness_problem() is None
    for resource in WEBHOOK_TYPES:
        with pytest.raises(NotFound):
            await widgets.get(resource, key, dict)


async def test_standby_replica_does_not_register_webhooks(widgets, namespace):
    endpoint = WebhookEndpoint(at=UrlTarget("https://127.0.0.1:1"), name=f"quintet-{namespace}")
    standby = widgets.with_fence(lambda: False)
    await Registration(standby, endpoint, (ADMISSION,)).ensure(b"bundle")
    for resource in WEBHOOK_TYPES:
        with pytest.raises(NotFound):
            await widgets.get(resource, ObjectKey("", endpoint.name), dict)


@pytest.mark.parametrize("resource", WEBHOOK_TYPES, ids=lambda resource: resource.kind)
async def test_changed_ca_bundle_and_failure_policy_are_restored(hooks, api, namespace, resource):
    before = await hooks.bundle(resource)
    other = await SelfSignedCertificates(MemoryStore(), HOSTS).current(datetime.now(UTC))
    path = resource.path("", hooks.name)
    operations = [
        {
            "op": "replace",
            "path": "/webhooks/0/clientConfig/caBundle",
            "value": base64.b64encode(other.bundle).decode(),
        },
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
    ]
    await api.send("PATCH", path, operations, "application/json-patch+json", {})

    async def assert_restored():
        assert await hooks.bundle(resource) == before
        assert (await api.get(path))["webhooks"][0]["failurePolicy"] == "Fail"

    await eventually(assert_restored)
    await wait_until_called(api, namespace)


async def test_refresh_writes_nothing_when_webhook_configuration_is_unchanged(hooks, api):
    """Fields that others add to our configurations are ignored."""
    versions = []
    for resource in WEBHOOK_TYPES:
        path = resource.path("", hooks.name)
        touched = await api.merge(path, {"metadata": {"labels": {"of": "somebody"}}})
        versions.append(touched["metadata"]["resourceVersion"])
    for _ in range(5):
        await hooks.webhooks.refresh()
    for resource, version in zip(WEBHOOK_TYPES, versions, strict=True):
        live = await api.get(resource.path("", hooks.name))
        assert live["metadata"]["resourceVersion"] == version, live["metadata"]


async def test_webhooks_of_kind_that_is_no_longer_served_are_removed(widgets, api, namespace):
    # No process is running that would restore them.
    hooks = Hooks(widgets, namespace)
    hooks.port = 1
    try:
        await Registration(widgets, hooks.endpoint(), (ADMISSION,)).ensure(b"one")
        for resource in WEBHOOK_TYPES:
            assert (await api.get(resource.path("", hooks.name)))["webhooks"]
        await Registration(widgets, hooks.endpoint(), ()).ensure(b"")
        for resource in WEBHOOK_TYPES:
            assert "webhooks" not in await api.get(resource.path("", hooks.name))
    finally:
        await Registration(widgets, hooks.endpoint(), ()).remove()


@pytest.mark.parametrize("authorities", [2, pytest.param(3, marks=pytest.mark.exhaustive)])
async def test_no_admission_fails_while_certificates_and_cas_rotate(authorities, widgets, api, namespace):
    """Up to 50 admissions per second through the API server, with new TLS handshakes all the time."""
    seconds = timedelta(seconds=1)
    # Rotated all the time, but far from expiry: a machine that stalls for seconds must not fail the test.
    policy = RotationPolicy(authority=30 * seconds, leaf=10 * seconds, lead=5 * seconds, renew_left=14 / 15)
    hooks = Hooks(widgets, namespace, SecretStore(widgets, ObjectKey(namespace, SECRET_NAME)), policy=policy)
    leaves, signers, failures = set[int](), set[str](), list[str]()
    admitted = number = 0
    # As many as the machine can handle: more would time out in the API server.
    places = asyncio.Semaphore(8)

    async def admit(number: int) -> None:
        nonlocal admitted
        try:
            body = a_widget(f"w-{number}", text="x")
            answer = await api.create(WIDGETS.path(namespace), body, dryRun="All")
            assert answer["spec"]["replicas"] == 1, answer
            admitted += 1
        except Exception as error:
            failures.append(f"admission {number}: {error!r}")

    async def shake() -> None:
        try:
            leaf = await hooks.leaf()
            leaves.add(leaf.serial_number)
            signers.add(leaf.issuer.rfc4514_string())
        except Exception as error:
            failures.append(f"handshake: {error!r}")

    async with hooks.running():
        await wait_until_called(api, namespace)
        async with asyncio.TaskGroup() as group:
            while len(signers) < authorities and number < 3000:
                await places.acquire()
                group.create_task(admit(number)).add_done_callback(lambda _: places.release())
                if number % 5 == 0:
                    group.create_task(shake())
                number += 1
                await asyncio.sleep(1 / 50)
    seen = f"{admitted} of {number} admissions, {len(leaves)} leaves of {len(signers)} authorities"
    assert not failures, f"{seen}: {failures[:5]}"
    assert len(signers) == authorities, seen
    assert len(leaves) >= 2 * authorities, seen
    assert admitted == number, seen


async def test_two_replicas_share_one_secret_and_serve_one_certificate(widgets, api, namespace):
    key = ObjectKey(namespace, SECRET_NAME)
    one, two = (Hooks(widgets, namespace, SecretStore(widgets, key)) for _ in range(2))
    two.name += "-two"
    async with asyncio.timeout(30), one.running(), two.running():
        assert (await one.leaf()).serial_number == (await two.leaf()).serial_number
        secret = await widgets.get(SECRETS, key, dict)
        assert set(secret["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
        assert base64.b64decode(secret["data"]["ca.crt"]) == await one.bundle() == await two.bundle()


async def test_replicas_that_write_concurrently_serve_one_certificate(widgets, namespace):
    key = ObjectKey(namespace, SECRET_NAME)
    now = datetime.now(UTC)
    for moment in (now, now + timedelta(days=5), now + timedelta(days=300), now + timedelta(days=310)):
        sources = [SelfSignedCertificates(SecretStore(widgets, key), HOSTS) for _ in range(5)]
        served = await asyncio.gather(*(source.current(moment) for source in sources))
        assert len(set(served)) == 1, f"{len(set(served))} different certificates at {moment}"


async def test_foreign_labels_and_keys_in_certificate_secret_are_preserved(widgets, api, namespace):
    path = SECRETS.path(namespace)
    body = {"metadata": {"name": SECRET_NAME, "labels": {"of": "helm"}}, "stringData": {"note": "hello"}}
    await api.create(path, body)
    source = SelfSignedCertificates(SecretStore(widgets, ObjectKey(namespace, SECRET_NAME)), HOSTS)
    now = datetime.now(UTC)
    await source.current(now)
    await source.current(now + timedelta(days=300))
    rotating = await api.get(f"{path}/{SECRET_NAME}")
    assert {"note", "previous.crt", "previous.key"} <= set(rotating["data"]), set(rotating["data"])
    assert rotating["metadata"]["labels"] == {"of": "helm"}
    await source.current(now + timedelta(days=310))
    after = await api.get(f"{path}/{SECRET_NAME}")
    assert set(after["data"]) == {"note", "ca.crt", "ca.key", "tls.crt", "tls.key"}


async def test_declared_permissions_suffice_and_allow_no_other_webhook_configuration(
    cluster, widgets, api, namespace
):
    user, name = f"user-{namespace}", f"quintet-{namespace}"
    async with grant(api, user, cluster_rules(name), namespace, namespace_rules(SECRET_NAME)):
        await assert_permissions_are_exact(cluster, widgets, api, namespace, user, name)


async def assert_permissions_are_exact(cluster, widgets, api, namespace: str, user: str, name: str) -> None:
    endpoint = WebhookEndpoint(
        at=UrlTarget("https://127.0.0.1:1"), name=name, namespace_selector={"matchLabels": {"a": "b"}}
    )
    other = WebhookEndpoint(at=UrlTarget("https://127.0.0.1:1"), name=f"{name}-other")
    async with Transport(load(str(cluster.client_kubeconfig(user)))) as transport:
        limited = Client(transport)
        registration = Registration(limited, endpoint, (ADMISSION,))
        try:
            await eventually(lambda: registration.ensure(b"one"))
            await registration.ensure(b"two")
            with pytest.raises(Forbidden):
                await Registration(limited, other, (ADMISSION,)).ensure(b"one")
        finally:
            await Registration(widgets, endpoint, (ADMISSION,)).remove()
        source = SelfSignedCertificates(SecretStore(limited, ObjectKey(namespace, SECRET_NAME)), HOSTS)
        await wait_until_allowed(api, user, "create", "secrets", namespace=namespace)
        await source.current(datetime.now(UTC))
        await source.current(datetime.now(UTC) + timedelta(days=5))
        with pytest.raises(Forbidden):
            await limited.get(SECRETS, ObjectKey(namespace, "other"), dict)


@contextlib.asynccontextmanager
async def grant(api, user: str, cluster_wide: list, namespace: str, inside: list):
    """Grant permissions to a user while inside."""
    group = "rbac.authorization.k8s.io"
    subjects = [{"kind": "User", "name": user, "apiGroup": group}]
    for kind, path, rules in (
        ("ClusterRole", f"/apis/{group}/v1", cluster_wide),
        ("Role", f"/apis/{group}/v1/namespaces/{namespace}", inside),
    ):
        await api.create(f"{path}/{kind.lower()}s", {"metadata": {"name": user}, "rules": rules})
        reference = {"kind": kind, "name": user, "apiGroup": group}
        body = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
        await api.create(f"{path}/{kind.lower()}bindings", body)
    try:
        yield
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            await api.delete(f"/apis/{group}/v1/{plural}/{user}")
