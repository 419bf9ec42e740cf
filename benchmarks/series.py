"""The series: everybody in turn on one control plane, A B C, C B A, …, and ratios of neighbours.

A shared machine is now fast and now slow; two runs a few seconds apart are slowed alike. So a
figure is the median, over the rounds, of one contender's time divided by Quintet's of that round.
Every second round runs backwards, so that a machine that slows down or speeds up favours nobody.
"""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import contenders, plans, programs
from benchmarks.contenders import (
    CEILING,
    CR_APPLY,
    CR_CREATE,
    KOPF,
    OPERATORS,
    QUINTET,
    RECORDED,
    WATCHING,
    Contender,
)
from benchmarks.drain import Run, drain
from benchmarks.measure import load_average, paired_ratio
from benchmarks.plane import Plane, fresh
from benchmarks.programs import Progress
from benchmarks.traffic import record_one
from benchmarks.workloads import Workload
from kit.kinds.jsonservers import CHILD_TYPES
from quintet.apis.jsonserver import JSONSERVERS, JsonServer

WARM_UP = 30
DISTURBED = 0.15
"""A share of the machine: with more than this gone to others, a run is repeated."""
TRIES = 2
COMPARED = (CEILING, QUINTET, CR_CREATE, KOPF)
"""Those that the ratios are about. They run in every round, the others in the first few: they explain."""
EXPLAINED = 2
"""Rounds in which everybody takes part."""


@dataclass
class Series:
    """All runs of one series, by contender, in the order of the rounds."""

    runs: dict[str, list[Run]] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Note a run."""
        self.runs.setdefault(run.contender, []).append(run)

    def seconds(self, name: str) -> list[float]:
        """The times of one contender."""
        return [run.seconds for run in self.runs[name]]

    def median(self, name: str) -> float:
        """The middle of them."""
        return statistics.median(self.seconds(name))

    def ratio(self, name: str) -> float:
        """How much longer a contender takes than Quintet; over 1 means that Quintet is faster."""
        times = self.seconds(name)
        return paired_ratio(times, self.seconds(QUINTET)[: len(times)])

    def cpu(self, name: str, part: str = "operator") -> float:
        """CPU milliseconds per custom resource, the middle of all rounds."""
        return statistics.median(run.cpu_ms[part] for run in self.runs[name])

    def rss(self, name: str) -> float:
        """Peak memory, the middle of all rounds."""
        return statistics.median(run.rss_mb for run in self.runs[name])

    def others(self, name: str) -> float:
        """The share of the machine that others had, the worst of all rounds."""
        return max(run.others for run in self.runs[name])

    def best(self, *names: str) -> str | None:
        """Of several variants of one contender, the fastest that took part."""
        present = [name for name in names if name in self.runs]
        return min(present, key=self.ratio) if present else None

    def figures(self) -> dict[str, object]:
        """The keys of bench.json that come from here."""
        runtime = self.best(CR_CREATE, CR_APPLY)
        names = {"quintet": QUINTET, "controller_runtime": runtime, "kopf": KOPF}
        present = {key: name for key, name in names.items() if name in self.runs}
        found: dict[str, object] = {
            "cpu_ms_per_reconcile": {key: round(self.cpu(name), 2) for key, name in present.items() if name},
            "rss_mb": {key: round(self.rss(name), 1) for key, name in present.items() if name},
        }
        ratios = {"ceiling_ratio": CEILING, "vs_controller_runtime": runtime, "vs_kopf": KOPF}
        for key, name in ratios.items():
            if name in self.runs and QUINTET in self.runs and name is not None:
                found[key] = round(self.ratio(name), 3)
        return found


async def run(workload: Workload, rounds: int, only: Sequence[str], progress: Progress) -> Series:
    """Everybody, so many times, on one fresh control plane."""
    series = Series()
    operators = contenders.operators(progress)
    async with fresh(progress) as plane:
        with tempfile.TemporaryDirectory(prefix="bench-plans-") as scratch:
            field_of = await _field(plane, operators, Path(scratch), progress)
            chosen = [each for each in field_of if not only or each.name in only]
            await _warm_up(plane, field_of[0])
            for number in range(rounds):
                series.loads.append(load_average())
                for each in _turn(chosen, number):
                    series.add(await _calm(plane, each, workload, f"{number + 1}/{rounds}", progress))
    return series


def _turn(chosen: Sequence[Contender], number: int) -> list[Contender]:
    """Who runs in a round, in which order."""
    taking_part = [each for each in chosen if number < EXPLAINED or each.name in COMPARED]
    return taking_part if number % 2 == 0 else taking_part[::-1]


async def _calm(
    plane: Plane, contender: Contender, workload: Workload, label: str, progress: Progress
) -> Run:
    """A run that nothing else on the machine disturbed much; the calmest one if there is none."""
    tries: list[Run] = []
    for attempt in range(TRIES):
        slug = f"{label}-{contender.name}-{attempt}".replace(" ", "-").replace("/", "-")
        tries.append(await drain(plane, contender, workload, f"bench-{slug}"))
        progress(_line(label, tries[-1]))
        if tries[-1].others <= DISTURBED:
            break
    return min(tries, key=lambda run: run.others)


async def _field(
    plane: Plane, operators: dict[str, Contender], scratch: Path, progress: Progress
) -> list[Contender]:
    """All contenders; the replaying ones need this very control plane."""
    go = programs.go_programs(progress)
    recorded, unit = await record_one(plane, operators[QUINTET])

    def cheapest(servers: Sequence[JsonServer]) -> Path:
        return plans.write(scratch / "cheapest.plan", map(plans.cheapest, servers))

    def own(servers: Sequence[JsonServer]) -> Path:
        return plans.write(
            scratch / "own.plan", (plans.renamed(unit, recorded, server) for server in servers)
        )

    return [
        contenders.replaying(CEILING, go, plane.cluster, cheapest),
        operators[QUINTET],
        contenders.replaying(RECORDED, go, plane.cluster, own),
        contenders.replaying(WATCHING, go, plane.cluster, own, (JSONSERVERS, *CHILD_TYPES)),
        *(operators[name] for name in OPERATORS if name != QUINTET),
    ]


async def _warm_up(plane: Plane, contender: Contender) -> None:
    """The first requests to a fresh API server pay for what it has not loaded yet."""
    await drain(plane, contender, Workload(WARM_UP), "bench-warm-up")


def _line(label: str, run: Run) -> str:
    cpu = ", ".join(f"{part} {ms:.2f}" for part, ms in sorted(run.cpu_ms.items()))
    disturbed = f"   DISTURBED: others had {run.others:.0%}" if run.others > DISTURBED else ""
    return (
        f"  round {label}  {run.contender:<27}{run.seconds:7.2f} s   "
        f"(start {run.start_seconds:.1f} s; CPU ms per object: {cpu}; {run.rss_mb:.0f} MB){disturbed}"
    )
