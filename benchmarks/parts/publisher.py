"""Compares the publisher proxy with a plain Go proxy (net/http, nats.go) on the same NATS server.

Both run at once and take turns, A B, B A, …, so that a slow machine slows both; the waiting one costs
nothing. CPU is that of the proxy's own process; throughput depends also on the sender and the NATS
server.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import programs, report
from benchmarks.contenders import QUINTET, Launch
from benchmarks.measure import exact_cpu_seconds, load_average, memory_mb, paired_ratio
from benchmarks.process import ContenderProcess, start_process
from benchmarks.programs import Progress
from kit.nats.publishers import PREFIX, STREAM, a_stream, settings
from kit.nats.server import a_nats_server
from quintet.eventing.settings import VARIABLE, encode_settings
from quintet.local.controlplane.ports import free_ports
from quintet.nats.config import StreamConfig

GO = "go net/http"
WARM_UP = 2000
SIZE = 256
# In memory and small, so that the disk does not matter.
STREAM_CONFIG = StreamConfig(name=STREAM, subjects=(f"{PREFIX}.>",), storage="memory", max_bytes=64 << 20)
HEADINGS = ["contender", "connections", "events/s", "p50 ms", "p99 ms", "CPU µs/event", "÷ quintet", "MB"]


@dataclass(frozen=True, slots=True)
class Load:
    """Connections and format of the sent events."""

    connections: int
    structured: bool = False

    @property
    def name(self) -> str:
        """Name in the table."""
        return f"{self.connections}{' structured' if self.structured else ''}"


LOADS = (Load(1), Load(16), Load(64), Load(64, structured=True))


@dataclass(frozen=True, slots=True)
class Run:
    """Figures of one contender in one turn."""

    contender: str
    load: str
    events: int
    seconds: float
    cpu_seconds: float
    p50_ms: float
    p99_ms: float
    mb: float


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy."""

    name: str
    port: int
    process: ContenderProcess


async def run(count: int, rounds: int, progress: Progress) -> list[Run]:
    """Run all contenders under all loads."""
    go = programs.publisher_programs(progress)
    found: list[Run] = []
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        server = await stack.enter_async_context(a_nats_server(scratch / "nats"))
        await stack.enter_async_context(a_stream(server, STREAM_CONFIG))
        ports = free_ports(3)
        proxies = [
            await stack.enter_async_context(_quintet(server.url, ports[0], ports[1])),
            await stack.enter_async_context(_go(go, server.url, ports[2])),
        ]
        for proxy in proxies:
            await _turn(go, proxy, LOADS[1], WARM_UP, "warm-up")
        for load in LOADS:
            progress(f"  {load.name} connections, {rounds} rounds, load {load_average()}")
            # One connection is much slower: send half as many events.
            events = count // 2 if load.connections == 1 else count
            for number in range(rounds):
                turns = proxies if number % 2 == 0 else proxies[::-1]
                found += [await _turn(go, proxy, load, events, f"{load.name}-{number}") for proxy in turns]
            report.keep_details("publisher", [asdict(each) for each in found])
    return found


@asynccontextmanager
async def _quintet(url: str, port: int, metrics_port: int) -> AsyncIterator[Proxy]:
    """Start Quintet's proxy as in its pods."""
    launch = Launch(
        [
            str(Path(sys.executable).parent / "quintet"), "publisher-proxy", "--address", f"127.0.0.1:{port}",
            "--metrics-address", f"127.0.0.1:{metrics_port}", "--leave-seconds", "0",
        ],
        {VARIABLE: encode_settings(settings(url))},
    )  # fmt: skip
    async with start_process(launch) as process:
        await process.wait_for_output("connected to NATS", within=30)
        yield Proxy(QUINTET, port, process)


@asynccontextmanager
async def _go(go: Path, url: str, port: int) -> AsyncIterator[Proxy]:
    argv = [str(go / "proxy"), "-address", f"127.0.0.1:{port}", "-nats", url, "-prefix", PREFIX]
    async with start_process(Launch(argv)) as process:
        await process.wait_for_output("listening on", within=30)
        yield Proxy(GO, port, process)


async def _turn(go: Path, proxy: Proxy, load: Load, events: int, name: str) -> Run:
    sender = Launch([
        str(go / "load"), "-address", f"127.0.0.1:{proxy.port}", "-connections", str(load.connections),
        "-events", str(events), "-size", str(SIZE), "-run", f"{proxy.name}-{name}".replace(" ", "-"),
        f"-structured={str(load.structured).lower()}",
    ])  # fmt: skip
    before = exact_cpu_seconds(proxy.process.pid)
    async with start_process(sender) as client:
        await client.wait()
        answer = json.loads(client.output())
    used = exact_cpu_seconds(proxy.process.pid) - before
    if answer["failures"]:
        raise RuntimeError(f"{proxy.name} refused {answer['failures']} events: {answer['firstFailure']}")
    return Run(
        proxy.name,
        load.name,
        answer["events"],
        answer["seconds"],
        used,
        answer["p50Ms"],
        answer["p99Ms"],
        memory_mb(proxy.process.pid, "VmRSS"),
    )


def rows(found: Sequence[Run]) -> list[list[str]]:
    """Return the rows of the table: medians per load and contender."""
    lines = []
    for load in dict.fromkeys(each.load for each in found):
        own = _costs(found, QUINTET, load)
        for name in dict.fromkeys(each.contender for each in found):
            runs = [each for each in found if (each.contender, each.load) == (name, load)]
            lines.append([
                name,
                load,
                f"{statistics.median(each.events / each.seconds for each in runs):,.0f}",
                f"{statistics.median(each.p50_ms for each in runs):.2f}",
                f"{statistics.median(each.p99_ms for each in runs):.2f}",
                f"{1e6 * statistics.median(_costs(found, name, load)):.1f}",
                f"{paired_ratio(_costs(found, name, load), own):.2f}",
                f"{max(each.mb for each in runs):.0f}",
            ])  # fmt: skip
    return lines


def _costs(found: Sequence[Run], name: str, load: str) -> list[float]:
    """Return the CPU seconds per event of each round."""
    return [each.cpu_seconds / each.events for each in found if (each.contender, each.load) == (name, load)]
