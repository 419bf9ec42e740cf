"""Random sequences in a simulated world that drives the real controller.

`python -m kit.kinds.statefulcluster_world SEED SEED+1 -v`, in the folder tests, repeats a sequence and writes
what happened in it.
"""

import pytest

from kit.kinds.statefulcluster_world.bugs import BUGS, RARE, put_back
from kit.kinds.statefulcluster_world.checks import Violation
from kit.kinds.statefulcluster_world.world import run_sequence

QUICK, BLOCK = 20, 1000


def find_violation(first: int, count: int) -> Violation | None:
    found = map(run_sequence, range(first, first + count))
    return next((violation for violation in found if violation is not None), None)


def run_block(first: int, count: int) -> None:
    violation = find_violation(first, count)
    if violation is not None:
        raise violation


@pytest.mark.parametrize("first", range(0, 100, QUICK))
def test_no_sequence_loses_data_breaks_budgets_or_gets_stuck(first):
    run_block(first, QUICK)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, 20_000, BLOCK))
def test_no_sequence_of_twenty_thousand_loses_data_breaks_budgets_or_gets_stuck(first):
    run_block(first, BLOCK)


@pytest.mark.parametrize("bug", sorted(BUGS.keys() - set(RARE)))
def test_some_sequence_finds_a_bug_that_is_put_back(bug):
    with put_back(bug):
        assert find_violation(0, 100) is not None


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("bug", RARE)
def test_some_sequence_finds_a_rare_bug_that_is_put_back(bug):
    with put_back(bug):
        assert find_violation(0, BLOCK) is not None
