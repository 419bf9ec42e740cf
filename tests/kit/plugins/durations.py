"""Records the durations of a test run and prints a summary.

The plugin is on if QUINTET_TEST_TIMES names a file. It records the seconds of each phase of each test and of each
fixture, and the CPU of the test process and of the machine. `python -m kit.plugins.durations FOLDER FILE` joins the
files of several runs and prints what `make test-times` shows.
"""

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "QUINTET_TEST_TIMES"
ROWS = 40


def register(config: pytest.Config) -> None:
    """Turn recording on if the environment variable is set."""
    if os.environ.get(VARIABLE):
        config.pluginmanager.register(_Recorder(config), "quintet-times")


class _Recorder:
    """Runs in every worker to measure, and in the controlling process to collect and write."""

    def __init__(self, config: pytest.Config) -> None:
        self._is_worker = hasattr(config, "workerinput")
        self._fixtures: list[tuple[str, str, float]] = []
        self._cpu = time.process_time()
        self._began, self._machine = time.monotonic(), _machine_cpu()
        self._tests: dict[str, dict[str, Any]] = {}
        self._all_fixtures: list[tuple[str, str, float]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: "pytest.FixtureDef[Any]") -> Iterator[None]:
        began = time.monotonic()
        try:
            return (yield)
        finally:
            self._fixtures.append((fixturedef.argname, fixturedef.scope, time.monotonic() - began))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        now = time.process_time()
        # Plain attributes of a report travel from a worker to the controlling process.
        report.cpu, report.fixtures = now - self._cpu, self._fixtures
        self._cpu, self._fixtures = now, []
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests.setdefault(report.nodeid, {"cpu": 0.0})
        test[report.when or ""] = test.get(report.when or "", 0.0) + report.duration
        test["cpu"] += getattr(report, "cpu", 0.0)
        self._all_fixtures += getattr(report, "fixtures", ())

    def pytest_sessionfinish(self) -> None:
        if self._is_worker or not self._tests:
            return
        fixtures: dict[str, dict[str, float]] = defaultdict(lambda: {"count": 0, "seconds": 0.0})
        for name, scope, seconds in self._all_fixtures:
            row = fixtures[f"{name} ({scope})"]
            row["count"] += 1
            row["seconds"] += seconds
        path = Path(os.environ[VARIABLE])
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {
            "wall": time.monotonic() - self._began,
            "machine_cpu": _machine_cpu() - self._machine,
            "test_cpu": sum(test["cpu"] for test in self._tests.values()),
            "fixtures": fixtures,
            "tests": self._tests,
        }
        path.write_text(json.dumps(record, indent=1))


def _machine_cpu() -> float:
    """Return the CPU seconds of all processes of the machine, where the system reports them."""
    try:
        user, nice, system, _idle, _iowait, irq, softirq = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
        )
    except OSError:
        return 0.0
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _total(test: dict[str, float]) -> float:
    return sum(test.get(phase, 0.0) for phase in ("setup", "call", "teardown"))


def summarize(runs: dict[str, dict[str, Any]]) -> Iterable[str]:
    """Yield the lines of the report: stages, files, fixtures, and the slowest tests."""
    tests = {name: test for run in runs.values() for name, test in run["tests"].items()}
    yield f"{'stage':<16}{'tests':>7}{'wall s':>9}{'CPU s':>9}{'of it tests':>13}{'in tests s':>12}{'waiting s':>11}"
    for stage, run in runs.items():
        inside = sum(map(_total, run["tests"].values()))
        yield (
            f"{stage:<16}{len(run['tests']):>7}{run['wall']:>9.0f}{run['machine_cpu']:>9.0f}{run['test_cpu']:>13.0f}"
            f"{inside:>12.0f}{max(inside - run['machine_cpu'], 0):>11.0f}"
        )
    files: dict[str, list[float]] = defaultdict(list)
    for name, test in tests.items():
        files[name.split("::")[0]].append(_total(test))
    yield from _table("file", {f"{name} ({len(of)})": sum(of) for name, of in files.items()})
    fixtures: dict[str, float] = defaultdict(float)
    for run in runs.values():
        for name, row in run["fixtures"].items():
            fixtures[name] += row["seconds"]
    yield from _table("fixture", fixtures)
    yield from _table("test", {name: _total(test) for name, test in tests.items()})


def _table(title: str, rows: dict[str, float]) -> Iterator[str]:
    yield f"\n{'seconds':>8}  {title}"
    for name, seconds in sorted(rows.items(), key=lambda row: -row[1])[:ROWS]:
        yield f"{seconds:>8.1f}  {name}"


if __name__ == "__main__":
    folder, file = map(Path, sys.argv[1:])
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    file.write_text(json.dumps(found, indent=1))
    for line in summarize(found):
        sys.stdout.write(f"{line}\n")
