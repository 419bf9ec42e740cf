"""Every class of client error, caused by a real API server or by the fault proxy in front of it."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from kit.cluster.api import Api
from kit.cluster.client import CONFIG_MAPS, ConfigMap, a_config_map, connect
from kit.eventually import eventually
from kit.faults.proxy import Answer, DropReply, FaultProxy, Refuse, Stall, changes_state, matching
from kit.kinds.widgets import CRD, WIDGETS
from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.kube.client import Client, decode_watch_event, watch_error
from quintet.kube.config import ClusterConfig
from quintet.kube.credentials import StaticHeader
from quintet.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerFault,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unsupported,
    UntrustedServer,
    WriteFenced,
)
from quintet.local.cluster import Cluster
from quintet.local.controlplane.certificates import Authority

SECRETS = Resource("", "v1", "Secret", "secrets")
COMPONENTS = Resource("", "v1", "ComponentStatus", "componentstatuses", False)
NONSENSE = Resource("nowhere.example", "v1", "Nothing", "nothings")


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with connect(cluster.kubeconfig) as ready:
        yield ready


@pytest.fixture
async def basket(client: Client, namespace: str) -> ConfigMap:
    return await client.create(CONFIG_MAPS, a_config_map("basket"), ConfigMap, namespace=namespace)


@pytest.mark.parametrize("resource", [CONFIG_MAPS, NONSENSE], ids=["object", "type"])
async def test_missing_object_or_type_raises_not_found(client: Client, namespace: str, resource: Resource):
    with pytest.raises(NotFound):
        await client.get(resource, ObjectKey(namespace, "nothing"), Object)


async def test_existing_name_raises_already_exists(client: Client, basket: ConfigMap):
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, a_config_map("basket"), ConfigMap, namespace=basket.key.namespace)


async def test_stale_resource_version_raises_conflict(client: Client, basket: ConfigMap):
    body = a_config_map("basket", apples="1")
    body["metadata"]["resourceVersion"] = basket.metadata.resource_version
    await client.replace(CONFIG_MAPS, basket.key, body, ConfigMap)

    with pytest.raises(Conflict) as caught:
        await client.replace(CONFIG_MAPS, basket.key, body, ConfigMap)

    assert type(caught.value) is Conflict


async def test_invalid_object_raises_invalid_with_fields(client: Client, namespace: str):
    body = a_config_map("Not A Name") | {"data": {"not a key": ""}}

    with pytest.raises(Invalid) as caught:
        await client.create(CONFIG_MAPS, body, ConfigMap, namespace=namespace)

    assert {cause.field for cause in caught.value.causes} == {"metadata.name", "data[not a key]"}


async def test_missing_permission_raises_forbidden(cluster: Cluster, namespace: str):
    async with connect(cluster.client_kubeconfig("alice")) as alice:
        with pytest.raises(Forbidden) as caught:
            await alice.get(SECRETS, ObjectKey(namespace, "any"), Object)

    assert not caught.value.namespace_terminating


async def test_terminating_namespace_is_distinguished_from_missing_permission(client: Client, api: Api):
    name = f"doomed-{secrets.token_hex(4)}"
    path = f"/api/v1/namespaces/{name}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    body = a_config_map("keeper")
    body["metadata"]["finalizers"] = ["test.quintet.dev/keep"]
    await client.create(CONFIG_MAPS, body, ConfigMap, namespace=name)
    await api.delete(path)

    with pytest.raises(Forbidden) as caught:
        await client.create(CONFIG_MAPS, a_config_map("late"), ConfigMap, namespace=name)
    await api.merge(f"{path}/configmaps/keeper", {"metadata": {"finalizers": None}})

    assert caught.value.namespace_terminating


async def test_unknown_token_raises_unauthorized(cluster: Cluster):
    stranger = ClusterConfig(
        cluster.server, ca_data=cluster.ca.read_bytes(), credentials=StaticHeader("Bearer nonsense")
    )
    async with connect(stranger) as client:
        with pytest.raises(Unauthorized) as caught:
            await client.version()

    assert caught.value.expiry is None


async def test_expired_client_certificate_raises_unauthorized_with_expiry(cluster: Cluster):
    late = cluster.client_kubeconfig("late", not_after=datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    async with connect(late) as client:
        with pytest.raises(Unauthorized) as caught:
            await client.version()

    assert "expired on 2026-01-02 03:04 UTC" in (caught.value.expiry or "")


async def compact_etcd(cluster: Cluster, revision: int) -> None:
    """Compact etcd's history up to a revision."""
    url = f"{cluster.etcd_url}/v3/kv/compaction"
    async with aiohttp.ClientSession() as session, session.post(url, json={"revision": revision}) as answer:
        assert answer.status == 200, await answer.text()


