"""Subscriptions on a real API server and a real NATS server, with their controller and dispatchers.

The EventingBackend is only an object with the status that its controller would write.
"""

import asyncio
import contextlib
import functools
import secrets
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from kit.cluster.api import Api
from kit.cluster.service_accounts import context, write_kubeconfig_for
from kit.eventually import eventually
from kit.kinds.controllers import install_crds, run_controllers
from kit.nats.server import NatsServer, a_nats_server
from quintet.apis.eventingbackend import (
    EVENTINGBACKEND,
    EVENTINGBACKENDS,
    NATS,
    EventingBackend,
    effective,
)
from quintet.apis.eventingbackend.addresses import NetworkLimits
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.apis.subscription import SUBSCRIPTION, SUBSCRIPTIONS, Subscription
from quintet.clock import SystemClock
from quintet.controllers.eventingbackend.decide import desired
from quintet.controllers.subscription import controller
from quintet.eventing import streams
from quintet.eventing.dispatcher.decide.retry_policy import RetryPolicy
from quintet.eventing.dispatcher.process import Dispatcher
from quintet.eventing.sessions import Sessions
from quintet.eventing.settings import DispatcherSettings, NatsSettings
from quintet.kube.client import Client
from quintet.kube.config import load
from quintet.kube.transport import Transport
from quintet.nats.client import NatsClient
from quintet.nats.jetstream import JetStream, StreamConfig
from quintet.nats.options import NatsOptions
from quintet.observe.health import HealthServer
from quintet.runtime.manager import Manager

SERVICES = Resource("", "v1", "Service", "services")
BACKEND, SERVICE = "main", "orders"
RETRY_STREAM = "sap-retry"
STREAM, DEAD_STREAM, DEAD_LETTERS = "sap", "sap-dead-letter", "dead-letter.sap"
TYPE = "order.created.v1"
SUBJECT = f"kyma.commerce.{TYPE}"
SECONDS = 20.0
"""How long the server may take for an answer to a test; who asks again and again still asks more than once."""
# Few retries with long timeouts: a sink in a test may wait for many seconds.
IMPATIENT = RetryPolicy(max_attempts=3, min_backoff=0.05, max_backoff=0.2, timeout=60.0)


async def install(client: Client) -> None:
    """Install the CRDs of EventingBackend and Subscription."""
    await install_crds(client, EVENTINGBACKEND, SUBSCRIPTION)


def headers(number: int | str, **more: str) -> dict[str, str]:
    """Return the headers of an event as the publisher proxy stores it."""
    return {
        "ce-specversion": "1.0",
        "ce-id": str(number),
        "ce-source": "commerce",
        "ce-type": TYPE,
        "content-type": "application/json",
        "Nats-Msg-Id": f"commerce/{number}/{secrets.token_hex(4)}",
        **more,
    }


@dataclass(slots=True)
class Scene:
    """A namespace with one backend, its stream and a sink."""

    client: Client
    namespace: str
    server: NatsServer
    nats: NatsClient
    sessions: Sessions
    kubeconfig: Path
    """As the account of dispatchers."""
    dispatchers: list[Dispatcher] = field(default_factory=list)

    @property
    def jetstream(self) -> JetStream:
        return JetStream(self.nats, SECONDS)

    @property
    def sink(self) -> str:
        return f"http://{self.host}:8080/events"

    @property
    def host(self) -> str:
        return f"{SERVICE}.{self.namespace}.svc.cluster.local"

    @property
    def settings(self) -> DispatcherSettings:
        return DispatcherSettings(
            namespace=self.namespace,
            backend=BACKEND,
            event_type_prefix="sap.kyma.custom",
            nats=NatsSettings(
                url=self.server.url, stream=STREAM, subject_prefix="kyma", reconnect_seconds=0.5
            ),
            max_in_flight=10,
            deliver_policy="new",
            dead_letter_subject=DEAD_LETTERS,
        )

    def key(self, name: str) -> ObjectKey:
        return ObjectKey(self.namespace, name)

    def body(self, name: str, **spec: Any) -> JsonObject:
        return {
            "apiVersion": SUBSCRIPTIONS.api_version,
            "kind": SUBSCRIPTIONS.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"sink": self.sink, "source": "commerce", "types": [TYPE], **spec},
        }

    async def subscribe(self, name: str = "orders", **spec: Any) -> Subscription:
        return await self.client.create(
            SUBSCRIPTIONS, self.body(name, **spec), Subscription, namespace=self.namespace
        )

    async def change(self, name: str, **spec: Any) -> Subscription:
        return await self.client.patch(SUBSCRIPTIONS, self.key(name), {"spec": spec}, Subscription)

    async def wait_for_reason(self, name: str, reason: str, within: float = 60.0) -> Subscription:
        """Wait until the status of the current generation has this reason, and return the Subscription."""

        async def probe() -> Subscription:
            seen = await self.client.get(SUBSCRIPTIONS, self.key(name), Subscription)
            assert seen.status.observed_generation == seen.metadata.generation, seen.status
            assert [each.reason for each in seen.status.conditions] == [reason], seen.status
            return seen

        return await eventually(probe, within=within)

    async def publish(self, *numbers: int | str, subject: str = SUBJECT, **more: str) -> None:
        for number in numbers:
            await self.jetstream.publish(subject, b'{"n":1}', headers(number, **more), SECONDS)


