"""EventingBackends on a real API server and real NATS servers: their operator, and how to look at them.

Pods are made ready by `kit.cluster.simulated_node.SimulatedNode`: what runs in them is tested elsewhere. A `Witness`
stands between operator and API server and holds every status that claims to be ready against the truth.
"""

import asyncio
import base64
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from aiohttp import web

from kit.clock import FastClock
from kit.cluster.access_reviews import account as account_of
from kit.cluster.access_reviews import review
from kit.cluster.service_accounts import TESTED, binding, offered
from kit.cluster.service_accounts import context as context_of
from kit.eventually import NotInTimeError, eventually
from kit.faults.proxy import FaultProxy, matching
from kit.kinds.controllers import define
from quintet.apis.eventingbackend import (
    EVENTINGBACKEND,
    EVENTINGBACKENDS,
    EventingBackend,
    addresses,
)
from quintet.apis.meta import Condition, JsonObject, Object, ObjectKey, Resource, find_condition
from quintet.apis.subscription import SUBSCRIPTION, SUBSCRIPTIONS
from quintet.clock import SystemClock
from quintet.controllers.eventingbackend import controller
from quintet.controllers.eventingbackend.decide import desired, server
from quintet.controllers.eventingbackend.drivers.secrets import ROLE, SECRETS
from quintet.controllers.eventingbackend.options import Options
from quintet.controllers.eventingbackend.probing import Timing
from quintet.eventing.children import child_name
from quintet.eventing.sessions import Sessions
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.transport import Transport
from quintet.nats.client import Client as NatsClient
from quintet.nats.errors import NatsError
from quintet.nats.jetstream import JetStream
from quintet.nats.options import Options as NatsOptions
from quintet.runtime.manager import Manager
from quintet.web import listening

if TYPE_CHECKING:
    from kit.faults.proxy.call import Call

PODS = Resource("", "v1", "Pod", "pods")
REVIEWS = Resource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False)
CONTEXT = context_of("eventing")
IMAGE, NATS_IMAGE = "quintet.local/quintet:test", "quintet.local/nats:test"
LOOPBACK = addresses.Limits.of(allowed=["127.0.0.0/8"])
QUICK = Timing(while_ready=1.0, first_retry=0.1, last_retry=0.5, while_moving=0.2)
CHILD_TYPES = (
    desired.DEPLOYMENTS,
    desired.SERVICES,
    desired.SERVICE_ACCOUNTS,
    desired.ROLES,
    desired.ROLE_BINDINGS,
    desired.BUDGETS,
    server.STATEFUL_SETS,
    server.NETWORK_POLICIES,
)


async def install(client: Client) -> None:
    """Make the API server serve both kinds."""
    await define(client, EVENTINGBACKEND, SUBSCRIPTION)


def a_backend(name: str, type: str = "nats", **entries: Any) -> JsonObject:
    return {
        "apiVersion": EVENTINGBACKENDS.api_version,
        "kind": EVENTINGBACKENDS.kind,
        "metadata": {"name": name},
        "spec": {"type": type, "config": config_of(**entries)},
    }


def config_of(**entries: Any) -> list[JsonObject]:
    """A list of maps with one key each."""
    return [{name: value} for name, value in entries.items()]


async def create(client: Client, namespace: str, name: str, type: str = "nats", **entries: Any) -> ObjectKey:
    await client.create(EVENTINGBACKENDS, a_backend(name, type, **entries), Object, namespace=namespace)
    return ObjectKey(namespace, name)


async def change(client: Client, key: ObjectKey, type: str = "nats", **entries: Any) -> None:
    body = {"spec": {"type": type, "config": config_of(**entries)}}
    await client.patch(EVENTINGBACKENDS, key, body, Object)


async def may_read_secrets(client: Client, namespace: str) -> None:
    """Allow the operator what it has no right to by itself, as an administrator of the namespace would."""
    role = offered(ROLE)
    body = binding(role, CONTEXT, namespace)
    await client.apply(desired.ROLE_BINDINGS, ObjectKey(namespace, role), body, Object)
    question = review(account_of(TESTED.namespace, CONTEXT), "get", "secrets", namespace=namespace)

    async def in_force() -> None:
        answer = await client.create(REVIEWS, question, dict[str, Any])
        assert answer["status"]["allowed"], f"not yet: {question['spec']}"

    await eventually(in_force)


