"""How much work a decision takes, in function calls: it must not grow faster than what a config sets."""

import sys

import pytest

from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.plan import FoundObject, Reason, ResolvedConfig
from quintet.controllers.casconfig.turns import LONGEST_SECONDS, Turns
from unit.casconfig.objects import DEPLOYMENTS, LOW, TEMPLATE, a_deployment, a_policy, a_spec
from unit.casconfig.server import applied


def a_config(policies, variables, *, distinct=False):
    return a_spec(
        *(
            a_policy(f"p{i}", envs={f"V{j}{f'-{i}' if distinct else ''}": "x" for j in range(variables)})
            for i in range(policies)
        )
    )


def an_object(containers):
    obj = a_deployment()
    obj["spec"]["template"]["spec"]["containers"] = [
        {"name": f"c{n}", "image": "a:1"} for n in range(containers)
    ]
    return obj


def decide(spec, obj):
    """Decide on an object; return the step and how many functions of Quintet were called."""
    resolved, found = ResolvedConfig(LOW, spec, {}), FoundObject(DEPLOYMENTS, TEMPLATE, obj)
    calls = 0

    def count(frame, event, _):
        nonlocal calls
        calls += event == "call" and "quintet" in frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        step = plan.decide_step(resolved, found)
    finally:
        sys.setprofile(before)
    return step, calls


@pytest.mark.parametrize("again", [False, True])
def test_decision_takes_work_in_proportion_to_the_variables(again):
    work = []
    for variables in (50, 200):
        spec, obj = a_config(2, variables), an_object(2)
        if again:
            obj = applied(obj, decide(spec, obj)[0].patch)
        step, calls = decide(spec, obj)
        assert step.reason == Reason.APPLIED
        work.append(calls)
    assert work[1] < 5 * work[0], work


def test_decision_takes_work_in_proportion_to_the_policies():
    work = [decide(a_config(policies, 100), an_object(2))[1] for policies in (2, 8)]
    assert work[1] < 5 * work[0], work


def test_values_that_are_too_large_are_refused_before_they_are_all_set():
    work = []
    for containers in (10, 50):
        step, calls = decide(a_config(16, 256, distinct=True), an_object(containers))
        assert step.reason == Reason.LEDGER_TOO_LARGE
        work.append(calls)
    assert work[1] < 2 * work[0], work


class SteppingClock:
    """A clock that moves by a fixed time whenever it is read."""

    def __init__(self, seconds):
        self.seconds, self.time, self.naps = seconds, 0.0, 0

    def monotonic(self):
        self.time += self.seconds
        return self.time

    async def sleep(self, seconds):
        self.naps += 1


@pytest.mark.parametrize(("seconds", "naps"), [(LONGEST_SECONDS * 2, 10), (LONGEST_SECONDS / 4, 2), (0.0, 0)])
async def test_task_gives_others_their_turn_by_time(seconds, naps):
    clock = SteppingClock(seconds)
    turns = Turns(clock)
    for _ in range(10):
        await turns.give()
    assert clock.naps == naps
