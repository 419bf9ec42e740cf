"""Publisher proxies as processes, their stream, and requests that publish events."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.cli.quintet import COMMAND, free_port
from kit.eventually import eventually
from kit.http.raw import Answer, RawClient
from kit.nats.server import NatsServer
from kit.process import Program
from quintet.clock import SystemClock
from quintet.eventing.settings import VARIABLE, NatsSettings, PublisherSettings, encode_settings
from quintet.nats.client import NatsClient
from quintet.nats.config import StoredMessage, StreamConfig
from quintet.nats.jetstream import JetStream
from quintet.nats.messages import Message
from quintet.nats.options import NatsOptions

STREAM, PREFIX, TYPE_PREFIX = "sap", "kyma", "sap.kyma.custom"
SUBJECT = "kyma.shop.order.created.v1"
# On disk a stream that is removed and made again at once may find what it had.
CONFIG = StreamConfig(name=STREAM, subjects=(f"{PREFIX}.>",), discard="new", storage="memory")
DURABLE = StreamConfig(name=STREAM, subjects=(f"{PREFIX}.>",), discard="new")


def settings(url: str, *, seconds: float = 20.0, **nats: Any) -> PublisherSettings:
    """Return the settings of a proxy for a NATS server."""
    place = NatsSettings(url=url, stream=STREAM, subject_prefix=PREFIX, reconnect_seconds=0.2, **nats)
    return PublisherSettings(
        namespace="shop",
        backend="bus",
        event_type_prefix=TYPE_PREFIX,
        request_seconds=seconds,
        nats=place,
    )


class Publisher:
    """`quintet publisher-proxy` as a process."""

    def __init__(self, told: PublisherSettings, *, leave: float = 0.0, grace: float = 15.0) -> None:
        self.port, self.metrics_port = free_port(), free_port()
        self.program = Program(
            str(COMMAND), "publisher-proxy",
            "--address", f"127.0.0.1:{self.port}", "--metrics-address", f"127.0.0.1:{self.metrics_port}",
            "--leave-seconds", str(leave), "--grace-seconds", str(grace), "--log-format", "text",
            environment={VARIABLE: encode_settings(told)},
        )  # fmt: skip

    async def start(self) -> None:
        """Start it and wait until it listens."""
        await self.program.start()
        await eventually(self._listening, within=60)

    async def _listening(self) -> None:
        assert self.program.running, f"it has ended: {self.program.log[-5:]}"
        async with self.client():
            pass

    @asynccontextmanager
    async def client(self, port: int | None = None) -> AsyncIterator[RawClient]:
        """Open a connection, closed on exit."""
        made = RawClient(*await asyncio.open_connection("127.0.0.1", port or self.port))
        try:
            yield made
        finally:
            made.close()

    async def ask(self, data: bytes, *, port: int | None = None) -> Answer:
        """Send one request over its own connection and return the response."""
        async with self.client(port) as client:
            return await client.ask(data)

    async def get(self, path: str) -> Answer:
        return await self.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    async def metrics(self) -> str:
        answer = await self.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", port=self.metrics_port)
        assert answer.status == 200, answer
        return answer.body.decode()

    async def ready(self) -> None:
        """Wait until it accepts events."""

        async def probe() -> None:
            answer = await self.get("/readyz")
            assert answer.status == 200, f"{answer}; it said {self.program.log[-3:]}"

        await eventually(probe, within=60)

    async def stop(self) -> int | None:
        """Stop it and return its exit code."""
        self.program.signal(signal.SIGTERM)
        return await self.program.ended()

    @property
    def rss_mb(self) -> float:
        """Return its current memory."""
        lines = Path(f"/proc/{self.program.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


@asynccontextmanager
async def a_publisher(told: PublisherSettings, **options: Any) -> AsyncIterator[Publisher]:
    """Run a proxy while inside."""
    made = Publisher(told, **options)
    await made.start()
    try:
        yield made
    finally:
        made.program.kill()
        await made.program.ended()


@dataclass(slots=True)
class Stream:
    """The stream of a server, read with a separate client."""

    jetstream: JetStream

    async def count(self) -> int:
        return (await self.jetstream.stream_info(STREAM)).state.messages

    async def message(self, sequence: int) -> StoredMessage:
        return await self.jetstream.get_message(STREAM, sequence)

    async def headers(self, sequence: int) -> Mapping[str, str]:
        """Return the headers of a stored message."""
        stored = await self.message(sequence)
        return Message(stored.subject, b"", "", stored.head).headers or {}


@asynccontextmanager
async def a_stream(server: NatsServer, config: StreamConfig | None = CONFIG) -> AsyncIterator[Stream]:
    """Create the stream that proxies publish to."""
    async with NatsClient(NatsOptions(server.url, reconnect_seconds=0.2), SystemClock()) as client:
        found = JetStream(client)
        if config is not None:
            await found.create_stream(config)
        yield Stream(found)


def binary(number: object = 7, data: bytes = b'{"a": 1}', *lines: str, **attributes: str) -> bytes:
    """Return a request with a binary event; empty attributes are omitted."""
    known = {
        "specversion": "1.0", "id": str(number), "source": "/shop", "type": "order.created.v1", **attributes
    }  # fmt: skip
    head = [f"ce-{name}: {value}" for name, value in known.items() if value]
    return post(data, "Content-Type: application/json", *head, *lines)


def members(number: object = 7, **given: Any) -> dict[str, Any]:
    """Return an event as a JSON object."""
    return {"specversion": "1.0", "id": str(number), "source": "/shop", "type": "order.created.v1", **given}


def structured(number: object = 7, **given: Any) -> bytes:
    """Return a request with a structured event."""
    return post(json.dumps(members(number, **given)).encode(), "Content-Type: application/cloudevents+json")


def batch(*events: Any) -> bytes:
    """Return a request with a batch."""
    return post(json.dumps(events).encode(), "Content-Type: application/cloudevents-batch+json")


def post(body: bytes, *lines: str) -> bytes:
    head = ["POST /publish HTTP/1.1", "Host: x", *lines, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode() + body