@pytest.fixture
async def late(client: Client, api: Api, cluster: Cluster, basket: ConfigMap) -> Resource:
    """A type whose CRD was created late, so that the API server's watch cache of it starts late."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD['metadata']['name']}"
    await api.apply(path, CRD, manager="test")

    async def served() -> None:
        await anext(client.pages(WIDGETS))

    await eventually(served)
    await compact_etcd(cluster, basket.version)
    return WIDGETS


async def test_watch_from_compacted_version_raises_gone(client: Client, late: Resource):
    async with client.watch(late, resource_version="1") as batches:
        event = decode_watch_event((await anext(batches))[0])

    assert event.type == "ERROR", event
    assert type(watch_error("WATCH", event.object)) is Gone


async def test_list_at_compacted_version_raises_gone(client: Client, late: Resource):
    with pytest.raises(Gone):
        await anext(client.pages(late, page_size=1, resource_version="2"))


async def test_unknown_media_type_or_method_raises_unsupported(client: Client, basket: ConfigMap):
    with pytest.raises(Unsupported, match="415"):
        await client.patch(CONFIG_MAPS, basket.key, {}, ConfigMap, content_type="text/plain")
    with pytest.raises(Unsupported, match="405"):
        await client.delete(COMPONENTS, ObjectKey("", "etcd-0"))


async def test_oversized_request_raises_too_large(client: Client, namespace: str):
    body = a_config_map("huge", text="x" * 4 * 1024 * 1024)

    with pytest.raises(TooLarge):
        await client.create(CONFIG_MAPS, body, ConfigMap, namespace=namespace)


async def test_malformed_request_raises_bad_request(client: Client, namespace: str):
    with pytest.raises(BadRequest):
        await client.create(CONFIG_MAPS, b"{", ConfigMap, namespace=namespace)


async def test_unknown_certificate_authority_raises_untrusted_server(cluster: Cluster, tmp_path: Path):
    stranger = Authority.create(tmp_path / "pki").directory / "ca.crt"
    other = ClusterConfig(cluster.server, ca_data=stranger.read_bytes())

    async with connect(other) as client:
        with pytest.raises(UntrustedServer, match=cluster.server.removeprefix("https://")):
            await client.version()


@pytest.fixture
async def through(proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Client]:
    async with connect(proxy.write_kubeconfig(tmp_path)) as ready:
        yield ready


ANSWERS = {
    "overload with Retry-After": (Answer(429, "TooManyRequests", retry_after=7), TooManyRequests, 7.0),
    "overload without Retry-After": (Answer(429, "TooManyRequests"), TooManyRequests, None),
    "starting server": (Answer(503, "ServiceUnavailable", retry_after=3), ServerFault, 3.0),
    "internal error": (Answer(500, "InternalError"), ServerFault, None),
    "etcd timeout": (Answer(504, "Timeout"), ServerFault, None),
}


@pytest.mark.parametrize(("answer", "want", "want_delay"), ANSWERS.values(), ids=ANSWERS)
async def test_server_error_raises_matching_class_with_retry_after(
    through, proxy, namespace, answer, want, want_delay
):
    proxy.inject(answer)

    with pytest.raises(want) as caught:
        await through.get(CONFIG_MAPS, ObjectKey(namespace, "any"), ConfigMap)

    assert caught.value.retry_after == want_delay
    assert len(proxy.trace.requests()) == 1, f"nothing is repeated here:\n{proxy.trace}"


async def test_reset_connection_raises_unreachable(through: Client, proxy: FaultProxy, namespace: str):
    proxy.inject(Refuse(), times=None)

    with pytest.raises(Unreachable) as caught:
        await through.get(CONFIG_MAPS, ObjectKey(namespace, "any"), ConfigMap)

    assert type(caught.value) is Unreachable


async def test_write_with_lost_response_is_not_repeated(through, proxy, client, basket):
    await through.version()  # so that the write uses an existing connection
    proxy.inject(DropReply(), when=changes_state)
    body = a_config_map("basket", apples="1")

    with pytest.raises(Unreachable):
        await through.replace(CONFIG_MAPS, basket.key, body, ConfigMap)

    assert (await client.get(CONFIG_MAPS, basket.key, ConfigMap)).data == {"apples": "1"}
    assert len(proxy.trace.writes()) == 1, proxy.trace


async def test_missing_response_raises_deadline_exceeded(proxy: FaultProxy, tmp_path: Path, namespace: str):
    stall = Stall()
    proxy.inject(stall)
    async with connect(proxy.write_kubeconfig(tmp_path), timeout=1.0) as client:
        with pytest.raises(DeadlineExceeded):
            await client.get(CONFIG_MAPS, ObjectKey(namespace, "any"), ConfigMap)
    stall.release()


async def test_silent_watch_raises_deadline_exceeded(through: Client, proxy: FaultProxy, basket: ConfigMap):
    stall = Stall()
    proxy.inject(stall, when=matching("watch"))

    with pytest.raises(DeadlineExceeded):
        async with through.watch(CONFIG_MAPS, initial_events=True, idle_timeout=1.0) as batches:
            await anext(batches)
    stall.release()


async def test_writes_of_fenced_client_never_reach_server(through, proxy, client, basket):
    fenced = through.with_fence(lambda: False)
    await fenced.get(CONFIG_MAPS, basket.key, ConfigMap)
    changed = a_config_map("basket", apples="9")

    for write in (
        fenced.create(CONFIG_MAPS, a_config_map("new"), ConfigMap, namespace=basket.key.namespace),
        fenced.replace(CONFIG_MAPS, basket.key, changed, ConfigMap),
        fenced.apply(CONFIG_MAPS, basket.key, changed, ConfigMap),
        fenced.patch(CONFIG_MAPS, basket.key, {"data": {"apples": "9"}}, ConfigMap),
        fenced.delete(CONFIG_MAPS, basket.key),
        fenced.evict(basket.key),
    ):
        with pytest.raises(WriteFenced):
            await write

    assert not proxy.trace.writes(), proxy.trace
    assert await client.get(CONFIG_MAPS, basket.key, ConfigMap) == basket


async def test_fenced_client_writes_only_while_fence_is_open(through, basket):
    open_now = True
    fenced = through.with_fence(lambda: open_now)
    await fenced.patch(CONFIG_MAPS, basket.key, {"data": {"apples": "1"}}, ConfigMap)
    open_now = False

    with pytest.raises(WriteFenced):
        await fenced.delete(CONFIG_MAPS, basket.key)

    assert (await fenced.get(CONFIG_MAPS, basket.key, ConfigMap)).data == {"apples": "1"}
