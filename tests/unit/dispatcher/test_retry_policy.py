"""What happens to an event after a delivery attempt."""

import pytest

from quintet.eventing.dispatcher.decide.retry_policy import Decision, DeliveryResult, NextStep, RetryPolicy


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_every_2xx_acknowledges_the_event(status):
    assert RetryPolicy().decide(DeliveryResult(status), 64) == Decision(NextStep.ACKNOWLEDGE)


@pytest.mark.parametrize("status", [400, 410, 413, 415, 422, 431])
def test_refused_event_becomes_dead_letter_after_first_attempt(status):
    assert RetryPolicy().decide(DeliveryResult(status), 1) == Decision(NextStep.DEAD_LETTER)


@pytest.mark.parametrize("status", [0, 100, 301, 302, 401, 403, 404, 405, 408, 409, 429, 500, 501, 503])
def test_any_other_status_is_retried(status):
    assert RetryPolicy().decide(DeliveryResult(status, "refused"), 1) == Decision(NextStep.RETRY, 0.5)


def test_backoff_grows_up_to_its_limit():
    patience = RetryPolicy(min_backoff=1.0, max_backoff=10.0)
    assert [patience.backoff(tries) for tries in (1, 2, 3, 4, 5, 6, 1000)] == [
        1.0,
        2.0,
        4.0,
        8.0,
        10.0,
        10.0,
        10.0,
    ]


def test_last_attempt_gives_a_dead_letter():
    patience = RetryPolicy(max_attempts=3)
    steps = [patience.decide(DeliveryResult(500), tries).step for tries in (1, 2, 3, 4)]
    assert steps == [NextStep.RETRY, NextStep.RETRY, NextStep.DEAD_LETTER, NextStep.DEAD_LETTER]


def test_default_attempts_outlast_an_outage_of_fifty_minutes():
    patience = RetryPolicy()
    assert sum(map(patience.backoff, range(1, patience.max_attempts))) > 50 * 60


def test_delivery_result_text_is_status_or_problem():
    assert str(DeliveryResult(503)) == "status 503"
    assert str(DeliveryResult(0, "no connection: refused")) == "no connection: refused"
    assert (DeliveryResult(503).code, DeliveryResult(0, "x").code) == ("503", "none")
