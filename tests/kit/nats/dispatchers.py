"""Dispatchers as processes."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from kit.cli.quintet import COMMAND, free_port
from kit.eventually import eventually
from kit.http.raw import Answer, RawClient
from kit.process import Program
from quintet.eventing.settings import VARIABLE, DispatcherSettings, encode_settings


class DispatcherProcess:
    """`quintet dispatcher` as a process."""

    def __init__(
        self, told: DispatcherSettings, kubeconfig: Path, places: Mapping[str, tuple[str, int]]
    ) -> None:
        self.port, self.metrics_port = free_port(), free_port()
        self.told = told
        sinks = [
            word for host, (at, port) in places.items() for word in ("--sink-address", f"{host}={at}:{port}")
        ]
        self.program = Program(
            str(COMMAND), "dispatcher", "--kubeconfig", str(kubeconfig), "--log-format", "text",
            "--address", f"127.0.0.1:{self.port}", "--metrics-address", f"127.0.0.1:{self.metrics_port}", *sinks,
            environment={VARIABLE: encode_settings(told)},
        )  # fmt: skip

    async def start(self) -> None:
        """Start it and wait until it holds all consumers."""
        await self.program.start()
        await eventually(self.ready, within=120)

    async def ready(self) -> None:
        """Fail unless readiness reports success."""
        assert self.program.running, f"it has ended: {self.program.log[-5:]}"
        answer = await self.get("/readyz")
        assert answer.status == 200, f"{answer}; it said {self.program.log[-3:]}"

    async def get(self, path: str) -> Answer:
        client = RawClient(*await asyncio.open_connection("127.0.0.1", self.port))
        try:
            return await client.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        finally:
            client.close()

    async def end(self) -> None:
        self.program.kill()
        await self.program.ended()

    @property
    def rss_mb(self) -> float:
        """Return its current memory."""
        lines = Path(f"/proc/{self.program.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))

    @property
    def cpu_seconds(self) -> float:
        """Return its CPU time so far."""
        fields = Path(f"/proc/{self.program.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
