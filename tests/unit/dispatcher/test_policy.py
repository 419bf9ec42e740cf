"""What becomes of an event after a try."""

import pytest

from quintet.eventing.dispatcher.decide.policy import Answer, Decision, Patience, Step


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_every_2xx_means_that_the_sink_has_it(status):
    assert Patience().after(Answer(status), 64) == Decision(Step.ACKNOWLEDGE)


@pytest.mark.parametrize("status", [0, 100, 301, 302, 400, 404, 410, 429, 500, 503])
def test_anything_else_is_tried_again(status):
    assert Patience().after(Answer(status, "refused"), 1) == Decision(Step.TRY_AGAIN, 0.5)


def test_tries_come_ever_less_often_up_to_a_bound():
    patience = Patience(first_retry=1.0, last_retry=10.0)
    assert [patience.delay(tries) for tries in (1, 2, 3, 4, 5, 6, 1000)] == [
        1.0,
        2.0,
        4.0,
        8.0,
        10.0,
        10.0,
        10.0,
    ]


def test_the_last_try_gives_up():
    patience = Patience(most_tries=3)
    steps = [patience.after(Answer(500), tries).step for tries in (1, 2, 3, 4)]
    assert steps == [Step.TRY_AGAIN, Step.TRY_AGAIN, Step.GIVE_UP, Step.GIVE_UP]


def test_the_tries_of_the_default_outlast_an_outage_of_fifty_minutes():
    patience = Patience()
    assert sum(map(patience.delay, range(1, patience.most_tries))) > 50 * 60


def test_an_answer_says_what_it_was():
    assert str(Answer(503)) == "answer 503"
    assert str(Answer(0, "no connection: refused")) == "no connection: refused"
    assert (Answer(503).code, Answer(0, "x").code) == ("503", "none")
