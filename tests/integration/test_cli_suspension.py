"""`quintet suspend`, `resume` and `reconcile` for an object of every kind."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kit.cli.invoke import quintet, works
from kit.cluster.api import Api
from kit.cluster.objects import exists, wait_until_gone
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.faults.proxy import Exchange, FaultProxy
from kit.kinds import (
    casconfigs,
    checkups,
    eventingbackends,
    jsonservers,
    statefulclusters,
    subscriptions,
    suite,
)
from kit.nats.server import a_nats_server
from quintet.apis.casconfig import CASCONFIGS
from quintet.apis.checkup import CHECKUPS
from quintet.apis.checkup.types import RERUN
from quintet.apis.eventingbackend import EVENTINGBACKENDS
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.apis.steering import SUSPENDED
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.controllers.eventingbackend.probes import Timing
from quintet.controllers.jsonserver.decide.desired import DEPLOYMENTS
from quintet.controllers.subscription import controller as subscription_controller
from quintet.eventing.decide.naming import consumer_name
from quintet.kube.client import PODS, Client
from quintet.local.cluster import Cluster
from quintet.runtime.events import EVENTS

LEFT, TENDED = "app-left", "app-tended"
Doing = Callable[[ObjectKey], Awaitable[Any]]


@dataclass(frozen=True)
class Story:
    """What is told about a kind."""

    resource: Resource
    create: Callable[[str], Awaitable[ObjectKey]]
    settled: Doing
    """Waits until the controller has nothing left to do."""
    disturb: Doing
    mended: Doing
    """Asserts that it is as it should be again."""


@dataclass(frozen=True)
class Place:
    client: Client
    api: Api
    proxy: FaultProxy
    namespace: str
    folder: Path
    cluster: Cluster

    @property
    def kubeconfig(self) -> Path:
        """What the operator uses: every request is seen."""
        return self.proxy.write_kubeconfig(self.folder)


@pytest.fixture
def place(client: Client, api: Api, proxy: FaultProxy, namespace: str, tmp_path: Path, cluster: Cluster):
    return Place(client, api, proxy, namespace, tmp_path, cluster)


async def deleted_child(client: Client, resource: Resource, key: ObjectKey) -> None:
    await client.delete(resource, key)


async def assert_there(client: Client, resource: Resource, key: ObjectKey) -> None:
    assert await exists(client, resource, key), f"{resource.kind} {key} is missing"


@contextlib.asynccontextmanager
async def jsonserver(place: Place) -> AsyncIterator[Story]:
    client = place.client
    await jsonservers.install(client)

    async def create(name: str) -> ObjectKey:
        await client.create(JSONSERVERS, jsonservers.a_jsonserver(name), Object, namespace=place.namespace)
        return ObjectKey(place.namespace, name)

    async with jsonservers.jsonserver_operator(place.kubeconfig, namespace=place.namespace):
        yield Story(
            JSONSERVERS,
            create,
            lambda key: jsonservers.wait_for_state(client, key, "Synced"),
            lambda key: deleted_child(client, DEPLOYMENTS, key),
            lambda key: assert_there(client, DEPLOYMENTS, key),
        )


@contextlib.asynccontextmanager
async def checkup(place: Place) -> AsyncIterator[Story]:
    client = place.client
    await checkups.install(client)
    await checkups.create_service_account(client, place.namespace)

    async def passed(key: ObjectKey) -> None:
        await checkups.run_to_success(client, key)
        await checkups.wait_for_verdict(client, key, "Passed")

    async def again(key: ObjectKey) -> None:
        await client.patch(CHECKUPS, key, {"metadata": {"annotations": {RERUN: "again"}}}, Object)

    async def runs_again(key: ObjectKey) -> None:
        status = (await checkups.get(client, key)).status
        assert (status.run, bool(status.job_uid)) == (2, True), status

    async with checkups.an_operator(place.kubeconfig, limits=checkups.PATIENT, namespace=place.namespace):
        yield Story(
            CHECKUPS,
            lambda name: checkups.create(client, place.namespace, name),
            passed,
            again,
            runs_again,
        )


@contextlib.asynccontextmanager
async def casconfig(place: Place) -> AsyncIterator[Story]:
    client, namespace = place.client, place.namespace
    await casconfigs.install(client)
    await casconfigs.create_service_account(place.api, namespace)

    async def target(name: str) -> None:
        await client.create(DEPLOYMENTS, casconfigs.a_deployment(name), Object, namespace=namespace)

    async def create(name: str) -> ObjectKey:
        await target(f"{name}-1")
        include = {"kinds": ["Deployment"], "names": [f"{name}-*"]}
        policy = casconfigs.a_policy(include=include, labels={"tier": "gold"})
        return await casconfigs.create(client, namespace, name, policy)

    async def injected(key: ObjectKey) -> None:
        found = await client.get(DEPLOYMENTS, ObjectKey(namespace, f"{key.name}-2"), Object)
        assert found.metadata.labels.get("tier") == "gold", found.metadata.labels

    async with casconfigs.casconfig_operator(place.kubeconfig, namespace=namespace):
        yield Story(
            CASCONFIGS,
            create,
            lambda key: casconfigs.wait_until_applied(client, key, 1),
            lambda key: target(f"{key.name}-2"),
            injected,
        )


@contextlib.asynccontextmanager
async def statefulcluster(place: Place) -> AsyncIterator[Story]:
    client, namespace = place.client, place.namespace
    await statefulclusters.install(client)

    def create(name: str) -> Awaitable[ObjectKey]:
        labels = {"app": name}
        pod = {"containers": [{"name": "main", "image": "web:1"}], "terminationGracePeriodSeconds": 1}
        template = {"metadata": {"labels": labels}, "spec": pod}
        selector = {"matchLabels": labels}
        return statefulclusters.create(
            client, namespace, name=name, claims=(), selector=selector, template=template, replicas=1
        )

    async def pods(key: ObjectKey) -> list[Object]:
        pages = client.pages(PODS, namespace=namespace, labels=f"app={key.name}")
        return [msgspec.json.decode(raw, type=Object) async for page in pages for raw in page.items]

    async def kill(key: ObjectKey) -> None:
        for pod in await pods(key):
            await client.delete(PODS, pod.key, grace_seconds=0)

    async def replaced(key: ObjectKey) -> None:
        found = [pod.key.name for pod in await pods(key) if not pod.metadata.deleting]
        assert len(found) == 1, found

    async with (
        SimulatedNode(place.api, namespace=namespace).running(),
        statefulclusters.statefulcluster_operator(place.kubeconfig, namespace=namespace),
    ):
        settled = statefulclusters.wait_until_settled
        yield Story(
            statefulclusters.STATEFULCLUSTERS, create, lambda key: settled(client, key), kill, replaced
        )


@contextlib.asynccontextmanager
async def eventingbackend(place: Place) -> AsyncIterator[Story]:
    client, namespace = place.client, place.namespace
    await eventingbackends.install(client)
    await eventingbackends.allow_reading_secrets(client, namespace)

    def publisher(key: ObjectKey) -> ObjectKey:
        return ObjectKey(namespace, f"{key.name}-publisher-proxy")

    async with (
        a_nats_server(place.folder / "nats") as nats,
        SimulatedNode(place.api, namespace=namespace).running(),
        eventingbackends.an_operator(place.kubeconfig, namespace=namespace),
    ):
        yield Story(
            EVENTINGBACKENDS,
            lambda name: eventingbackends.create(
                client, namespace, name, url=nats.url, streamName=name, streamSubjectPrefix=name
            ),
            lambda key: eventingbackends.wait_until_ready(client, key),
            lambda key: deleted_child(client, DEPLOYMENTS, publisher(key)),
            lambda key: assert_there(client, DEPLOYMENTS, publisher(key)),
        )


@contextlib.asynccontextmanager
async def subscription(place: Place) -> AsyncIterator[Story]:
    client, namespace = place.client, place.namespace
    await subscriptions.install(client)
    async with (
        a_nats_server(place.folder / "nats") as nats,
        subscriptions.a_scene(client, namespace, nats, place.cluster.kubeconfig) as scene,
        subscriptions.subscription_operator(place.kubeconfig, scene),
    ):

        async def consumer(key: ObjectKey) -> str:
            return consumer_name((await client.get(SUBSCRIPTIONS, key, Object)).metadata)

        async def create(name: str) -> ObjectKey:
            return (await scene.subscribe(name)).key

        async def delete(key: ObjectKey) -> None:
            await scene.jetstream.delete_consumer(subscriptions.STREAM, await consumer(key))

        async def back(key: ObjectKey) -> None:
            names = [each.name for each in await scene.jetstream.consumers(subscriptions.STREAM)]
            assert await consumer(key) in names, names

        yield Story(
            SUBSCRIPTIONS,
            create,
            lambda key: scene.wait_for_reason(key.name, "DispatcherNotPulling"),
            delete,
            back,
        )


STORIES = [jsonserver, checkup, casconfig, statefulcluster, eventingbackend, subscription]
each_kind = pytest.mark.parametrize("telling", STORIES, ids=[each.__name__ for each in STORIES])


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody tells a controller of Subscriptions that a consumer went."""
    monkeypatch.setattr(subscription_controller, "POLL_SECONDS", 0.5)
    monkeypatch.setattr(subscription_controller, "FIRST_POLL_SECONDS", 0.5)


