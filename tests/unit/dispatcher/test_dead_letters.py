"""How often dead letters are reported."""

from quintet.apis.meta import ObjectKey
from quintet.eventing.dispatcher.dead_letters import EventThrottle

ONE, OTHER = ObjectKey("shop", "one"), ObjectKey("shop", "other")


def test_throttle_reports_first_occurrence_and_counts_later_ones():
    silence = EventThrottle(60.0)
    assert [silence.count(ONE, now) for now in (0.0, 1.0, 2.0, 59.0, 60.0, 61.0)] == [1, 0, 0, 0, 4, 0]


def test_throttle_counts_each_subscription_separately():
    silence = EventThrottle(60.0)
    assert [silence.count(key, 0.0) for key in (ONE, OTHER, ONE)] == [1, 1, 0]


def test_throttle_starts_again_after_forget():
    silence = EventThrottle(60.0)
    silence.count(ONE, 0.0)
    silence.forget(ONE)
    assert silence.count(ONE, 1.0) == 1
