"""What users do with an object of each kind: create, change, scale, disturb and delete it.

A step only acts. What it leads to is not written here: the run without faults shows it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from kit.background import run_in_background
from kit.cluster.api import Api, JsonObject
from kit.cluster.simulated_node import SimulatedNode
from kit.kinds import casconfigs, checkups, eventingbackends, statefulclusters
from kit.kinds.checkups import PASSED, SimulatedPod, list_pods
from kit.kinds.jsonservers import a_jsonserver
from kit.nats.server import NatsServer
from quintet.apis.casconfig import CASCONFIGS
from quintet.apis.checkup import CHECKUPS
from quintet.apis.eventingbackend import EVENTINGBACKENDS
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import ObjectKey, Resource
from quintet.apis.statefulcluster import STATEFULCLUSTERS
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.controllers.checkup.decide import desired as checkup_desired
from quintet.kube.client import Client
from quintet.kube.errors import KubeError
from quintet.nats.errors import StreamNotFound

DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
PODS = "/api/v1/namespaces/{}/pods"


@dataclass(slots=True)
class Stage:
    """Where a story takes place: a namespace, and what else its steps need."""

    api: Api
    client: Client
    nats: NatsServer
    namespace: str

    async def create(self, resource: Resource, body: JsonObject) -> None:
        await self.api.create(resource.path(self.namespace), body)

    async def change(self, resource: Resource, name: str, **spec: Any) -> None:
        await self.api.merge(resource.path(self.namespace, name), {"spec": spec})

    async def delete(self, resource: Resource, name: str) -> None:
        await self.api.delete(resource.path(self.namespace, name))

    def path(self, template: str, name: str = "") -> str:
        return template.format(self.namespace) + (f"/{name}" if name else "")


Act = Callable[[Stage], Awaitable[object]]


@contextlib.asynccontextmanager
async def nothing_else(stage: Stage) -> AsyncIterator[None]:
    """Return a surrounding without a node: pods stay pending."""
    yield


async def _nothing_more(stage: Stage) -> list[str]:
    return []


@dataclass(frozen=True)
class Story:
    """The life of an object, step by step, and what surrounds it."""

    name: str
    controller: str
    subjects: tuple[tuple[Resource, str], ...]
    """The objects whose status must speak of every change."""
    steps: dict[str, Act]
    surrounding: Callable[[Stage], AbstractAsyncContextManager[None]] = nothing_else
    random_names: tuple[str, ...] = ()
    """Patterns of names that the controller draws."""
    read_more: Callable[[Stage], Awaitable[list[str]]] = _nothing_more
    """What the controller keeps outside of the API server, as lines."""


def _jsonserver() -> Story:
    name = "app-books"

    async def delete_child(stage: Stage) -> None:
        await stage.api.delete(stage.path(DEPLOYMENTS, name))

    async def change_child(stage: Stage) -> None:
        await stage.api.merge(stage.path(DEPLOYMENTS, name), {"spec": {"replicas": 7}})

    return Story(
        "jsonserver",
        "jsonserver",
        ((JSONSERVERS, name),),
        {
            "create": lambda stage: stage.create(JSONSERVERS, a_jsonserver(name)),
            "change the data": lambda stage: stage.change(JSONSERVERS, name, jsonConfig='{"books": []}'),
            "scale": lambda stage: stage.change(JSONSERVERS, name, replicas=2),
            "delete a child": delete_child,
            "change a child": change_child,
            "delete": lambda stage: stage.delete(JSONSERVERS, name),
        },
    )


def _checkup() -> Story:
    name = "echo"

    async def create(stage: Stage) -> None:
        await checkups.create(stage.client, stage.namespace, name)

    async def rerun(stage: Stage) -> None:
        annotations = {"kiagnose.io/rerun": "1"}
        await stage.api.merge(
            CHECKUPS.path(stage.namespace, name), {"metadata": {"annotations": annotations}}
        )

    @contextlib.asynccontextmanager
    async def passing_pods(stage: Stage) -> AsyncIterator[None]:
        await checkups.create_service_account(stage.client, stage.namespace)
        async with run_in_background(_let_checkups_pass(stage)):
            yield

    return Story(
        "checkup",
        "checkup",
        ((CHECKUPS, name),),
        {"create": create, "rerun": rerun, "delete": lambda stage: stage.delete(CHECKUPS, name)},
        passing_pods,
        (r"echo-[0-9a-z-]+\b",),
    )


async def _let_checkups_pass(stage: Stage) -> None:
    """Do the work of node and checkup."""
    played = set[str]()
    while True:
        for pod in await list_pods(stage.client, stage.namespace):
            if pod.metadata.uid in played or pod.metadata.deleting:
                continue
            with contextlib.suppress(KubeError):
                job = next(owner.name for owner in pod.metadata.owner_references if owner.controller)
                results = ObjectKey(stage.namespace, job)
                await stage.client.patch(
                    checkup_desired.CONFIG_MAPS, results, {"data": PASSED}, dict[str, Any]
                )
                await SimulatedPod(stage.client, pod.key).terminate()
                played.add(pod.metadata.uid)
        await asyncio.sleep(0.1)


def _casconfig() -> Story:
    name = "shipping"
    policies = [
        casconfigs.a_policy(envs={"X": "1"}, labels={"x": "1"}, sidecars=[{"name": "s", "image": "s:1"}])
    ]
    edited = [casconfigs.a_policy(envs={"X": "2", "Y": "1"}, labels={"x": "1"})]

    async def edit_target(stage: Stage) -> None:
        await stage.api.merge(stage.path(DEPLOYMENTS, "a"), {"metadata": {"labels": {"team": "shop"}}})

    async def add_target(stage: Stage) -> None:
        await stage.api.create(stage.path(DEPLOYMENTS), casconfigs.a_deployment("c"))

    @contextlib.asynccontextmanager
    async def two_targets(stage: Stage) -> AsyncIterator[None]:
        await casconfigs.create_service_account(stage.api, stage.namespace)
        for each in ("a", "b"):
            await stage.api.create(stage.path(DEPLOYMENTS), casconfigs.a_deployment(each))
        yield

    return Story(
        "casconfig",
        "casconfig",
        ((CASCONFIGS, name),),
        {
            "create": lambda stage: stage.create(CASCONFIGS, casconfigs.a_config(name, *policies)),
            "edit": lambda stage: stage.change(CASCONFIGS, name, policies=edited),
            "somebody edits a target": edit_target,
            "another target": add_target,
            "delete": lambda stage: stage.delete(CASCONFIGS, name),
        },
        two_targets,
    )


def _statefulcluster() -> Story:
    name = "web"
    retention = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    first = statefulclusters.a_cluster(
        name, replicas=2, claims=("data",), persistentVolumeClaimRetentionPolicy=retention
    )
    template = statefulclusters.a_cluster(name, image="web:2")["spec"]["template"]

    async def delete_pod(stage: Stage) -> None:
        pods = (await stage.api.get(stage.path(PODS)))["items"]
        await stage.api.delete(stage.path(PODS, min(each["metadata"]["name"] for each in pods)))

    @contextlib.asynccontextmanager
    async def a_node(stage: Stage) -> AsyncIterator[None]:
        async with SimulatedNode(stage.api, namespace=stage.namespace).running():
            yield

    return Story(
        "statefulcluster",
        "statefulcluster",
        ((STATEFULCLUSTERS, name),),
        {
            "create": lambda stage: stage.create(STATEFULCLUSTERS, first),
            "update": lambda stage: stage.change(STATEFULCLUSTERS, name, template=template),
            "lose a pod": delete_pod,
            "scale up": lambda stage: stage.change(STATEFULCLUSTERS, name, replicas=3),
            "scale down": lambda stage: stage.change(STATEFULCLUSTERS, name, replicas=1),
            "delete": lambda stage: stage.delete(STATEFULCLUSTERS, name),
        },
        a_node,
        (rf"\b(data-)?{name}-[a-z0-9-]+\b", r'(?<=claim-group": ")[a-z0-9]+'),
    )


def _eventing() -> Story:
    backend, subscription = "bus", "orders"

    def config(stage: Stage, **more: Any) -> list[JsonObject]:
        places = {
            "url": stage.nats.url,
            "streamName": stage.namespace,
            "streamSubjectPrefix": stage.namespace,
        }
        small = {"maxBytes": "1Mi", "publisherReplicas": 1, "dispatcherReplicas": 1}
        return eventingbackends.config_of(**places, **small, **more)

    async def create(stage: Stage) -> None:
        body = eventingbackends.a_backend(backend)
        await stage.create(EVENTINGBACKENDS, {**body, "spec": {"type": "nats", "config": config(stage)}})

    async def subscribe(stage: Stage) -> None:
        await eventingbackends.create_subscription(stage.client, stage.namespace, subscription, backend)

    async def change(stage: Stage) -> None:
        await stage.change(EVENTINGBACKENDS, backend, config=config(stage, publisherRequestTimeout="9s"))

    async def change_subscription(stage: Stage) -> None:
        await stage.change(SUBSCRIPTIONS, subscription, config={"maxInFlightMessages": 3})

    async def delete_child(stage: Stage) -> None:
        await stage.api.delete(stage.path(DEPLOYMENTS, f"{backend}-publisher-proxy"))

    @contextlib.asynccontextmanager
    async def a_node(stage: Stage) -> AsyncIterator[None]:
        async with SimulatedNode(stage.api, namespace=stage.namespace).running():
            yield

    return Story(
        "eventing",
        "eventing",
        ((EVENTINGBACKENDS, backend), (SUBSCRIPTIONS, subscription)),
        {
            "create a backend": create,
            "subscribe": subscribe,
            "change the backend": change,
            "change the subscription": change_subscription,
            "delete a child": delete_child,
            "delete the subscription": lambda stage: stage.delete(SUBSCRIPTIONS, subscription),
            "delete the backend": lambda stage: stage.delete(EVENTINGBACKENDS, backend),
        },
        a_node,
        read_more=_read_streams,
    )


async def _read_streams(stage: Stage) -> list[str]:
    """Return the stream of the backend, and its consumers."""
    async with eventingbackends.connect_jetstream(stage.nats.url) as jetstream:
        try:
            stream = (await jetstream.stream_info(stage.namespace)).config
        except StreamNotFound:
            return []
        found = [f"stream {stream.subjects} {stream.max_bytes}"]
        for consumer in await jetstream.consumers(stage.namespace):
            assert consumer.config is not None
            found.append(f"consumer {consumer.config.filter_subjects} {consumer.config.max_ack_pending}")
        return [line.replace(stage.namespace, "NAMESPACE") for line in sorted(found)]


STORIES = {
    story.name: story for story in (_jsonserver(), _checkup(), _casconfig(), _statefulcluster(), _eventing())
}