async def asked(place: Place, verb: str, story: Story, key: ObjectKey) -> str:
    where = ("--kubeconfig", place.cluster.kubeconfig, "-n", key.namespace)
    return await works(verb, story.resource.kind, key.name, *where)


async def said(place: Place, key: ObjectKey) -> list[str]:
    """The reasons of Events about an object that speak of suspension, in order."""
    listed = await place.api.get(EVENTS.path(key.namespace))
    found = [
        each
        for each in listed["items"]
        if each["regarding"]["name"] == key.name and each["reason"] in ("Suspended", "Resumed")
    ]
    return [each["reason"] for each in sorted(found, key=lambda each: str(each["eventTime"]))]


async def suspend(place: Place, story: Story, key: ObjectKey) -> None:
    """Suspend it, and wait until its controller has heard of that."""
    printed = await asked(place, "suspend", story, key)
    assert printed == f"{story.resource.kind.lower()}/{key.name} suspended\n"

    async def heard() -> None:
        assert await said(place, key) == ["Suspended"]

    await eventually(heard, within=120)


@each_kind
async def test_suspended_object_is_not_reconciled_until_resumed_or_deleted(telling, place: Place):
    async with telling(place) as story:
        left, tended = await story.create(LEFT), await story.create(TENDED)
        await story.settled(left)
        await story.settled(tended)
        await suspend(place, story, left)
        mark = place.proxy.trace.mark()

        await story.disturb(left)
        before = (await place.client.get(story.resource, left, Object)).metadata.resource_version
        await story.disturb(tended)
        await eventually(lambda: story.mended(tended), within=120)

        with pytest.raises(AssertionError):
            await story.mended(left)
        about = [str(each) for each in place.proxy.trace.writes(since=mark) if LEFT in f"{each} {each.body}"]
        assert about == []
        assert (await place.client.get(story.resource, left, Object)).metadata.resource_version == before

        await asked(place, "resume", story, left)
        await eventually(lambda: story.mended(left), within=120)

        async def both() -> None:
            assert await said(place, left) == ["Suspended", "Resumed"]

        await eventually(both)
        assert await said(place, tended) == []

        await suspend(place, story, tended)
        await place.client.delete(story.resource, tended)
        await wait_until_gone(place.client, story.resource, tended, within=120)