async def a_backend(
    client: Client, namespace: str, url: str, name: str = BACKEND, type_: str = "nats", **labels: str
) -> EventingBackend:
    """An EventingBackend with a ready status."""
    config = effective(NATS, {"url": url})
    body: JsonObject = {
        "apiVersion": EVENTINGBACKENDS.api_version,
        "kind": EVENTINGBACKENDS.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"type": type_, "config": [{"url": url}] if type_ == "nats" else [{"secretRef": "x"}]},
    }
    made = await client.create(EVENTINGBACKENDS, body, EventingBackend, namespace=namespace)
    entries = [{"name": each.name, "value": each.value, "origin": each.origin} for each in config.entries()]
    status = {
        "backendType": type_,
        "eventingReady": True,
        "observedGeneration": made.metadata.generation,
        "effectiveConfig": entries if type_ == "nats" else [],
    }
    await client.patch(EVENTINGBACKENDS, made.key, {"status": status}, Object, subresource="status")
    return made


async def create_dispatcher_service_account(
    client: Client, kubeconfig: Path, backend: EventingBackend
) -> str:
    """Create the ServiceAccount of the backend's dispatchers and return a token for it."""
    for resource, make in (
        (desired.SERVICE_ACCOUNTS, desired.account),
        (desired.ROLES, desired.role),
        (desired.ROLE_BINDINGS, desired.role_binding),
    ):
        await client.create(resource, make(backend), Object, namespace=backend.metadata.namespace)
    name = desired.account(backend)["metadata"]["name"]
    path = f"/api/v1/namespaces/{backend.metadata.namespace}/serviceaccounts/{name}/token"
    async with Api.connect(kubeconfig) as api:
        made = await api.create(path, {"spec": {"expirationSeconds": 24 * 3600}})
    return str(made["status"]["token"])


async def create_service(client: Client, namespace: str, name: str = SERVICE, **spec: Any) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"port": 8080}], **spec},
    }
    await client.create(SERVICES, body, Object, namespace=namespace)


@contextlib.asynccontextmanager
async def a_scene(
    client: Client, namespace: str, server: NatsServer, kubeconfig: Path
) -> AsyncIterator[Scene]:
    """Create a backend with its streams, a Service as the sink, and a connection for the operator."""
    clock = SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scene-")))
        options = NatsOptions(server.url, name="test", reconnect_seconds=0.5)
        nats = await stack.enter_async_context(NatsClient(options, clock))
        jetstream = JetStream(nats, SECONDS)
        await jetstream.create_stream(
            StreamConfig(name=STREAM, subjects=("kyma.>",), retention="interest", discard="new")
        )
        await jetstream.create_stream(
            StreamConfig(name=DEAD_STREAM, subjects=(DEAD_LETTERS, f"{DEAD_LETTERS}.*"))
        )
        backend = await a_backend(client, namespace, server.url)
        retries = streams.retry_config(backend, effective(NATS, {"url": server.url}))
        await jetstream.create_stream(retries)
        await jetstream.create_or_update_consumer(retries.name, streams.retry_consumer())
        await create_service(client, namespace)
        token = await create_dispatcher_service_account(client, kubeconfig, backend)
        sessions = Sessions(clock)
        await sessions.open(
            ObjectKey(namespace, BACKEND),
            NatsOptions(server.url, name="operator", reconnect_seconds=0.5),
            "1",
        )
        try:
            own = write_kubeconfig_for(token, kubeconfig, folder / "dispatcher.kubeconfig")
            yield Scene(client, namespace, server, nats, sessions, own)
        finally:
            await sessions.close()


@contextlib.asynccontextmanager
async def subscription_operator(kubeconfig: Path, scene: Scene) -> AsyncIterator[Manager]:
    """Run the Subscription controller for one namespace while inside."""
    build = functools.partial(controller.build, sessions=scene.sessions)
    who = context("eventing")
    async with run_controllers(kubeconfig, build, context=who, namespace=scene.namespace) as manager:
        yield manager


@contextlib.asynccontextmanager
async def a_dispatcher(
    scene: Scene, places: Mapping[str, tuple[str, int]], patience: RetryPolicy = IMPATIENT
) -> AsyncIterator[Dispatcher]:
    """Run a dispatcher in this process while inside, once it is ready."""
    async with (
        Transport(load(str(scene.kubeconfig))) as transport,
        _run_dispatcher(scene, Client(transport), places, patience) as dispatcher,
    ):
        yield dispatcher


@contextlib.asynccontextmanager
async def _run_dispatcher(
    scene: Scene, kube: Client, places: Mapping[str, tuple[str, int]], patience: RetryPolicy
) -> AsyncIterator[Dispatcher]:
    clock = SystemClock()
    dispatcher = Dispatcher(
        settings=msgspec.structs.replace(scene.settings, retry_policy=patience),
        kube=kube,
        clock=clock,
        identity=f"test-{secrets.token_hex(3)}",
        health=HealthServer("127.0.0.1", 0, clock),
        limits=NetworkLimits.of(),
        sink_overrides=places,
    )
    task = asyncio.create_task(dispatcher.run())

    def ready() -> None:
        assert not task.done(), task
        assert dispatcher.check_ready() is None, dispatcher.check_ready()

    try:
        await eventually(ready, within=60)
        yield dispatcher
    finally:
        dispatcher.stop()
        await task


@contextlib.asynccontextmanager
async def an_operated_scene(
    client: Client, namespace: str, kubeconfig: Path, folder: Path
) -> AsyncIterator[Scene]:
    """Run a NATS server in a folder and a Subscription controller, around a scene."""
    await install(client)
    async with (
        a_nats_server(folder / "nats") as server,
        a_scene(client, namespace, server, kubeconfig) as scene,
        subscription_operator(kubeconfig, scene),
    ):
        yield scene