async def a_secret(client: Client, namespace: str, name: str, /, **data: str) -> None:
    """Make a Secret that the operator may read, or give it other data."""
    await may_read_secrets(client, namespace)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "data": {
            key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()
        },
    }
    await client.apply(SECRETS, ObjectKey(namespace, name), body, Object)


async def a_subscription(client: Client, namespace: str, name: str, backend: str = "") -> ObjectKey:
    spec = {
        "sink": f"http://orders.{namespace}.svc.cluster.local:8080/events",
        "source": "commerce",
        "types": ["order.created.v1"],
        "backend": backend,
    }
    body = {
        "apiVersion": SUBSCRIPTIONS.api_version,
        "kind": SUBSCRIPTIONS.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    await client.create(SUBSCRIPTIONS, body, Object, namespace=namespace)
    return ObjectKey(namespace, name)


class Operator(NamedTuple):
    """What a test may want of a running operator."""

    clock: FastClock
    """Of its reconciliations; connections to servers keep real time."""
    sessions: Sessions


@contextlib.asynccontextmanager
async def an_operator(
    kubeconfig: Path,
    *,
    limits: addresses.Limits = LOOPBACK,
    timing: Timing = QUICK,
    account: str = "quintet-system:quintet",
    context: str | None = CONTEXT,
    **options: Any,
) -> AsyncIterator[Operator]:
    """An operator in this process, stopped on the way out."""
    made = Options(image=IMAGE, nats_image=NATS_IMAGE, limits=limits, timing=timing, account=account)
    async with Transport(config.load(str(kubeconfig), context)) as transport:
        clock = FastClock()
        manager = Manager(Client(transport), clock, f"test-{secrets.token_hex(3)}", **options)
        sessions = Sessions(SystemClock())
        controller.build(manager, options=made, sessions=sessions)
        task = asyncio.create_task(manager.run())
        try:
            await manager.synced()
            yield Operator(clock, sessions)
        finally:
            manager.stop()
            await task
            await sessions.close()


async def get(client: Client, key: ObjectKey) -> EventingBackend:
    return await client.get(EVENTINGBACKENDS, key, EventingBackend)


def condition(backend: EventingBackend, type_: str = "Backend Ready") -> Condition:
    found = find_condition(backend.status.conditions, type_)
    assert found is not None, backend.status
    return found


async def ready(client: Client, key: ObjectKey, *, within: float = 120.0) -> EventingBackend:
    """The backend, once every part of it is ready for its present spec."""

    async def probe() -> EventingBackend:
        backend = await get(client, key)
        assert backend.status.observed_generation == backend.metadata.generation, backend.status
        assert backend.status.eventing_ready, [
            (each.type, each.reason, each.message) for each in backend.status.conditions
        ]
        return backend

    try:
        return await eventually(probe, within=within)
    except NotInTimeError as error:
        raise AssertionError(f"{error}\n{await situation(client, key.namespace)}") from error


async def says(
    client: Client, key: ObjectKey, reason: str, *, within: float = 120.0, type_: str = "Backend Ready"
) -> Condition:
    """The condition, once it speaks of the present spec and gives this reason."""

    async def probe() -> Condition:
        backend = await get(client, key)
        assert backend.status.observed_generation == backend.metadata.generation, backend.status
        found = condition(backend, type_)
        assert found.reason == reason, found
        return found

    return await eventually(probe, within=within)


async def children(client: Client, namespace: str) -> dict[tuple[str, str], JsonObject]:
    """All objects that were made for backends of a namespace, by kind and name."""
    found: dict[tuple[str, str], JsonObject] = {}
    for resource in CHILD_TYPES:
        async for page in client.pages(resource, namespace=namespace, labels=desired.SELECTOR):
            for raw in page.items:
                body = msgspec.json.decode(raw)
                found[resource.kind, body["metadata"]["name"]] = body
    return found


async def situation(client: Client, namespace: str) -> str:
    """What a person would look at first when pods are not there."""
    lines = [
        f"{kind} {name}: generation {body['metadata'].get('generation')} {body.get('status')}"
        for (kind, name), body in (await children(client, namespace)).items()
        if kind in ("Deployment", "StatefulSet")
    ]
    async for page in client.pages(PODS, namespace=namespace):
        for raw in page.items:
            pod = msgspec.json.decode(raw)
            lines.append(f"pod {pod['metadata']['name']}: {pod['status']}")
    return "\n".join(lines)


@contextlib.asynccontextmanager
async def jetstream_of(url: str) -> AsyncIterator[JetStream]:
    """JetStream, as somebody with a client of their own sees it."""
    async with NatsClient(NatsOptions(url, connect_seconds=60.0), SystemClock()) as connected:
        yield JetStream(connected, timeout=60.0)


@dataclass
class Witness:
    """Sees every status that the operator writes, and asks the API server whether it may say so."""

    client: Client
    proxy: FaultProxy
    lies: list[str] = field(default_factory=list)
    claims: int = 0

    def __post_init__(self) -> None:
        self.proxy.inject(self, when=matching("patch", "eventingbackends", subresource="status"), times=None)

    async def apply(self, call: "Call") -> web.StreamResponse:
        """What the proxy calls in place of a fault."""
        request, body = call.exchange.request, call.exchange.body
        if body["status"].get("eventingReady"):
            self.claims += 1
            key = ObjectKey(request.namespace, request.name)
            await self._check(key, body["status"])
            await self._check_stream(key, body["status"])
        return await call.forward()

    async def _check(self, key: ObjectKey, status: JsonObject) -> None:
        backend = await get(self.client, key)
        if status["observedGeneration"] > backend.metadata.generation:
            self.lies.append(f"{key}: speaks of a generation that is not there: {status}")
        parts = ["publisher-proxy", *(["dispatcher"] if status["backendType"] == "nats" else [])]
        for part in parts:
            where = ObjectKey(key.namespace, child_name(key.name, part))
            found = await self.client.get(desired.DEPLOYMENTS, where, dict[str, Any])
            seen = found["status"]
            counts = {seen.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
            current = seen.get("observedGeneration", 0) >= found["metadata"]["generation"]
            if not current or counts != {found["spec"]["replicas"]}:
                self.lies.append(f"{key}: {part} is not rolled out: {seen}")

    async def _check_stream(self, key: ObjectKey, status: JsonObject) -> None:
        told = {entry["name"]: entry.get("value", "") for entry in status["effectiveConfig"]}
        if status["backendType"] != "nats" or not told.get("url") or told.get("credentialsSecretRef"):
            return
        try:
            async with jetstream_of(told["url"]) as jetstream:
                found = (await jetstream.stream_info(told["streamName"])).config
        except NatsError as error:
            self.lies.append(f"{key}: the stream is not there: {error!r}")
            return
        if found.max_msgs != int(told["maxMessages"]) or found.retention != told["retentionPolicy"]:
            self.lies.append(f"{key}: the stream is otherwise: {found}")

    def assert_truth(self) -> None:
        assert self.lies == [], "\n".join(self.lies)
        assert self.claims, "nothing was ever claimed to be ready"


def statuses(proxy: FaultProxy, key: ObjectKey) -> list[JsonObject]:
    """Every status that was written for a backend, in order."""
    when = matching("patch", "eventingbackends", namespace=key.namespace, name=key.name, subresource="status")
    return [exchange.body["status"] for exchange in proxy.trace.writes(when) if exchange.status == 200]


@dataclass
class MeshDouble:
    """A test double for the token endpoint of SAP Event Mesh, which cannot run here."""

    url: str = ""
    password: str = "right"
    logins: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.logins += 1
        pair = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        if pair != f"client:{self.password}":
            return web.json_response({"error": "unauthorized"}, status=401)
        return web.json_response({"access_token": "token", "expires_in": 300})

    def secret(self, password: str = "right") -> dict[str, str]:
        """The keys of the Secret."""
        login = (
            f'{{"clientid":"client","clientsecret":"{password}",'
            f'"tokenendpoint":"{self.url}/oauth/token","granttype":"client_credentials"}}'
        )
        entry = f'{{"broker":{{"type":"saprestmgw"}},"oa2":{login},"uri":"{self.url}"}}'
        return {"messaging": f"[{entry}]", "namespace": "/default/sap.kyma/1"}


@contextlib.asynccontextmanager
async def a_mesh() -> AsyncIterator[MeshDouble]:
    double = MeshDouble()
    app = web.Application()
    app.router.add_post("/oauth/token", double.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    assert runner.server is not None
    listener = await asyncio.get_running_loop().create_server(runner.server, "127.0.0.1", 0)
    double.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield double
    finally:
        await listening.close(listener)  # an operator may be about to connect
        await runner.cleanup()


def resources(found: Iterable[tuple[str, str]]) -> set[str]:
    return {f"{kind}/{name}" for kind, name in found}