async def test_object_created_suspended_is_not_reconciled(place: Place):
    async with jsonserver(place) as story:
        body = jsonservers.a_jsonserver(LEFT)
        body["metadata"]["annotations"] = {SUSPENDED: "true"}
        await place.client.create(JSONSERVERS, body, Object, namespace=place.namespace)
        tended = await story.create(TENDED)
        await story.settled(tended)

        key = ObjectKey(place.namespace, LEFT)
        seen = await place.client.get(JSONSERVERS, key, dict[str, Any])
        assert ("status" in seen, "finalizers" in seen["metadata"]) == (False, False), seen
        assert not await exists(place.client, DEPLOYMENTS, key)

        await asked(place, "resume", story, key)
        await story.settled(key)


async def test_reconcile_makes_controller_notice_external_change(place: Place):
    """The server of a backend is asked once an hour here, so only who asks for it has a stream put back."""
    client, name = place.client, "app-left"
    await eventingbackends.install(client)
    await eventingbackends.allow_reading_secrets(client, place.namespace)
    seldom = Timing(while_ready=3600.0, first_retry=0.1, last_retry=0.5)
    async with (
        a_nats_server(place.folder / "nats") as nats,
        SimulatedNode(place.api, namespace=place.namespace).running(),
        eventingbackends.an_operator(place.kubeconfig, namespace=place.namespace, timing=seldom),
    ):
        key = await eventingbackends.create(client, place.namespace, name, url=nats.url, streamName="events")
        await eventingbackends.wait_until_ready(client, key)
        async with eventingbackends.connect_jetstream(nats.url) as jetstream:
            await jetstream.delete_stream("events")
            where = ("--kubeconfig", place.cluster.kubeconfig, "-n", place.namespace)

            assert (
                await works("reconcile", f"evb/{name}", *where)
                == f"eventingbackend/{name} reconcile requested\n"
            )

            await eventually(lambda: jetstream.stream_info("events"), within=120)


