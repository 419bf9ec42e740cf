"""The table of the publisher benchmark: medians of rounds, and ratios of pairs."""

from benchmarks.contenders import QUINTET
from benchmarks.parts.publisher import GO, HEADINGS, LOADS, Run, rows


def a_run(contender: str, cpu_seconds: float, seconds: float = 2.0, load: str = "16") -> Run:
    return Run(contender, load, 1000, seconds, cpu_seconds, 1.5, 4.0, 31.0)


def test_publisher_row_has_cell_for_every_heading():
    found = rows([a_run(QUINTET, 0.04), a_run(GO, 0.05)])
    assert [len(line) for line in found] == [len(HEADINGS)] * 2


def test_publisher_cost_is_per_event_and_compared_by_round():
    # The second round was on a machine half as fast: that is no reason for another ratio.
    runs = [a_run(QUINTET, 0.04), a_run(GO, 0.06), a_run(GO, 0.12, 4.0), a_run(QUINTET, 0.08, 4.0)]
    own, peer = rows(runs)
    assert (own[0], own[2], own[5], own[6]) == (QUINTET, "375", "60.0", "1.00")
    assert (peer[0], peer[2], peer[5], peer[6]) == (GO, "375", "90.0", "1.50")


def test_publisher_loads_have_distinct_names():
    runs = [a_run(name, 0.04, load=load.name) for load in LOADS for name in (QUINTET, GO)]
    assert [line[1] for line in rows(runs)[::2]] == ["1", "16", "64", "64 structured"]
