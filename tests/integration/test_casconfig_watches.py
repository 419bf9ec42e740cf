"""Watches of a CASConfig's targets on a real API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.cluster.api import Api
from kit.cluster.client import connect
from kit.cluster.objects import a_configmap
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.casconfigs import CONFIG_MAPS, DEPLOYMENTS, a_deployment, bind, create_service_account
from quintet.apis.meta import ObjectKey, Resource
from quintet.clock import SystemClock
from quintet.controllers.casconfig.watches import Watches, WatchScope
from quintet.kube.errors import Forbidden, NotFound
from quintet.runtime.queue import WorkQueue
from quintet.runtime.watch import WatchTimeouts

QUICK = WatchTimeouts(first_retry=0.05, last_retry=0.2)
ONE, OTHER = ObjectKey("shop", "one"), ObjectKey("shop", "other")


class Stage:
    """Watches and the keys that they enqueued."""

    def __init__(self, client, namespace: str) -> None:
        self.queue = WorkQueue("test", SystemClock())
        self.watches = Watches(client, SystemClock(), self.queue, QUICK)
        self.account = ObjectKey(namespace, "casconfig")
        self.namespace = namespace

    def place(self, resource: Resource, *, whole: bool = True, name: str = "") -> WatchScope:
        return WatchScope(self.account, resource, self.namespace, whole, name)

    async def woken(self) -> ObjectKey:
        async with asyncio.timeout(30):
            key = await self.queue.get()
        self.queue.done(key)
        return key

    async def calm(self) -> None:
        """Assert that no key is enqueued."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                raise AssertionError(f"{await self.queue.get()} was woken")


@pytest.fixture
async def stage(proxy: FaultProxy, api: Api, namespace: str, tmp_path) -> AsyncIterator[Stage]:
    # Kubernetes creates a ConfigMap in every namespace at some time; wait for it before the test.
    await eventually(
        lambda: api.get(f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt"), within=60
    )
    async with connect(proxy.write_kubeconfig(tmp_path)) as client:
        stage = Stage(client, namespace)
        running = asyncio.create_task(stage.watches.run())
        yield stage
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def find_watches(proxy: FaultProxy, resource: str) -> list[Any]:
    return [each for each in proxy.trace if (each.request.verb, each.request.resource) == ("watch", resource)]


async def test_config_is_enqueued_after_first_list_and_after_every_change(stage: Stage, api, namespace):
    await create_service_account(api, namespace)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, a_configmap("first", a="1"))
    place = stage.place(CONFIG_MAPS)
    sight = stage.watches.set_scopes(ONE, [place])[place]
    assert await stage.woken() == ONE
    assert sight.ready
    assert "first" in {each.key.name for each in sight.store}
    await api.create(path, a_configmap("second", a="1"))
    assert await stage.woken() == ONE
    await api.delete(f"{path}/second")
    assert await stage.woken() == ONE


async def test_status_change_does_not_enqueue_config(stage: Stage, api, namespace):
    await create_service_account(api, namespace)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    # A paused one: its controller writes nothing but its status.
    await api.create(path, a_deployment("web", paused=True))
    place = stage.place(DEPLOYMENTS)
    sight = stage.watches.set_scopes(ONE, [place])[place]
    await stage.woken()
    before = sight.store.get(ObjectKey(namespace, "web")).version
    await api.merge(f"{path}/web/status", {"status": {"collisionCount": 3}})

    def assert_seen() -> None:
        assert sight.store.get(ObjectKey(namespace, "web")).version > before

    await eventually(assert_seen)
    await stage.calm()


async def test_two_configs_share_one_watch_that_ends_with_the_last_config(
    stage: Stage, proxy: FaultProxy, api, namespace
):
    await create_service_account(api, namespace)
    place = stage.place(CONFIG_MAPS)
    first = stage.watches.set_scopes(ONE, [place])[place]
    await stage.woken()
    assert stage.watches.set_scopes(OTHER, [place])[place] is first
    assert len(find_watches(proxy, "configmaps")) == 1
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, a_configmap("news", a="1"))
    assert {await stage.woken(), await stage.woken()} == {ONE, OTHER}
    stage.watches.set_scopes(ONE, ())
    await api.create(path, a_configmap("more", a="1"))
    assert await stage.woken() == OTHER
    stage.watches.set_scopes(OTHER, ())
    assert len(stage.watches) == 0

    def assert_ended() -> None:
        assert first.task is not None
        assert first.task.done()

    await eventually(assert_ended)
    await api.create(path, a_configmap("late", a="1"))
    await stage.calm()


