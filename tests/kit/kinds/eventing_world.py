"""A whole eventing installation: controllers, NATS, publishers and dispatchers, with publishers and sinks of the test.

`World.check` is the oracle: every event that was acknowledged with 204 was accepted by the sink of each Subscription
that matches it, or is a dead letter of that Subscription.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from kit.cluster.api import Api
from kit.eventually import eventually
from kit.http.raw import RawClient
from kit.http.sink import Received, Sink
from kit.kinds.controllers import run_controllers
from kit.kinds.eventing_node import EventingNode
from kit.kinds.eventingbackends import (
    IMAGE,
    LOOPBACK,
    NATS_IMAGE,
    connect_jetstream,
    create,
    update_config,
    wait_until_ready,
)
from kit.kinds.subscriptions import create_service
from kit.nats.server import NatsServer
from quintet.apis.meta import JsonObject, Object, ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.clock import SystemClock
from quintet.controllers.eventingbackend import controller as backend_controller
from quintet.controllers.eventingbackend.options import Options
from quintet.controllers.eventingbackend.probes import Timing
from quintet.controllers.subscription import controller as subscription_controller
from quintet.eventing.sessions import Sessions
from quintet.kube.client import Client
from quintet.local.cluster import Cluster
from quintet.nats.messages import Message
from quintet.runtime.manager import Manager

NAME = "bus"
SOURCE = "commerce"
_REFUSED = (OSError, asyncio.IncompleteReadError, TimeoutError)


# A publisher of these tests ends within a few seconds.
TIMING = Timing(while_ready=1.0, first_retry=0.1, last_retry=0.5, while_moving=0.2, publisher_end=3.0)


@dataclass
class World:
    """The installation, the events that publishers sent, and what the sink received."""

    client: Client
    namespace: str
    server: NatsServer
    node: EventingNode
    sink: Sink
    types: dict[str, list[str]] = field(default_factory=dict)
    """The event types of each Subscription."""
    acknowledged: dict[str, str] = field(default_factory=dict)
    """The type of each event that was answered with 204, by id."""
    accepted: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often the sink accepted each event, by Subscription and id."""
    refusals: Counter[str] = field(default_factory=Counter)
    sent: int = 0

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, NAME)

    async def subscribe(self, name: str, *types: str, **spec: Any) -> None:
        body: JsonObject = {
            "apiVersion": SUBSCRIPTIONS.api_version,
            "kind": SUBSCRIPTIONS.kind,
            "metadata": {"name": name},
            "spec": {
                "sink": f"http://{self.host}:8080/{name}",
                "source": SOURCE,
                "types": list(types),
                **spec,
            },
        }
        await self.client.create(SUBSCRIPTIONS, body, Object, namespace=self.namespace)
        self.types[name] = list(types)
        await self.wait_until_delivering(name)

    async def wait_until_delivering(self, name: str) -> None:
        async def probe() -> None:
            seen = await self.client.get(SUBSCRIPTIONS, ObjectKey(self.namespace, name), Subscription)
            assert seen.status.ready, seen.status.conditions

        await eventually(probe, within=120)

    @property
    def host(self) -> str:
        return f"orders.{self.namespace}.svc.cluster.local"

    async def configure(self, **config: Any) -> None:
        """Change the configuration of the backend and wait until it is in use."""
        await update_config(self.client, self.key, url=self.server.url, **config)
        await wait_until_ready(self.client, self.key, within=240)

    @contextlib.asynccontextmanager
    async def load(self, *types: str, publishers: int = 4, pause: float = 0.02) -> AsyncIterator[None]:
        """Publish events of these types while inside."""
        over = asyncio.Event()
        tasks = [asyncio.create_task(self._publish(types, over, pause)) for _ in range(publishers)]
        try:
            yield
            over.set()
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _publish(self, types: tuple[str, ...], over: asyncio.Event, pause: float) -> None:
        while not over.is_set():
            event_type = random.choice(types)
            self.sent += 1
            event_id = str(self.sent)
            for _ in range(3):
                if await self._send(event_id, event_type):
                    self.acknowledged[event_id] = event_type
                    break
                await asyncio.sleep(pause)
            await asyncio.sleep(pause)

    async def _send(self, event_id: str, event_type: str) -> bool:
        """Return whether a publisher proxy answered with 204."""
        ports = self.node.publisher_ports
        if not ports:
            await asyncio.sleep(0.1)
            return False
        try:
            client = RawClient(*await asyncio.open_connection("127.0.0.1", random.choice(ports)))
            try:
                answer = await client.ask(_request(event_id, event_type))
            finally:
                client.close()
        except _REFUSED as error:
            self.refusals[type(error).__name__] += 1
            return False
        if answer.status != 204:
            self.refusals[str(answer.status)] += 1
        return answer.status == 204

    def keep(self, request: Received) -> None:
        """Record an event that the sink accepted."""
        self.accepted[request.path.strip("/"), request.id] += 1

    async def dead_letters(self) -> set[tuple[str, str]]:
        """Return Subscription and id of all dead letters."""
        async with connect_jetstream(self.server.url) as jetstream:
            stream = "sap-dead-letter"
            found, last = set(), (await jetstream.stream_info(stream)).state
            for sequence in range(last.first_seq, last.last_seq + 1):
                with contextlib.suppress(Exception):
                    stored = await jetstream.get_message(stream, sequence)
                    head = Message(stored.subject, b"", "", stored.head).headers or {}
                    found.add((head["Quintet-Subscription"].rpartition("/")[2], head["ce-id"]))
            return found

    def missing(self) -> set[tuple[str, str]]:
        """Return the acknowledged events that the sink has not accepted, by Subscription and id."""
        return {
            (name, event_id)
            for name, types in self.types.items()
            for event_id, event_type in self.acknowledged.items()
            if event_type in types and not self.accepted[name, event_id]
        }

    async def check(self, within: float = 60.0) -> None:
        """Wait until every acknowledged event was accepted or is a dead letter."""

        async def assert_none_lost() -> None:
            lost = self.missing()
            if lost:
                lost -= await self.dead_letters()
            shown = sorted(lost, key=lambda pair: int(pair[1]))[:10]
            assert not lost, f"{len(lost)} of {len(self.acknowledged)} acknowledged events are lost: {shown}"

        await eventually(assert_none_lost, within=within)


