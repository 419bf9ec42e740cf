"""What processes have used, from the accounting of the kernel, and statistics of what was measured."""

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process with all its threads; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def exact_cpu_seconds(pid: int) -> float:
    """The same to the nanosecond, for short runs; threads that have ended do not count."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def memory_mb(pid: int, field: str = "VmHWM") -> float:
    """The largest resident size so far (`VmHWM`), or the present one (`VmRSS`); 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:")), 0.0)


def load_average() -> str:
    """How busy the machine is: runnable processes over 1, 5 and 15 minutes."""
    return " ".join(Path("/proc/loadavg").read_text().split()[:3])


def machine_seconds() -> float:
    """What all processors together have worked, and what was taken from them by other machines.

    Without what was done at a lower priority ("nice"): that gives way to whoever is measured.
    """
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, _, system, _, _, irq, softirq, steal = map(int, fields)
    return (user + system + irq + softirq + steal) / TICKS


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds of some processes by name; the difference of two is what was used in between."""

    seconds: dict[str, float]
    own: float = 0.0
    """Of this process and of those that it started and saw end."""
    machine: float = 0.0
    at: float = 0.0

    @classmethod
    def of(cls, pids: dict[str, int]) -> "Usage":
        """Read the accounts now."""
        seconds = {name: cpu_seconds(pid) for name, pid in pids.items()}
        return cls(seconds, sum(os.times()[:4]), machine_seconds(), time.monotonic())

    def since(self, before: "Usage") -> dict[str, float]:
        """Seconds used between two readings."""
        return {name: max(0.0, now - before.seconds.get(name, 0.0)) for name, now in self.seconds.items()}

    def others_since(self, before: "Usage") -> float:
        """The share of the machine's processors that went to processes that take no part."""
        taking_part = sum(self.since(before).values()) + self.own - before.own
        available = (self.at - before.at) * (os.cpu_count() or 1)
        return max(0.0, self.machine - before.machine - taking_part) / available


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which so many percent of the values lie, interpolated."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The two that are reported."""
    return {"p50": round(percentile(values, 50), 2), "p99": round(percentile(values, 99), 2)}


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median of the ratios of neighbours: what disturbs a minute disturbs both of a pair."""
    if len(numerators) != len(denominators):
        raise ValueError("every round has one of each")
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))
