"""Runs the contenders in rounds on one control plane, A B C, C B A, …, and compares neighbours.

A shared machine changes its speed, but two runs a few seconds apart are affected alike. So a figure is
the median, over the rounds, of one contender's time divided by Quintet's. Every second round runs in
reverse order, so that a trend favours no one.
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
from benchmarks.control_plane import ControlPlane, fresh_control_plane
from benchmarks.measure import load_average, paired_ratio
from benchmarks.parts.drain import Run, drain
from benchmarks.parts.traffic import record_one
from benchmarks.programs import Progress
from benchmarks.workloads import Workload
from kit.kinds.jsonservers import CHILD_TYPES
from quintet.apis.jsonserver import JSONSERVERS, JsonServer

WARM_UP = 30
DISTURBED = 0.15
"""A run is repeated if unrelated processes used more than this share of the CPUs."""
TRIES = 2
COMPARED = (CEILING, QUINTET, CR_CREATE, KOPF)
"""Contenders of the reported ratios, which run in every round; the others run in the first rounds only."""
EXPLAINED = 2
"""Rounds in which every contender runs."""


@dataclass
class Series:
    """All runs of one series, by contender, in the order of the rounds."""

    runs: dict[str, list[Run]] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Add a run."""
        self.runs.setdefault(run.contender, []).append(run)

    def seconds(self, name: str) -> list[float]:
        """Return the times of a contender."""
        return [run.seconds for run in self.runs[name]]

    def median(self, name: str) -> float:
        """Return the median time of a contender."""
        return statistics.median(self.seconds(name))

    def ratio(self, name: str) -> float:
        """Return the contender's time divided by Quintet's; above 1 Quintet is faster."""
        times = self.seconds(name)
        return paired_ratio(times, self.seconds(QUINTET)[: len(times)])

    def cpu(self, name: str, part: str = "operator") -> float:
        """Return the median CPU milliseconds per custom resource."""
        return statistics.median(run.cpu_ms[part] for run in self.runs[name])

    def rss(self, name: str) -> float:
        """Return the median peak memory."""
        return statistics.median(run.rss_mb for run in self.runs[name])

    def others(self, name: str) -> float:
        """Return the largest CPU share of unrelated processes."""
        return max(run.others for run in self.runs[name])

    def best(self, *names: str) -> str | None:
        """Return the fastest of several variants of a contender."""
        present = [name for name in names if name in self.runs]
        return min(present, key=self.ratio) if present else None

    def figures(self) -> dict[str, object]:
        """Return the figures for bench.json."""
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
    """Run all contenders in rounds on a new control plane."""
    series = Series()
    operators = contenders.operators(progress)
    async with fresh_control_plane(progress) as plane:
        with tempfile.TemporaryDirectory(prefix="bench-plans-") as scratch:
            everyone = await _all_contenders(plane, operators, Path(scratch), progress)
            chosen = [each for each in everyone if not only or each.name in only]
            await _warm_up(plane, everyone[0])
            for number in range(rounds):
                series.loads.append(load_average())
                for each in _turn(chosen, number):
                    series.add(
                        await _run_undisturbed(plane, each, workload, f"{number + 1}/{rounds}", progress)
                    )
    return series


def _turn(chosen: Sequence[Contender], number: int) -> list[Contender]:
    """Return the contenders of a round, in order."""
    taking_part = [each for each in chosen if number < EXPLAINED or each.name in COMPARED]
    return taking_part if number % 2 == 0 else taking_part[::-1]


async def _run_undisturbed(
    plane: ControlPlane, contender: Contender, workload: Workload, label: str, progress: Progress
) -> Run:
    """Repeat a disturbed run; return the least disturbed one."""
    tries: list[Run] = []
    for attempt in range(TRIES):
        slug = f"{label}-{contender.name}-{attempt}".replace(" ", "-").replace("/", "-")
        tries.append(await drain(plane, contender, workload, f"bench-{slug}"))
        progress(_line(label, tries[-1]))
        if tries[-1].others <= DISTURBED:
            break
    return min(tries, key=lambda run: run.others)


async def _all_contenders(
    plane: ControlPlane, operators: dict[str, Contender], scratch: Path, progress: Progress
) -> list[Contender]:
    """Return all contenders; the replaying ones need requests of this control plane."""
    go = programs.go_programs(progress)
    recorded, unit = await record_one(plane, operators[QUINTET])

    def cheapest(servers: Sequence[JsonServer]) -> Path:
        return plans.write(scratch / "cheapest.plan", map(plans.cheapest, servers))

    def own(servers: Sequence[JsonServer]) -> Path:
        return plans.write(
            scratch / "own.plan", (plans.rename_requests(unit, recorded, server) for server in servers)
        )

    return [
        contenders.replay_contender(CEILING, go, plane.cluster, cheapest),
        operators[QUINTET],
        contenders.replay_contender(RECORDED, go, plane.cluster, own),
        contenders.replay_contender(WATCHING, go, plane.cluster, own, (JSONSERVERS, *CHILD_TYPES)),
        *(operators[name] for name in OPERATORS if name != QUINTET),
    ]


async def _warm_up(plane: ControlPlane, contender: Contender) -> None:
    """Run once without measuring, because a new API server handles its first requests slowly."""
    await drain(plane, contender, Workload(WARM_UP), "bench-warm-up")


def _line(label: str, run: Run) -> str:
    cpu = ", ".join(f"{part} {ms:.2f}" for part, ms in sorted(run.cpu_ms.items()))
    disturbed = f"   DISTURBED: others had {run.others:.0%}" if run.others > DISTURBED else ""
    return (
        f"  round {label}  {run.contender:<27}{run.seconds:7.2f} s   "
        f"(start {run.start_seconds:.1f} s; CPU ms per object: {cpu}; {run.rss_mb:.0f} MB){disturbed}"
    )
