"""What a user must not reach through an EventingBackend: Secrets, and addresses inside the cluster."""

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest

from kit.cli.quintet import apply
from kit.cluster.api import Api, RefusedError
from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.eventingbackends import (
    a_backend,
    a_mesh,
    an_operator,
    children,
    create,
    create_secret,
    get,
    update_config,
    wait_for_reason,
    wait_until_ready,
)
from kit.nats.server import a_nats_server
from quintet.apis.eventingbackend import EVENTINGBACKENDS, EventingBackend, addresses
from quintet.components import COMPONENTS
from quintet.kube.client import Client
from quintet.manifests.policy import policies
from quintet.manifests.rbac import operator_roles, optional_roles
from quintet.processes.eventing_options import eventing_options

EVENTING = COMPONENTS["eventing"]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
async def strict(backends, api: Api, cluster) -> AsyncIterator[str]:
    """A namespace with an operator that has the address limits of an installation."""
    limits = addresses.NetworkLimits.of(api_server=["10.96.0.1", "203.0.113.7"], refused=["192.0.2.0/24"])
    async with (
        fresh_namespace(api) as namespace,
        an_operator(cluster.kubeconfig, namespace=namespace, limits=limits),
    ):
        yield namespace


REFUSED = {
    "loopback": "nats://127.0.0.1:4222",
    "loopback as a number": "nats://2130706433:4222",
    "IPv6 loopback": "nats://[::1]:4222",
    "IPv4-mapped loopback": "nats://[::ffff:127.0.0.1]:4222",
    "this host": "nats://0.0.0.0:4222",
    "cloud metadata service": "nats://169.254.169.254:80",
    "the API server's Service": "nats://10.96.0.1:443",
    "the API server itself": "tls://203.0.113.7:6443",
    "address denied by an administrator": "nats://192.0.2.77:4222",
}


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED)
async def test_forbidden_server_address_is_rejected_before_connecting(url, strict, backends: Client):
    key = await create(backends, strict, f"any-{secrets.token_hex(4)}", url=url)

    async def assert_rejected() -> None:
        found = await get(backends, key)
        reasons = {each.reason for each in found.status.conditions}
        # A number is not a single-label host name, so it does not resolve.
        assert reasons & {"Server address refused", "Server name not resolved"}, found.status

    await eventually(assert_rejected, within=90)
    assert await children(backends, strict) == {}


async def test_eventmesh_addresses_in_secret_are_checked(strict, backends: Client):
    async with a_mesh() as mesh:
        await create_secret(backends, strict, "mesh", **mesh.secret())
        key = await create(backends, strict, "mesh", "beb", secretRef="mesh")
        found = await wait_for_reason(backends, key, "Server address refused")
        assert "127.0.0.1 is a loopback address" in found.message
        assert mesh.logins == 0


async def test_response_of_unknown_server_does_not_appear_in_status(
    backends: Client, proxy: FaultProxy, namespace, tmp_path
):
    async def talkative(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 internal-mail.example topsecret banner\r\n")
        await writer.drain()
        writer.close()

    stranger = await asyncio.start_server(talkative, "127.0.0.1", 0)
    port = stranger.sockets[0].getsockname()[1]
    async with stranger, an_operator(proxy.write_kubeconfig(tmp_path), namespace=namespace):
        key = await create(backends, namespace, "any", url=f"nats://127.0.0.1:{port}")
        await wait_for_reason(backends, key, "Server speaks no NATS")
        whole = await backends.get(EVENTINGBACKENDS, key, dict)
        assert "topsecret" not in str(whole["status"])


async def test_api_server_addresses_are_forbidden_at_startup(backends: Client, api: Api):
    made = await eventing_options(
        backends,
        api.server,
        system_namespace="system",
        account="quintet",
        image="i",
        nats_image="n",
        refused=(),
        allowed=(),
    )
    assert "is an address of the API server" in made.limits.refusal("127.0.0.1")
    assert made.account == "system:quintet"


async def _create_user(api: Api, namespace: str, name: str, *rules: dict[str, object]) -> Api:
    """Create a user of the namespace with these permissions only."""
    await api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    await api.create(f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": name}, "rules": [*rules]})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    await api.create(
        f"{RBAC}/namespaces/{namespace}/rolebindings",
        {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]},
    )
    token = await api.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    return await _session(api, token["status"]["token"])


async def _session(api: Api, token: str) -> Api:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trusting), headers={"Authorization": f"Bearer {token}"}
    )
    return Api(session, api.server)


WRITES = {
    "apiGroups": ["eventing.kyma-project.io"],
    "resources": ["eventingbackends"],
    "verbs": ["get", "create", "patch", "update"],
}


@pytest.fixture(scope="module")
async def policy(backends: Client, cluster) -> AsyncIterator[None]:
    """The admission policy as it is installed, once per file, because it takes effect and ends with a delay."""
    made = policies(EVENTING.user_requirements)
    for body in made:
        done = apply(cluster, "default", body)
        assert done.returncode == 0, done.stderr
    yield
    for body in made:
        cluster.kubectl("delete", body["kind"], body["metadata"]["name"])


