"""The NATS server that runs for a backend, on a volume of exactly the requested size."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest

from kit.cli.quintet import free_port
from kit.eventually import eventually
from kit.kinds.eventingbackends import a_backend
from kit.nats.server import nats_server
from kit.process import Program, end_with_parent
from quintet.apis.eventingbackend import CATALOG, Effective, EventingBackend, effective
from quintet.apis.quantity import amount
from quintet.clock import SystemClock
from quintet.controllers.eventingbackend.decide import server
from quintet.eventing import streams
from quintet.eventing.decide import naming
from quintet.nats.client import NatsClient
from quintet.nats.errors import StreamFull
from quintet.nats.jetstream import ConsumerConfig, JetStream
from quintet.nats.options import NatsOptions

BACKEND = msgspec.convert(a_backend("bus"), EventingBackend)
PATIENCE = 60.0
BIG = bytes(1000_000)
TMPFS = "mount -t tmpfs -o size={size} none {place}"
# The kubelet formats volumes with the same options.
EXT4 = (
    "truncate -s {size} {place}.img && mkfs.ext4 -q -F -m0 {place}.img && mount -o loop {place}.img {place}"
)


@contextmanager
def a_volume(place: Path, mount: str, size: int) -> Iterator[list[str]]:
    """Mount a file system in a mount namespace of its own; yields the command prefix that enters it."""
    place.mkdir()
    mine = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = f"{mount.format(size=size, place=place)} && echo mounted && exec sleep infinity"
    holder = subprocess.Popen(
        ["unshare", "--mount", *mine, "sh", "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent,
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != "mounted\n":
            pytest.skip("this machine does not allow to mount a file system")
        theirs = ["--user", "--preserve-credentials"] if mine else []
        yield ["nsenter", "--target", str(holder.pid), "--mount", *theirs, "--"]
    finally:
        holder.kill()
        holder.communicate()


class ProvisionedServer:
    """A NATS server with the arguments and the configuration file of the StatefulSet."""

    def __init__(self, config: Effective, folder: Path, volume: Path, enter: list[str]) -> None:
        self.port = free_port()
        body = server.stateful_set(BACKEND, config, "nats:1", size=server.claim_size(config))
        template = body["spec"]["template"]
        settings = json.loads(template["metadata"]["annotations"][server.CONFIG])
        settings["jetstream"]["store_dir"] = str(volume)
        settings |= {"host": "127.0.0.1", "port": self.port}
        (folder / "nats.conf").write_text(json.dumps(settings))
        values = {"/etc/nats/nats.conf": str(folder / "nats.conf"), "$(POD_NAME)": "one", "8222": "-1"}
        arguments = [values.get(each, each) for each in template["spec"]["containers"][0]["args"]]
        self._program = Program(*enter, str(nats_server()), *arguments)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[JetStream]:
        """Run it; killed afterwards."""
        await self._program.start()
        try:
            options = NatsOptions(f"nats://127.0.0.1:{self.port}", connect_seconds=20.0)
            client = NatsClient(options, SystemClock())

            async def connected() -> None:
                assert self._program.running, self._program.log[-5:]
                await client.__aenter__()

            await eventually(connected, within=60)
            async with client_closed(client):
                yield JetStream(client, timeout=PATIENCE)
        finally:
            self._program.kill()
            await self._program.ended()


@asynccontextmanager
async def client_closed(client: NatsClient) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await client.close()


async def fill(jetstream: JetStream, subject: str, payload: bytes = BIG) -> None:
    """Publish until the stream is full, or for a dead-letter stream, which drops its oldest, twice its size."""
    while True:
        try:
            acks = [jetstream.publish(subject, payload, None, PATIENCE) for _ in range(8)]
            await asyncio.gather(*acks)
        except StreamFull:
            return
        dropped = (await jetstream.stream_info("sap-dead-letter")).state.first_seq > 100
        if subject.startswith("dead-letter") and dropped:
            return


@pytest.mark.parametrize(
    ("values", "mount"),
    [
        pytest.param({"maxBytes": "64Mi"}, TMPFS, id="small on tmpfs"),
        pytest.param({}, EXT4, id="by default on ext4"),
        pytest.param({"maxBytes": "1"}, TMPFS, id="tiny on tmpfs"),
        pytest.param({"maxBytes": "3Gi"}, EXT4, id="large on ext4", marks=pytest.mark.exhaustive),
    ],
)
async def test_provisioned_server_with_full_streams_survives_restart_on_volume_of_requested_size(
    tmp_path: Path, values: dict[str, str], mount: str
):
    if mount is EXT4 and shutil.which("mkfs.ext4") is None:
        pytest.skip("this machine has no mkfs.ext4")
    config = effective(CATALOG["nats"], values)
    size = int(amount(server.claim_size(config)) or 0)
    with a_volume(tmp_path / "volume", mount, size) as enter:
        provisioned = ProvisionedServer(config, tmp_path, tmp_path / "volume", enter)
        async with provisioned.run() as jetstream:
            await jetstream.create_stream(streams.stream_config(BACKEND, config))
            await jetstream.create_stream(streams.dead_letter_config(BACKEND, config))
            await jetstream.create_stream(streams.retry_config(BACKEND, config))
            await jetstream.create_or_update_consumer("sap", ConsumerConfig(durable_name="orders"))
            for subject in (config.text("deadLetterSubject"), "kyma.shop.order"):
                await fill(jetstream, subject)
            for consumer in range(8):
                await fill(jetstream, naming.retry_subject("sap", str(consumer)), bytes(64_000))
            before = (await jetstream.stream_info("sap")).state
        async with provisioned.run() as jetstream:
            after = (await jetstream.stream_info("sap")).state
            assert (after.messages, after.bytes) == (before.messages, before.bytes)
            # There is room for dead letters, and for the next event once one was delivered.
            await jetstream.publish(config.text("deadLetterSubject"), BIG, None, PATIENCE)
            if before.messages:
                await jetstream.purge_stream("sap")
                await jetstream.publish("kyma.shop.order", BIG, None, PATIENCE)