async def test_metadata_only_watch_receives_partial_objects(stage: Stage, api, namespace):
    await create_service_account(api, namespace)
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", a_configmap("big", text="x" * 10_000))
    place = stage.place(CONFIG_MAPS, whole=False)
    sight = stage.watches.set_scopes(ONE, [place])[place]
    await stage.woken()
    found = sight.store.get(ObjectKey(namespace, "big"))
    assert len(found.body) < 1000
    assert found.decode()["metadata"]["labels"] == {"made-by": "test"}
    assert found.decode()["kind"] == "ConfigMap"


async def test_watch_of_one_name_receives_only_that_object(stage: Stage, api, namespace):
    await create_service_account(api, namespace)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    place = stage.place(CONFIG_MAPS, name="wanted")
    sight = stage.watches.set_scopes(ONE, [place])[place]
    await stage.woken()
    assert len(sight.store) == 0
    await api.create(path, a_configmap("unwanted", a="1"))
    await stage.calm()
    await api.create(path, a_configmap("wanted", a="1"))
    assert await stage.woken() == ONE
    assert [each.key.name for each in sight.store] == ["wanted"]


async def test_forbidden_watch_is_reported_and_starts_after_role_binding(stage: Stage, api, namespace):
    place = stage.place(CONFIG_MAPS)
    sight = stage.watches.set_scopes(ONE, [place])[place]
    assert await stage.woken() == ONE
    assert isinstance(sight.error, Forbidden)
    assert not sight.ready
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    await bind(api, namespace, rule)
    assert await stage.woken() == ONE
    while not sight.ready:  # a binding applied before its role causes another error
        assert await stage.woken() == ONE


async def test_watch_of_type_that_is_not_served_is_reported(stage: Stage, api, namespace):
    place = stage.place(Resource("none.quintet.dev", "v1", "Nothing", "nothings"))
    rule = {"apiGroups": ["none.quintet.dev"], "resources": ["nothings"], "verbs": ["list", "watch"]}
    await bind(api, namespace, rule)
    sight = stage.watches.set_scopes(ONE, [place])[place]
    await stage.woken()

    def assert_failed() -> None:
        assert isinstance(sight.error, NotFound), sight.error

    await eventually(assert_failed)


async def test_written_object_is_known_before_its_watch_event(stage: Stage, api, namespace):
    await create_service_account(api, namespace)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, a_configmap("mine", a="1"))
    place = stage.place(CONFIG_MAPS)
    stage.watches.set_scopes(ONE, [place])
    await stage.woken()
    key = ObjectKey(namespace, "mine")
    answer = await api.merge(f"{path}/mine", {"data": {"a": "2"}})
    stage.watches.record_write(place, answer)
    known = stage.watches.known(place, key)
    assert known is not None
    assert known.version >= int(answer["metadata"]["resourceVersion"])
    assert known.decode()["data"] == {"a": "2"}


async def test_late_write_response_does_not_restore_deleted_object(stage: Stage, api, namespace):
    await create_service_account(api, namespace)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    place = stage.place(CONFIG_MAPS)
    stage.watches.set_scopes(ONE, [place])
    await stage.woken()
    answer = await api.create(path, a_configmap("brief", a="1"))
    await api.delete(f"{path}/brief")
    await api.create(path, a_configmap("after", a="1"))
    key = ObjectKey(namespace, "brief")

    def assert_passed() -> None:
        assert stage.watches.known(place, ObjectKey(namespace, "after")) is not None

    await eventually(assert_passed)
    stage.watches.record_write(place, answer)
    assert stage.watches.known(place, key) is None
