"""How often users hear of dead letters."""

from quintet.apis.meta import ObjectKey
from quintet.eventing.dispatcher.deadletters import Silence

ONE, OTHER = ObjectKey("shop", "one"), ObjectKey("shop", "other")


def test_the_first_is_said_at_once_and_those_that_follow_together():
    silence = Silence(60.0)
    assert [silence.broken(ONE, now) for now in (0.0, 1.0, 2.0, 59.0, 60.0, 61.0)] == [1, 0, 0, 0, 4, 0]


def test_each_subscription_is_spoken_of_by_itself():
    silence = Silence(60.0)
    assert [silence.broken(key, 0.0) for key in (ONE, OTHER, ONE)] == [1, 1, 0]


def test_one_that_is_made_again_begins_anew():
    silence = Silence(60.0)
    silence.broken(ONE, 0.0)
    silence.forget(ONE)
    assert silence.broken(ONE, 1.0) == 1
