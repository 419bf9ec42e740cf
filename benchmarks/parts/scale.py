"""Measures growth: custom resources with ten watched children each, in steps, on one control plane.

At each size both operators start on objects that need no change: measured are time, memory and requests
until they are idle, and that they write nothing. The API server counts the requests, because a proxy
would slow the first list.
"""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks import ROOT, plans, programs, report
from benchmarks.contenders import Launch
from benchmarks.control_plane import ControlPlane, fresh_control_plane
from benchmarks.measure import cpu_seconds, load_average, memory_mb
from benchmarks.parts.drain import Observer
from benchmarks.process import ContenderProcess, clock, start_process
from benchmarks.programs import Progress
from benchmarks.workloads import Scene, Workload
from kit.kinds.jsonservers import PEOPLE

# Copy the chart to docs manually, together with the figures of docs/performance.md.
CURVE = ROOT / "build/performance-memory.png"
NAMESPACE = "scale"
STEADY = 10.0
CHILDREN = 10
WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
WATCHED = ("configmaps", "jsonservers")
_COUNTER = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Start:
    """Figures of one start on objects that need no change."""

    synced_seconds: float
    """Until the caches are filled."""
    settled_seconds: float
    """Until every object is reconciled and the process is idle."""
    cpu_seconds: float
    peak_mb: float
    rss_mb: float
    writes: int
    steady_requests: int


@dataclass(frozen=True, slots=True)
class Step:
    """Figures of one size."""

    count: int
    fill_seconds: float
    quintet: Start
    controller_runtime: Start
    load: str

    def figures(self) -> dict[str, float]:
        """Return the entry of `scale` in bench.json."""
        return {
            "custom_resources": self.count,
            "children": self.count * CHILDREN,
            "cold_start_s": round(self.quintet.settled_seconds, 2),
            "rss_mb_quintet": round(self.quintet.peak_mb, 1),
            "rss_mb_controller_runtime": round(self.controller_runtime.peak_mb, 1),
            "restart_writes": self.quintet.writes,
        }


async def run(sizes: Sequence[int], progress: Progress) -> None:
    """Measure all sizes, smallest first, and save each result at once."""
    go = programs.go_programs(progress)
    steps: list[Step] = []
    async with fresh_control_plane(progress) as plane:
        await plane.scene.namespace(NAMESPACE)
        for size in sorted(sizes):
            steps.append(await _step(plane, go / "operator", steps[-1].count if steps else 0, size, progress))
            report.keep({"scale": [step.figures() for step in steps]})
            report.keep_details("scale", [asdict(step) for step in steps])
    report.say(f"\nCustom resources with {CHILDREN} watched ConfigMaps each, nothing to change")
    report.say(report.table(HEADINGS, [row for step in steps for row in _rows(step)]))
    draw(progress)


def draw(progress: Progress) -> None:
    """Draw the chart for the documentation from the details of the last run."""
    python = programs.python_environment(progress)
    script = ROOT / "benchmarks/memory_chart.py"
    subprocess.run([str(python), str(script), str(report.DETAILS), str(CURVE)], check=True)


async def _step(plane: ControlPlane, operator: object, before: int, size: int, progress: Progress) -> Step:
    load = load_average()
    where = ["kubeconfig", str(plane.cluster.kubeconfig), "namespace", NAMESPACE]
    long = [f"--{word}" if index % 2 == 0 else word for index, word in enumerate(where)]
    quintet = Launch([sys.executable, "-m", "benchmarks.operators.tenfold", *long])
    peer = Launch([str(operator), *long, "-tenfold"], {"BENCH_TEMPLATE": plans.template(PEOPLE)})
    filled = await _fill(plane, quintet, before, size)
    progress(f"  {size} custom resources and {size * CHILDREN} children are there after {filled:.0f} s")
    starts = []
    for launch in (quintet, peer):
        starts.append(await _start(plane, launch, size))
        progress(f"  {_summary(starts[-1])}")
    return Step(size, filled, starts[0], starts[1], load)


async def _fill(plane: ControlPlane, quintet: Launch, before: int, size: int) -> float:
    """Create the custom resources; Quintet creates the children."""
    workload = Workload(size)
    begun = time.monotonic()
    await plane.scene.fill(NAMESPACE, workload, workload.names()[before:])
    async with Observer(plane.scene, NAMESPACE) as observer, start_process(quintet) as process:
        await observer.all_synced(size - before, process, 120.0 + size * 0.3)
    return time.monotonic() - begun


async def _start(plane: ControlPlane, launch: Launch, size: int) -> Start:
    counted = await _requests(plane.scene, WRITES)
    begun = time.monotonic()
    async with start_process(launch) as process:
        await process.wait_for_output("Caches synced", 120.0 + size * 0.05)
        synced = time.monotonic() - begun
        settled = await _idle(process, begun)
        used, peak = cpu_seconds(process.pid), memory_mb(process.pid)
        writes = await _requests(plane.scene, WRITES) - counted
        quiet = await _requests(plane.scene, ())
        await clock.sleep(STEADY)
        steady = await _requests(plane.scene, ()) - quiet
        return Start(synced, settled, used, peak, memory_mb(process.pid, "VmRSS"), writes, steady)


async def _idle(process: ContenderProcess, begun: float) -> float:
    """Return when the process was last busy; it is idle after two seconds without CPU time."""
    last, used = time.monotonic(), cpu_seconds(process.pid)
    while time.monotonic() - last < 2.0:
        await clock.sleep(0.1)
        process.check()
        now = cpu_seconds(process.pid)
        if now - used > 0.011:  # more than one tick of the clock
            last = time.monotonic()
        used = now
    return last - begun


async def _requests(scene: Scene, verbs: Sequence[str]) -> int:
    """Return how many requests for the watched types the API server has handled, without watches."""
    text = await scene.metrics()
    total = 0
    for labels, value in _COUNTER.findall(text):
        found = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        wanted = found["verb"] in verbs if verbs else found["verb"] != "WATCH"
        if wanted and found["resource"] in WATCHED:
            total += int(float(value))
    return total


HEADINGS = [
    "objects", "operator", "caches s", "settled s", "CPU s", "peak MB", "RSS MB", "writes", "requests/10 s",
]  # fmt: skip


def _rows(step: Step) -> list[list[str]]:
    rows = []
    for name, start in (("quintet", step.quintet), ("controller-runtime", step.controller_runtime)):
        figures = [
            start.synced_seconds,
            start.settled_seconds,
            start.cpu_seconds,
            start.peak_mb,
            start.rss_mb,
        ]
        counts = [str(start.writes), str(start.steady_requests)]
        objects = f"{step.count:,} + {step.count * CHILDREN:,}"
        rows.append([objects, name, *(f"{each:.1f}" for each in figures), *counts])
    return rows


def _summary(start: Start) -> str:
    return (
        f"caches {start.synced_seconds:.1f} s, settled {start.settled_seconds:.1f} s, "
        f"CPU {start.cpu_seconds:.1f} s, peak {start.peak_mb:.0f} MB, {start.writes} writes"
    )
