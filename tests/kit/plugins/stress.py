"""Runs tests repeatedly under CPU load with `--rounds N --load L`, which `make stress` passes on.

Every test runs once before any runs again. At the end a table shows the tests that failed in some round, and
`build/stress.json` has the rounds and the longest duration of each test.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from kit.process import end_with_parent

ROUND = "stress_round"
REPORT = Path("build/stress.json")


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=1, help="run every test so many times")
    parser.addoption("--load", type=int, default=0, help="keep so many busy loops running beside the tests")


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Add a round parameter to every test if there are several rounds."""
    rounds = metafunc.config.getoption("rounds")
    if rounds > 1:
        metafunc.fixturenames.append(ROUND)
        ids = [f"round{number}" for number in range(1, rounds + 1)]
        metafunc.parametrize(ROUND, range(rounds), ids=ids, scope="session")


def register(config: pytest.Config) -> None:
    """Start the load and collect the outcome of every round; only the controlling process does."""
    if not hasattr(config, "workerinput") and (config.getoption("load") or config.getoption("rounds") > 1):
        config.pluginmanager.register(_Stress(config), "quintet-stress")


class _Stress:
    def __init__(self, config: pytest.Config) -> None:
        self._burners = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=end_with_parent)
            for _ in range(config.getoption("load"))
        ]
        self._failures: dict[str, list[str]] = defaultdict(list)
        self._seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test, number = _split(report.nodeid)
        self._seconds[test][number] += report.duration
        if report.failed:
            self._failures[test].append(number)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        rows = [
            {
                "test": test,
                "rounds": len(rounds),
                "failed": self._failures[test],
                "longest": max(rounds.values()),
            }
            for test, rounds in sorted(self._seconds.items())
        ]
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(json.dumps(rows, indent=1))
        runs = sum(len(rounds) for rounds in self._seconds.values())
        write = terminalreporter.write_line
        write(
            f"stress: {len(rows)} tests, {runs} runs, {sum(bool(row['failed']) for row in rows)} tests failed in some round"
        )
        for row in rows:
            if row["failed"]:
                write(f"  {row['test']}: failed in {', '.join(row['failed'])} of {row['rounds']} rounds")

    def pytest_unconfigure(self) -> None:
        for burner in self._burners:
            burner.kill()
            burner.wait()


def _split(nodeid: str) -> tuple[str, str]:
    """Return the test without its round, and the round."""
    name, bracket, parameters = nodeid.partition("[")
    parts = parameters.removesuffix("]").split("-")
    number = next((part for part in parts if part.startswith("round")), "round1")
    rest = "-".join(part for part in parts if part != number)
    return (f"{name}[{rest}]" if bracket and rest else name), number
