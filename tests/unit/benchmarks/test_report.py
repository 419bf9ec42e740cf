"""The figures and tables of a benchmark series."""

import json

import pytest
from benchmarks import report
from benchmarks.contenders import CEILING, CR_APPLY, CR_CREATE, KOPF, QUINTET
from benchmarks.parts.drain import Run
from benchmarks.rounds import Series


def a_series(**seconds: list[float]) -> Series:
    names = {"quintet": QUINTET, "ceiling": CEILING, "kopf": KOPF, "create": CR_CREATE, "apply": CR_APPLY}
    series = Series()
    for key, values in seconds.items():
        for value in values:
            cpu = {"operator": value, "apiserver": 10.0, "etcd": 2.0}
            series.add(Run(names[key], 500, value, 0.5, cpu, 50.0))
    return series


def test_report_compares_faster_controller_runtime_variant():
    found = a_series(quintet=[5.0, 5.0], create=[4.0, 4.0], apply=[6.0, 6.0]).figures()
    assert found["vs_controller_runtime"] == 0.8
    assert found["cpu_ms_per_reconcile"] == {"quintet": 5.0, "controller_runtime": 4.0}


def test_report_ratio_above_one_means_quintet_is_faster():
    found = a_series(quintet=[4.0], ceiling=[3.8], kopf=[8.0]).figures()
    assert (found["ceiling_ratio"], found["vs_kopf"]) == (0.95, 2.0)
    assert "vs_controller_runtime" not in found


def test_report_keeps_figures_of_other_parts(tmp_path):
    path = tmp_path / "build/bench.json"
    report.keep({"vs_kopf": 2.0}, path)
    report.keep({"latency_ms": {"p50": 15.0, "p99": 40.0}}, path)
    stored = json.loads(path.read_text())
    assert tuple(stored) == report.KEYS
    assert (stored["vs_kopf"], stored["latency_ms"]["p50"], stored["scale"]) == (2.0, 15.0, None)


def test_report_rejects_unknown_key(tmp_path):
    with pytest.raises(ValueError, match="vs_everybody"):
        report.keep({"vs_everybody": 1.0}, tmp_path / "bench.json")


def test_report_table_lists_fastest_first():
    lines = report.series_table(a_series(quintet=[5.0], ceiling=[4.0])).splitlines()
    assert [line.split()[0] for line in lines[2:]] == [CEILING, QUINTET]
    assert len({len(line) for line in lines}) == 1
