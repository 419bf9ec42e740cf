"""The stage runner: order, early stop, logs and the counts of its last line."""

import subprocess
import sys

import pytest

from kit.install.checkout import ROOT

MAKEFILE = """
check: ; @echo no tests here
unit: ; @echo "=== 12 passed, 3 skipped in 0.42s ==="
integration: ; @echo "=== 1 failed, 7 passed in 2.00s ==="; exit 1
faults: ; @echo "2 passed in 0.10s $(ALL)"
e2e: ; @echo "1 error in 0.10s"; exit 2
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "Makefile").write_text(MAKEFILE)

    def call(*stages: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(ROOT / "tools/run-stages"), *stages]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return call


def test_passing_stages_end_with_test_counts(run):
    done = run("check", "unit", "faults:ALL=1")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "14 passed, 0 failed, 3 skipped"
    assert "2 passed in 0.10s 1" in done.stdout, "the variable did not reach make"


def test_failing_stage_ends_run_and_names_its_log(run, tmp_path):
    done = run("unit", "integration", "faults")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "19 passed, 1 failed, 3 skipped"
    assert "==> faults" not in done.stdout, "a stage ran after the failing one"
    assert "integration failed; output: build/logs/integration.log" in done.stdout
    assert "1 failed, 7 passed" in (tmp_path / "build/logs/integration.log").read_text()


def test_stage_with_setup_error_counts_as_failed(run):
    done = run("e2e")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "0 passed, 1 failed, 0 skipped")


def test_every_stage_is_listed_with_outcome_and_duration(run):
    table = run("check", "integration", "faults").stdout
    for stage, outcome in (("check", "passed"), ("integration", "FAILED"), ("faults", "not run")):
        line = next(line for line in table.splitlines() if line.startswith(f"{stage} "))
        assert outcome in line, line
        assert "0 min 00 s" in line, line
