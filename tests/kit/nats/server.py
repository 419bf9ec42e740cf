"""A real NATS server with JetStream on disk, which can be killed and restarted.

The program is built from the same go.mod as that of the image and kept in the user's cache.
"""

import asyncio
import functools
import json
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kit.cli.quintet import free_port
from kit.eventually import eventually, eventually_true
from kit.process import Program
from quintet.local.build.programs import content_hash
from quintet.local.images import staging
from quintet.local.paths import cache_directory, find_resource, hold_lock


@functools.cache
def nats_server() -> Path:
    """Return the program; the first call builds it, which takes a minute or two."""
    folder = find_resource("images/nats")
    kept = cache_directory() / f"nats-{content_hash(folder, without=('programs',))}"
    with hold_lock(kept.with_suffix(".lock")):
        if not kept.is_dir():
            with tempfile.TemporaryDirectory(dir=kept.parent, suffix=".unfinished") as unfinished:
                programs = Path(unfinished) / "programs"
                staging.build_go_tools(folder, programs, _say)
                programs.rename(kept)
    return kept / "nats-server"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


class NatsServer:
    """A server on loopback; its store survives it, so that it can be restarted."""

    def __init__(
        self,
        store: Path,
        config: dict[str, Any] | None = None,
        *,
        port: int | None = None,
        jetstream: bool = True,
        host: str = "127.0.0.1",
    ) -> None:
        self.port = port or free_port()
        self.host = host
        self.store = store
        self.config = config or {}
        self._jetstream = jetstream
        self._file = store / "nats.json"
        self._program: Program | None = None

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"tls://{self.host}:{self.port}"

    @property
    def log(self) -> list[str]:
        return self._program.log if self._program else []

    async def start(self) -> None:
        """Start or restart it and wait until it responds."""
        self.store.mkdir(parents=True, exist_ok=True)
        self.write()
        self._program = Program(str(nats_server()), "-c", str(self._file))
        await self._program.start()
        await self.wait_until_ready()

    def write(self) -> None:
        """Write the configuration; `reload` makes a running server read it."""
        settings: dict[str, Any] = {"host": self.host, "port": self.port, **self.config}
        # Its default of two seconds reports slow logins as failed logins.
        settings["authorization"] = {"timeout": 60, **settings.get("authorization", {})}
        if self._jetstream:
            # Streams reserve what they may grow to, by itself from what the disk has left; they never grow here.
            room = {"max_file_store": 1 << 40}
            settings.setdefault("jetstream", {"store_dir": str(self.store / "jetstream"), **room})
        # NATS reads JSON, too.
        self._file.write_text(json.dumps(settings, indent=2))

    async def wait_until_ready(self) -> None:
        """Wait until it sends its greeting."""
        assert self._program is not None, "it was never started"
        program = self._program

        async def greeted() -> None:
            if not program.running:
                return
            reader, writer = await asyncio.open_connection(self.host, self.port)
            try:
                greeting = await reader.readline()
                assert greeting.startswith(b"INFO "), greeting
            finally:
                writer.close()

        await eventually(greeted, within=60)
        assert program.running, f"it has ended: {self.log[-5:]}"

    def reload(self) -> None:
        """Make it read its configuration again."""
        self.write()
        self.signal(signal.SIGHUP)

    def signal(self, number: int) -> None:
        assert self._program is not None, "it was never started"
        self._program.signal(number)

    async def freeze(self) -> None:
        """Stop all of its threads with SIGSTOP."""
        assert self._program is not None, "it was never started"
        self.signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self._program.pid}/task")

        def still() -> bool:
            states = [
                (thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads.iterdir()
            ]
            return set(states) == {"T"}

        await eventually_true(still)

    def thaw(self) -> None:
        """Continue it with SIGCONT."""
        self.signal(signal.SIGCONT)

    async def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._program is not None:
            self._program.kill()
            await self._program.ended()

    async def stop(self) -> None:
        """Stop it gracefully."""
        if self._program is not None:
            self._program.signal(signal.SIGTERM)
            await self._program.ended()

    async def restart(self) -> None:
        """Kill it and start it again, with what it had on disk."""
        await self.kill()
        await self.start()


@asynccontextmanager
async def a_nats_server(
    store: Path, config: dict[str, Any] | None = None, *, jetstream: bool = True
) -> AsyncIterator[NatsServer]:
    """A server that is gone afterwards."""
    server = NatsServer(store, config, jetstream=jetstream)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()


if __name__ == "__main__":
    _say(str(nats_server()))
