"""CPU time and memory of processes from /proc, and statistics of samples."""

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process with all threads; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def exact_cpu_seconds(pid: int) -> float:
    """Return CPU time in nanosecond resolution, for short runs; ended threads do not count."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def memory_mb(pid: int, field: str = "VmHWM") -> float:
    """Return peak (`VmHWM`) or current (`VmRSS`) resident memory; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:")), 0.0)


def load_average() -> str:
    """Return the load averages over 1, 5 and 15 minutes."""
    return " ".join(Path("/proc/loadavg").read_text().split()[:3])


def machine_seconds() -> float:
    """Return the busy time of all CPUs, with time stolen by other virtual machines.

    Time of low-priority ("nice") processes does not count, because they yield to the measured ones.
    """
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, _, system, _, _, irq, softirq, steal = map(int, fields)
    return (user + system + irq + softirq + steal) / TICKS


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds of processes by name, at one point in time."""

    seconds: dict[str, float]
    own: float = 0.0
    """CPU seconds of this process and of its ended children."""
    machine: float = 0.0
    at: float = 0.0

    @classmethod
    def of(cls, pids: dict[str, int]) -> "Usage":
        """Read the current values."""
        seconds = {name: cpu_seconds(pid) for name, pid in pids.items()}
        return cls(seconds, sum(os.times()[:4]), machine_seconds(), time.monotonic())

    def since(self, before: "Usage") -> dict[str, float]:
        """Return the CPU seconds used since `before`."""
        return {name: max(0.0, now - before.seconds.get(name, 0.0)) for name, now in self.seconds.items()}

    def others_since(self, before: "Usage") -> float:
        """Return the share of the CPUs that unrelated processes used since `before`."""
        taking_part = sum(self.since(before).values()) + self.own - before.own
        available = (self.at - before.at) * (os.cpu_count() or 1)
        return max(0.0, self.machine - before.machine - taking_part) / available


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the interpolated percentile of the values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    rank = (len(ordered) - 1) * percent / 100
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the 50th and 99th percentile."""
    return {"p50": round(percentile(values, 50), 2), "p99": round(percentile(values, 99), 2)}


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Return the median of the ratios of pairs: a disturbance affects both runs of a pair."""
    if len(numerators) != len(denominators):
        raise ValueError("every round has one of each")
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))