async def wait_for_policy(user: Api, path: str) -> None:
    """Wait until the policy rejects what it forbids."""

    async def assert_rejected() -> None:
        body = a_backend("", url="nats://evil.example:4222", credentialsSecretRef="theirs")
        body["metadata"] = {"generateName": "attack-"}
        said = "it was admitted"
        try:
            await user.create(path, body)
        except RefusedError as error:
            said = str(error)
        assert said.startswith("403"), said
        assert "you need permission to get that Secret" in said

    await eventually(assert_rejected, within=90)


async def test_user_without_permission_on_secret_cannot_reference_it(
    policy, backends: Client, api: Api, namespace
):
    await create_secret(backends, namespace, "theirs", username="admin", password="secret")
    user = await _create_user(api, namespace, "tenant", WRITES)
    path = f"/apis/eventing.kyma-project.io/v1alpha1/namespaces/{namespace}/eventingbackends"
    try:
        await wait_for_policy(user, path)
        with pytest.raises(RefusedError, match="you need permission"):
            await user.create(path, a_backend("attack-beb", "beb", secretRef="theirs"))
        # A permitted user created it; another user must not redirect it.
        key = await create(
            backends, namespace, "good", url="nats://nats.example:4222", credentialsSecretRef="theirs"
        )
        evil = a_backend("good", url="nats://evil.example:4222", credentialsSecretRef="theirs")["spec"]
        with pytest.raises(RefusedError, match="you need permission"):
            await user.merge(f"{path}/good", {"spec": evil})
        await user.merge(f"{path}/good", {"metadata": {"labels": {"team": "shop"}}})
        await user.create(path, a_backend("harmless", url="nats://nats.example:4222"))
        assert (await backends.get(EVENTINGBACKENDS, key, EventingBackend)).spec.config
    finally:
        await user.session.close()


@pytest.mark.parametrize("verb", ["get", "use"])
async def test_user_with_permission_on_named_secret_can_reference_it(
    verb, policy, backends: Client, api: Api, namespace
):
    allowed = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": [verb]}
    user = await _create_user(api, namespace, "tenant", WRITES, allowed)
    path = f"/apis/eventing.kyma-project.io/v1alpha1/namespaces/{namespace}/eventingbackends"
    try:
        await wait_for_policy(user, path)
        body = a_backend("any", url="nats://nats.example:4222", credentialsSecretRef="mine")
        await user.create(path, body)
        with pytest.raises(RefusedError, match="you need permission"):
            await user.create(path, a_backend("other", "beb", secretRef="theirs"))
    finally:
        await user.session.close()


async def test_operator_without_permission_on_secrets_reports_the_needed_binding(
    backends: Client, api: Api, cluster, proxy: FaultProxy, simulated_node, namespace, tmp_path
):
    roles = [body for body in operator_roles([EVENTING]) if body["kind"] == "ClusterRole"]
    roles[0]["metadata"]["name"] = namespace  # other tests may use the name
    for body in (*roles, *optional_roles([EVENTING])):
        done = apply(cluster, "default", body)
        assert done.returncode == 0, done.stderr
    operator = await _create_user(api, namespace, "quintet")
    token = operator.session.headers["Authorization"].removeprefix("Bearer ")
    await operator.session.close()
    account = f"{namespace}:quintet"
    cluster.kubectl(
        "create", "clusterrolebinding", namespace, f"--clusterrole={namespace}", f"--serviceaccount={account}"
    )
    users = {"authorization": {"user": "operator", "password": "right"}}
    try:
        async with (
            a_nats_server(tmp_path / "closed", users) as server,
            an_operator(
                proxy.write_kubeconfig(tmp_path, token=token),
                namespace=namespace,
                account=account,
                context=None,
            ),
        ):
            await create_secret(backends, namespace, "login", username="operator", password="right")
            key = await create(backends, namespace, "any", url=server.url, credentialsSecretRef="login")
            found = await wait_for_reason(backends, key, "Secret not readable")
            command = found.message.partition("to allow it: kubectl ")[2].split()
            assert command[:2] == ["create", "rolebinding"], found
            allowed = cluster.kubectl(*command)
            assert allowed.returncode == 0, allowed.stderr
            # From here on the declared permissions suffice.
            await wait_until_ready(backends, key)
            assert "Deployment" in {kind for kind, _ in await children(backends, namespace)}
            await update_config(backends, key, url=server.url, credentialsSecretRef="login", maxMessages=5)
            await wait_until_ready(backends, key)
            await backends.delete(EVENTINGBACKENDS, key)

            async def assert_gone() -> None:
                async for page in backends.pages(EVENTINGBACKENDS, namespace=namespace):
                    assert page.items == ()

            await eventually(assert_gone, within=90)
        asked = [e for e in proxy.trace if e.request.resource == "secrets" and e.request.verb != "get"]
        assert asked == [], "a Secret was listed or watched"
    finally:
        cluster.kubectl("delete", "clusterrolebinding", namespace)
        cluster.kubectl("delete", "clusterrole", namespace, "quintet-eventing-secrets")
