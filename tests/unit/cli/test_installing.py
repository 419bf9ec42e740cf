"""What `quintet install` makes of trouble that the operator reports while it is waited for."""

import msgspec
import pytest

from kit.clock import VirtualClock
from quintet.apis.suite import Quintet
from quintet.cli.installing import Trouble


def a_quintet(status: str = "False", reason: str = "AsWanted", message: str = "") -> Quintet:
    degraded = {"type": "Degraded", "status": status, "reason": reason, "message": message}
    return msgspec.convert({"metadata": {"name": "quintet"}, "status": {"conditions": [degraded]}}, Quintet)


async def test_what_the_operator_tries_again_is_no_answer_until_it_has_failed_for_some_time():
    clock = VirtualClock()
    trouble = Trouble(clock)
    failing = a_quintet("True", "ApplyFailed", "the server is busy")
    assert trouble.that_stays(failing) is None
    await clock.advance(14)
    assert trouble.that_stays(failing) is None
    await clock.advance(2)
    assert trouble.that_stays(failing) == "the server is busy"


async def test_trouble_that_went_away_does_not_count_for_the_next():
    clock = VirtualClock()
    trouble = Trouble(clock)
    failing = a_quintet("True", "ApplyFailed", "the server is busy")
    assert trouble.that_stays(failing) is None
    await clock.advance(14)
    assert trouble.that_stays(a_quintet()) is None
    await clock.advance(14)
    assert trouble.that_stays(failing) is None


@pytest.mark.parametrize("reason", ["UnsafeDefinition", "ForeignObject", "WentBack", "NotComingUp"])
def test_what_only_a_person_can_mend_is_said_at_once(reason):
    assert Trouble(VirtualClock()).that_stays(a_quintet("True", reason, "mend me")) == "mend me"
