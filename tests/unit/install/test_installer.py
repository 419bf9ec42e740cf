"""What `quintet install` makes of trouble that the operator reports while it is waited for."""

import msgspec
import pytest

from kit.clock import VirtualClock
from quintet.apis.suite import Quintet
from quintet.install.installer import DegradedTimer


def a_quintet(status: str = "False", reason: str = "AsWanted", message: str = "") -> Quintet:
    degraded = {"type": "Degraded", "status": status, "reason": reason, "message": message}
    return msgspec.convert({"metadata": {"name": "quintet"}, "status": {"conditions": [degraded]}}, Quintet)


async def test_degraded_timer_ignores_retried_failure_for_a_while():
    clock = VirtualClock()
    trouble = DegradedTimer(clock)
    failing = a_quintet("True", "ApplyFailed", "the server is busy")
    assert trouble.persistent_problem(failing) is None
    await clock.advance(14)
    assert trouble.persistent_problem(failing) is None
    await clock.advance(2)
    assert trouble.persistent_problem(failing) == "the server is busy"


async def test_degraded_timer_restarts_after_recovery():
    clock = VirtualClock()
    trouble = DegradedTimer(clock)
    failing = a_quintet("True", "ApplyFailed", "the server is busy")
    assert trouble.persistent_problem(failing) is None
    await clock.advance(14)
    assert trouble.persistent_problem(a_quintet()) is None
    await clock.advance(14)
    assert trouble.persistent_problem(failing) is None


@pytest.mark.parametrize("reason", ["UnsafeDefinition", "ForeignObject", "WentBack", "NotComingUp"])
def test_degraded_timer_reports_permanent_failure_at_once(reason):
    assert DegradedTimer(VirtualClock()).persistent_problem(a_quintet("True", reason, "mend me")) == "mend me"
