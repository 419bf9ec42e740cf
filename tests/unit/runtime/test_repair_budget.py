"""Two writers that undo each other do not spin."""

from kit.clock import VirtualClock
from quintet.runtime.apply import RepairBudget


async def test_repairs_are_free_up_to_the_burst_and_then_come_once_a_second():
    clock = VirtualClock()
    budget = RepairBudget(clock, burst=5, per_second=1.0)
    granted = 0
    for _ in range(200):  # somebody changes our field every tenth of a second, for 20 s
        granted += budget.wait("child") == 0.0
        await clock.advance(0.1)
    assert 5 + 18 <= granted <= 5 + 20


async def test_whoever_must_wait_is_told_how_long():
    budget = RepairBudget(clock := VirtualClock(), burst=1, per_second=0.5)
    assert budget.wait("child") == 0.0
    assert budget.wait("child") == 2.0
    await clock.advance(2.0)
    assert budget.wait("child") == 0.0


async def test_children_do_not_pay_for_each_other():
    budget = RepairBudget(VirtualClock(), burst=1)
    assert budget.wait("one") == 0.0
    assert budget.wait("other") == 0.0