async def test_reconcile_of_suspended_object_reports_suspension(place: Place):
    await jsonservers.install(place.client)
    body = jsonservers.a_jsonserver(LEFT)
    body["metadata"]["annotations"] = {SUSPENDED: "true"}
    await place.client.create(JSONSERVERS, body, Object, namespace=place.namespace)

    said = await quintet(
        "reconcile", "js", LEFT, "--kubeconfig", place.cluster.kubeconfig, "-n", place.namespace
    )

    assert said.code == 0, said.shown
    assert "the object is suspended" in said.err


@pytest.mark.parametrize("verb", ["suspend", "resume", "reconcile"])
async def test_suspend_dry_run_changes_nothing(verb: str, place: Place):
    await jsonservers.install(place.client)
    key = ObjectKey(place.namespace, LEFT)
    await place.client.create(JSONSERVERS, jsonservers.a_jsonserver(LEFT), Object, namespace=key.namespace)
    before = (await place.client.get(JSONSERVERS, key, Object)).metadata

    where = ("--kubeconfig", place.cluster.kubeconfig, "-n", place.namespace)
    assert (await works(verb, "js", LEFT, "--dry-run", *where)).endswith(" (dry run)\n")

    assert (await place.client.get(JSONSERVERS, key, Object)).metadata == before


async def test_suspend_of_missing_object_names_next_step(place: Place):
    await jsonservers.install(place.client)
    said = await quintet(
        "suspend", "js", "app-none", "--kubeconfig", place.cluster.kubeconfig, "-n", place.namespace
    )
    assert said.code == 1, said.shown
    assert 'jsonservers.example.com "app-none" not found' in said.err
    assert "next: check the name and namespace" in said.err


def heard(exchange: Exchange) -> bool:
    """Whether the operator says that it leaves something alone: Events of before may come late."""
    asked = exchange.request
    return (asked.verb, asked.resource) == ("create", "events") and exchange.body["reason"] == "Suspended"


async def test_suspended_installation_is_not_reconciled_until_resumed(
    place: Place, simulated_node: SimulatedNode
):
    flavour = suite.a_flavour(place.namespace)
    path = DEPLOYMENTS.path(place.namespace)
    async with (
        suite.installed_operator(place.api, flavour) as token,
        suite.suite_operator(place.proxy, token, place.folder, flavour),
    ):
        await suite.apply_quintet(place.api, controllers=["checkup"])
        await suite.wait_until_settled(place.client)
        (deployment,) = await suite.list_owned(place.api, path)
        where = ("--kubeconfig", place.cluster.kubeconfig)
        await works("suspend", "quintet", "quintet", *where)
        await place.proxy.trace.wait_for(heard, since=0, within=120)
        mark = place.proxy.trace.mark()

        await place.api.delete(f"{path}/{deployment}")
        await place.proxy.quiet(1.0)

        assert [str(each) for each in place.proxy.trace.writes(since=mark)] == []
        assert await suite.list_owned(place.api, path) == []

        await works("resume", "quintet", "quintet", *where)

        async def back() -> None:
            assert await suite.list_owned(place.api, path) == [deployment]

        await eventually(back, within=120)
