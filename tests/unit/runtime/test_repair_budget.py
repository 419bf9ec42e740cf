"""Tests of the limit on repairs, which stops two writers from undoing each other at full speed."""

from kit.clock import VirtualClock
from quintet.kube.rates import RepairBudget


async def test_repairs_are_limited_to_one_per_second_after_the_burst():
    clock = VirtualClock()
    budget = RepairBudget(clock, burst=5, per_second=1.0)
    granted = 0
    for _ in range(200):  # somebody changes our field every tenth of a second, for 20 s
        granted += budget.wait("child") == 0.0
        await clock.advance(0.1)
    assert 5 + 18 <= granted <= 5 + 20


async def test_wait_returns_the_seconds_until_the_next_repair():
    budget = RepairBudget(clock := VirtualClock(), burst=1, per_second=0.5)
    assert budget.wait("child") == 0.0
    assert budget.wait("child") == 2.0
    await clock.advance(2.0)
    assert budget.wait("child") == 0.0


async def test_each_child_has_its_own_repair_budget():
    budget = RepairBudget(VirtualClock(), burst=1)
    assert budget.wait("one") == 0.0
    assert budget.wait("other") == 0.0
