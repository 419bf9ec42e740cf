"""EventingBackends on a real API server and real NATS servers.

`kit.cluster.simulated_node.SimulatedNode` makes their pods ready. A `Witness` in the fault proxy checks every ready
status against the objects on the API server.
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
from kit.cluster.access_reviews import access_review
from kit.cluster.access_reviews import service_account_user as account_of
from kit.cluster.service_accounts import TESTED, optional_role_name, role_binding
from kit.cluster.service_accounts import context as context_of
from kit.eventually import NotInTimeError, eventually
from kit.faults.proxy import FaultProxy, matching
from kit.kinds.controllers import install_crds
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
from quintet.controllers.eventingbackend.probes import Timing
from quintet.eventing.children import child_name
from quintet.eventing.sessions import Sessions
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.transport import Transport
from quintet.nats.client import NatsClient
from quintet.nats.errors import NatsError
from quintet.nats.jetstream import JetStream
from quintet.nats.options import NatsOptions
from quintet.runtime.manager import Manager
from quintet.web.server import stop_listening

if TYPE_CHECKING:
    from kit.faults.proxy.call import Call

PODS = Resource("", "v1", "Pod", "pods")
REVIEWS = Resource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False)
CONTEXT = context_of("eventing")
IMAGE, NATS_IMAGE = "quintet.local/quintet:test", "quintet.local/nats:test"
LOOPBACK = addresses.NetworkLimits.of(allowed=["127.0.0.0/8"])
QUICK = Timing(while_ready=1.0, first_retry=0.1, last_retry=0.5, while_moving=0.2, publisher_end=1.0)
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
    """Install the CRDs of EventingBackend and Subscription."""
    await install_crds(client, EVENTINGBACKEND, SUBSCRIPTION)


def a_backend(name: str, type: str = "nats", **entries: Any) -> JsonObject:
    return {
        "apiVersion": EVENTINGBACKENDS.api_version,
        "kind": EVENTINGBACKENDS.kind,
        "metadata": {"name": name},
        "spec": {"type": type, "config": config_of(**entries)},
    }


def config_of(**entries: Any) -> list[JsonObject]:
    """Return the entries as a list of maps with one key each."""
    return [{name: value} for name, value in entries.items()]


async def create(client: Client, namespace: str, name: str, type: str = "nats", **entries: Any) -> ObjectKey:
    await client.create(EVENTINGBACKENDS, a_backend(name, type, **entries), Object, namespace=namespace)
    return ObjectKey(namespace, name)


async def update_config(client: Client, key: ObjectKey, type: str = "nats", **entries: Any) -> None:
    body = {"spec": {"type": type, "config": config_of(**entries)}}
    await client.patch(EVENTINGBACKENDS, key, body, Object)


async def allow_reading_secrets(client: Client, namespace: str) -> None:
    """Grant the operator access to Secrets, as an administrator of the namespace would."""
    role = optional_role_name(ROLE)
    body = role_binding(role, CONTEXT, namespace)
    await client.apply(desired.ROLE_BINDINGS, ObjectKey(namespace, role), body, Object)
    question = access_review(account_of(TESTED.namespace, CONTEXT), "get", "secrets", namespace=namespace)

    async def in_force() -> None:
        answer = await client.create(REVIEWS, question, dict[str, Any])
        assert answer["status"]["allowed"], f"not yet: {question['spec']}"

    await eventually(in_force)


async def create_secret(client: Client, namespace: str, name: str, /, **data: str) -> None:
    """Create or replace a Secret that the operator can read."""
    await allow_reading_secrets(client, namespace)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "data": {
            key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()
        },
    }
    await client.apply(SECRETS, ObjectKey(namespace, name), body, Object)


async def create_subscription(client: Client, namespace: str, name: str, backend: str = "") -> ObjectKey:
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
    """A running operator, as tests need it."""

    clock: FastClock
    """Of its reconciliations; connections to servers keep real time."""
    sessions: Sessions


@contextlib.asynccontextmanager
async def an_operator(
    kubeconfig: Path,
    *,
    limits: addresses.NetworkLimits = LOOPBACK,
    timing: Timing = QUICK,
    account: str = "quintet-system:quintet",
    context: str | None = CONTEXT,
    **options: Any,
) -> AsyncIterator[Operator]:
    """Run the controller in this process while inside."""
    made = Options(image=IMAGE, nats_image=NATS_IMAGE, limits=limits, timing=timing, account=account)
    async with Transport(config.load(str(kubeconfig), context)) as transport:
        clock = FastClock()
        manager = Manager(Client(transport), clock, f"test-{secrets.token_hex(3)}", **options)
        sessions = Sessions(SystemClock())
        controller.build(manager, options=made, sessions=sessions)
        task = asyncio.create_task(manager.run())
        try:
            await manager.wait_for_sync()
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


async def wait_until_ready(client: Client, key: ObjectKey, *, within: float = 120.0) -> EventingBackend:
    """Wait until every condition of the current generation is true, and return the backend."""

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
        raise AssertionError(f"{error}\n{await describe_namespace(client, key.namespace)}") from error


async def wait_for_reason(
    client: Client, key: ObjectKey, reason: str, *, within: float = 120.0, type_: str = "Backend Ready"
) -> Condition:
    """Wait for a condition of the current generation with this reason, and return it."""

    async def probe() -> Condition:
        backend = await get(client, key)
        assert backend.status.observed_generation == backend.metadata.generation, backend.status
        found = condition(backend, type_)
        assert found.reason == reason, found
        return found

    return await eventually(probe, within=within)


async def children(client: Client, namespace: str) -> dict[tuple[str, str], JsonObject]:
    """Return all owned objects of the backends in a namespace by kind and name."""
    found: dict[tuple[str, str], JsonObject] = {}
    for resource in CHILD_TYPES:
        async for page in client.pages(resource, namespace=namespace, labels=desired.SELECTOR):
            for raw in page.items:
                body = msgspec.json.decode(raw)
                found[resource.kind, body["metadata"]["name"]] = body
    return found


async def describe_namespace(client: Client, namespace: str) -> str:
    """Describe the objects of a namespace for an assertion message."""
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
async def connect_jetstream(url: str) -> AsyncIterator[JetStream]:
    """Connect to JetStream with a separate client."""
    async with NatsClient(NatsOptions(url, connect_seconds=60.0), SystemClock()) as connected:
        yield JetStream(connected, timeout=60.0)


@dataclass
class Witness:
    """Checks every status that the operator writes against the API server."""

    client: Client
    proxy: FaultProxy
    lies: list[str] = field(default_factory=list)
    claims: int = 0

    def __post_init__(self) -> None:
        self.proxy.inject(self, when=matching("patch", "eventingbackends", subresource="status"), times=None)

    async def apply(self, call: "Call") -> web.StreamResponse:
        """Check the request; the proxy calls this in place of a fault."""
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
            async with connect_jetstream(told["url"]) as jetstream:
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
    """Return every status that was written for a backend, in order."""
    when = matching("patch", "eventingbackends", namespace=key.namespace, name=key.name, subresource="status")
    return [exchange.body["status"] for exchange in proxy.trace.writes(when) if exchange.status == 200]


@dataclass
class MeshDouble:
    """A fake token endpoint of SAP Event Mesh."""

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
        """Return the data of the Secret."""
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
        await stop_listening(listener)  # an operator may be about to connect
        await runner.cleanup()


def kinds_and_names(found: Iterable[tuple[str, str]]) -> set[str]:
    return {f"{kind}/{name}" for kind, name in found}