def _request(event_id: str, event_type: str) -> bytes:
    return (
        f"POST /publish HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nce-specversion: 1.0\r\n"
        f"ce-id: {event_id}\r\nce-source: {SOURCE}\r\nce-type: {event_type}\r\nContent-Length: 7\r\n\r\n"
    ).encode() + b'{"a":1}'


@contextlib.asynccontextmanager
async def run_world(
    client: Client,
    api: Api,
    cluster: Cluster,
    namespace: str,
    server: NatsServer,
    answer: Callable[[Received], int] | None = None,
    **config: Any,
) -> AsyncIterator[World]:
    """Run an installation with one ready backend while inside."""
    sink = Sink(answer)
    await sink.start()
    await create_service(client, namespace)
    sinks = {f"orders.{namespace}.svc.cluster.local": ("127.0.0.1", sink.port)}
    node = EventingNode(api, namespace, cluster.kubeconfig, sinks)
    world = World(client, namespace, server, node, sink)
    sink.keep = world.keep
    sessions = Sessions(SystemClock())
    options = Options(image=IMAGE, nats_image=NATS_IMAGE, limits=LOOPBACK, timing=TIMING, account="a:b")

    def build(manager: Manager) -> None:
        backend_controller.build(manager, options=options, sessions=sessions)
        subscription_controller.build(manager, sessions=sessions)

    try:
        async with (
            node.running(),
            run_controllers(cluster.kubeconfig, build, context=None, namespace=namespace),
        ):
            values = {"publisherReplicas": 1, "dispatcherReplicas": 1, **config}
            key = await create(client, namespace, NAME, url=server.url, **values)
            await wait_until_ready(client, key, within=240)
            yield world
    finally:
        await sessions.close()
        await sink.stop()
