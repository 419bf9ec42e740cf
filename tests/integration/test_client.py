"""The client's verbs on a real API server."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from kit.cluster.api import Api
from kit.cluster.client import CONFIG_MAPS, ConfigMap, a_config_map, connect
from kit.eventually import eventually
from quintet.apis.meta import Object, ObjectKey, Resource, Struct
from quintet.kube.client import JSON, PODS, Client, WatchEvent, decode_watch_event
from quintet.kube.errors import Conflict, Invalid, NotFound, TooManyRequests
from quintet.local.cluster import Cluster

BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
ANOTHER_UID = "0d5c2f4e-0000-4000-8000-000000000000"


class PodSpec(Struct, frozen=True):
    node_name: str = ""
    containers: tuple[dict[str, object], ...] = ()


class PodStatus(Struct, frozen=True):
    phase: str = ""


class Pod(Object, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class BudgetStatus(Struct, frozen=True):
    current_healthy: int = 0


class Budget(Object, frozen=True):
    status: BudgetStatus = BudgetStatus()


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with connect(cluster.kubeconfig) as ready:
        yield ready


@pytest.fixture
async def basket(client: Client, namespace: str) -> ConfigMap:
    return await client.create(
        CONFIG_MAPS, a_config_map("basket", apples="1"), ConfigMap, namespace=namespace
    )


async def test_version_returns_running_server_version(client: Client, cluster: Cluster):
    assert (await client.version()).git_version == cluster.version


async def test_created_object_can_be_read(client: Client, basket: ConfigMap):
    found = await client.get(CONFIG_MAPS, basket.key, ConfigMap)

    assert found == basket
    assert found.data == {"apples": "1"}
    assert found.version > 0


async def test_pages_contain_every_object_once(client: Client, namespace: str):
    want = [f"page-{number}" for number in range(7)]
    for name in want:
        body = a_config_map(name)
        body["metadata"]["labels"] = {"of": "pages"}
        await client.create(CONFIG_MAPS, body, ConfigMap, namespace=namespace)

    pages = [
        page async for page in client.pages(CONFIG_MAPS, namespace=namespace, labels="of=pages", page_size=3)
    ]

    assert [len(page.items) for page in pages] == [3, 3, 1]
    assert [
        msgspec.json.decode(item, type=ConfigMap).key.name for page in pages for item in page.items
    ] == want
    assert len({page.metadata.resource_version for page in pages}) == 1, (
        "pages have different resource versions"
    )


@pytest.mark.parametrize("metadata_only", [True, False])
async def test_empty_list_is_one_page_without_items(client: Client, namespace: str, metadata_only: bool):
    pages = client.pages(BUDGETS, namespace=namespace, metadata_only=metadata_only)
    assert [page.items async for page in pages] == [()]


async def test_list_accepts_field_selector_and_cached_resource_version(client: Client, basket: ConfigMap):
    async def assert_selected() -> None:
        chosen = client.pages(
            CONFIG_MAPS, namespace=basket.key.namespace, fields="metadata.name=basket", resource_version="0"
        )
        pages = [page async for page in chosen]
        assert [len(page.items) for page in pages] == [1]

    await eventually(assert_selected)  # the cache may lag behind the write


async def test_replace_overwrites_whole_object(client: Client, basket: ConfigMap):
    body = a_config_map("basket", pears="2")
    body["metadata"]["resourceVersion"] = basket.metadata.resource_version

    assert (await client.replace(CONFIG_MAPS, basket.key, body, ConfigMap)).data == {"pears": "2"}


async def test_apply_creates_object_and_owns_only_its_fields(client: Client, api: Api, namespace: str):
    key = ObjectKey(namespace, "applied")
    one, other = client.with_manager("one"), client.with_manager("other")
    await one.apply(CONFIG_MAPS, key, a_config_map("applied", apples="1", pears="1"), ConfigMap)
    await other.apply(CONFIG_MAPS, key, a_config_map("applied", plums="3"), ConfigMap)

    after = await one.apply(CONFIG_MAPS, key, a_config_map("applied", apples="2"), ConfigMap)

    assert after.data == {"apples": "2", "plums": "3"}, "fields of another manager changed"
    seen = await api.get(f"/api/v1/namespaces/{namespace}/configmaps/applied")
    assert {entry["manager"] for entry in seen["metadata"]["managedFields"]} == {"one", "other"}


async def test_apply_without_force_conflicts_on_fields_of_other_manager(client: Client, basket: ConfigMap):
    body = a_config_map("basket", apples="9")

    with pytest.raises(Conflict) as caught:
        await client.with_manager("late").apply(CONFIG_MAPS, basket.key, body, ConfigMap, force=False)

    assert [cause.field for cause in caught.value.causes] == [".data.apples"]


async def test_apply_with_other_uid_neither_changes_nor_creates_object(client, basket):
    body = a_config_map("basket", apples="9")
    body["metadata"]["uid"] = ANOTHER_UID

    with pytest.raises(Invalid) as caught:
        await client.apply(CONFIG_MAPS, basket.key, body, ConfigMap)
    assert {cause.field for cause in caught.value.causes} == {"metadata.uid"}  # 1.36 says it twice

    await client.delete(CONFIG_MAPS, basket.key)
    with pytest.raises(Conflict):
        await client.apply(CONFIG_MAPS, basket.key, body, ConfigMap)


async def test_merge_patch_changes_only_given_fields(client: Client, basket: ConfigMap):
    body = {"data": {"apples": None, "pears": "2"}}

    assert (await client.patch(CONFIG_MAPS, basket.key, body, ConfigMap)).data == {"pears": "2"}


async def test_json_patch_with_failed_test_changes_nothing(client: Client, basket: ConfigMap):
    def to(old: str, new: str) -> list[dict[str, str]]:
        return [
            {"op": "test", "path": "/data/apples", "value": old},
            {"op": "replace", "path": "/data/apples", "value": new},
        ]

    done = await client.patch(CONFIG_MAPS, basket.key, to("1", "5"), ConfigMap, content_type=JSON)
    assert done.data == {"apples": "5"}

    with pytest.raises(Invalid):
        await client.patch(CONFIG_MAPS, basket.key, to("1", "6"), ConfigMap, content_type=JSON)


PRECONDITIONS = {
    "another uid": {"uid": ANOTHER_UID},
    "an older version": {"resource_version": "1"},
}


@pytest.mark.parametrize("precondition", PRECONDITIONS.values(), ids=PRECONDITIONS)
async def test_delete_with_failed_precondition_deletes_nothing(client, basket, precondition):
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, basket.key, **precondition)

    assert await client.get(CONFIG_MAPS, basket.key, ConfigMap) == basket


async def test_delete_with_matching_preconditions_deletes(client: Client, basket: ConfigMap):
    meta = basket.metadata

    await client.delete(
        CONFIG_MAPS,
        basket.key,
        uid=meta.uid,
        resource_version=meta.resource_version,
        propagation="Background",
        grace_seconds=0,
    )

    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, basket.key, ConfigMap)


@pytest.fixture
async def pod(client: Client, api: Api, namespace: str) -> Pod:
    """A pod without a node whose status says running and ready."""
    await eventually(lambda: api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"))
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "basket", "labels": {"app": "basket"}},
        # No such scheduler exists, so only the test changes the pod.
        "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "quintet.local/none:1"}]},
    }
    made = await client.create(PODS, body, Pod, namespace=namespace)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await client.patch(PODS, made.key, {"status": status}, Pod, subresource="status")


async def test_status_subresource_changes_only_status_and_metadata(client: Client, pod: Pod):
    body = {"metadata": {"labels": {"app": "changed"}}, "status": {"phase": "Failed"}}

    patched = await client.patch(PODS, pod.key, body, Pod, subresource="status")
    assert (patched.status.phase, patched.metadata.labels) == ("Failed", {"app": "changed"})

    whole = await client.get(PODS, pod.key, dict)
    whole["status"]["phase"], whole["spec"]["priority"] = "Running", 7
    replaced = await client.replace(PODS, pod.key, whole, Pod, subresource="status")
    assert (replaced.status.phase, replaced.spec) == ("Running", pod.spec)

    status = {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}}
    applied = await client.apply(PODS, pod.key, status, Pod, subresource="status")
    assert applied.status.phase == "Succeeded"


async def test_eviction_is_rejected_until_disruption_budget_allows_it(client: Client, pod: Pod):
    budget = ObjectKey(pod.key.namespace, "basket")
    body = {
        "apiVersion": BUDGETS.api_version,
        "kind": BUDGETS.kind,
        "metadata": {"name": budget.name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "basket"}}},
    }
    await client.create(BUDGETS, body, Budget, namespace=budget.namespace)

    async def assert_counted() -> None:
        found = await client.get(BUDGETS, budget, Budget)
        assert found.status.current_healthy == 1, found

    await eventually(assert_counted)

    with pytest.raises(TooManyRequests) as caught:
        await client.evict(pod.key)
    assert [cause.reason for cause in caught.value.causes] == ["DisruptionBudget"]

    await client.delete(BUDGETS, budget)
    with pytest.raises(Conflict):
        await client.evict(pod.key, uid=ANOTHER_UID)
    await client.evict(pod.key, uid=pod.metadata.uid, grace_seconds=0)
    with pytest.raises(NotFound):
        await client.get(PODS, pod.key, Pod)


async def decode_events(batches: AsyncIterator[list[bytes]]) -> AsyncIterator[WatchEvent]:
    async for lines in batches:
        for line in lines:
            yield decode_watch_event(line)


def named(event: WatchEvent) -> tuple[str, str]:
    return event.type, msgspec.json.decode(event.object, type=Object).metadata.name


async def test_watch_returns_every_change_since_resource_version(client: Client, basket: ConfigMap):
    key = basket.key
    async with client.watch(
        CONFIG_MAPS,
        namespace=key.namespace,
        fields="metadata.name=basket",
        resource_version=basket.metadata.resource_version,
    ) as batches:
        seen = decode_events(batches)
        await client.patch(CONFIG_MAPS, key, {"data": {"apples": "2"}}, ConfigMap)
        await client.delete(CONFIG_MAPS, key)
        assert [named(await anext(seen)) for _ in range(2)] == [("MODIFIED", "basket"), ("DELETED", "basket")]


async def test_watch_with_initial_events_sends_list_and_bookmark_first(client, namespace):
    for name in ("one", "two"):
        body = a_config_map(name)
        body["metadata"]["labels"] = {"of": "watch"}
        await client.create(CONFIG_MAPS, body, ConfigMap, namespace=namespace)

    async with client.watch(
        CONFIG_MAPS, namespace=namespace, labels="of=watch", initial_events=True
    ) as batches:
        seen = decode_events(batches)
        first = [await anext(seen) for _ in range(3)]
        await client.patch(CONFIG_MAPS, ObjectKey(namespace, "two"), {"data": {"a": "1"}}, ConfigMap)
        later = await anext(seen)

    assert sorted(map(named, first)) == [("ADDED", "one"), ("ADDED", "two"), ("BOOKMARK", "")]
    mark = msgspec.json.decode(first[2].object, type=Object).metadata
    assert mark.annotations == {"k8s.io/initial-events-end": "true"}
    assert named(later) == ("MODIFIED", "two")


async def test_watch_ends_after_requested_timeout(client: Client, basket: ConfigMap):
    version = basket.metadata.resource_version
    async with client.watch(
        CONFIG_MAPS, namespace=basket.key.namespace, resource_version=version, timeout=1.0
    ) as batches:
        kinds = {event.type async for event in decode_events(batches)}

    assert kinds <= {"ADDED", "MODIFIED", "BOOKMARK"}


async def test_watch_line_over_one_mebibyte_arrives_complete(client: Client, namespace: str):
    text = '"' * 1_000_000  # each takes two bytes in JSON and one in etcd, which has a limit
    made = await client.create(CONFIG_MAPS, a_config_map("big", text=text), ConfigMap, namespace=namespace)

    async with client.watch(
        CONFIG_MAPS, namespace=namespace, fields="metadata.name=big", initial_events=True
    ) as batches:
        event = await anext(decode_events(batches))

    assert len(event.object) > 1024 * 1024
    assert msgspec.json.decode(event.object, type=ConfigMap) == made
