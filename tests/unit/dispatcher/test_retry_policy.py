"""What happens to an event after a delivery attempt."""

from datetime import UTC, datetime

import pytest

from quintet.apis.subscription import Backoff, DeadLetterMode, DeliveryPolicy
from quintet.eventing.dispatcher.decide.retry_policy import (
    Decision,
    DeliveryResult,
    NextStep,
    RetryPolicy,
    parse_retry_after,
)


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


def test_subscription_overrides_only_the_fields_that_it_sets():
    delivery = DeliveryPolicy(
        attempts=3,
        timeout="2s",
        backoff=Backoff(max="1m30s", factor=3),
        permanent_statuses=(),
        dead_letters=DeadLetterMode.DROP,
    )
    want = RetryPolicy(
        max_attempts=3,
        timeout=2.0,
        max_backoff=90.0,
        backoff_factor=3,
        permanent=(),
        keeps_dead_letters=False,
        min_backoff=0.25,
        retry_after_max=7.0,
    )
    assert RetryPolicy(min_backoff=0.25, retry_after_max=7.0).override(delivery) == want
    assert want.override(DeliveryPolicy()) == want
    assert want.override(DeliveryPolicy(dead_letters=DeadLetterMode.KEEP)).keeps_dead_letters
    assert [want.backoff(attempts) for attempts in (1, 2, 3, 7)] == [0.25, 0.75, 2.25, 90.0]
    assert want.decide(DeliveryResult(400), 1).step is NextStep.RETRY


@pytest.mark.parametrize(
    ("asked", "want"),
    [(0.0, 0.5), (0.1, 0.5), (20.0, 20.0), (1e9, 600.0)],
    ids=["none", "less", "more", "most"],
)
def test_event_waits_as_long_as_the_sink_asks_up_to_the_limit(asked, want):
    assert RetryPolicy().decide(DeliveryResult(503, retry_after=asked), 1) == Decision(NextStep.RETRY, want)


def test_retry_after_limit_of_zero_ignores_the_header():
    policy = RetryPolicy(retry_after_max=0.0)
    assert policy.decide(DeliveryResult(429, retry_after=60.0), 1) == Decision(NextStep.RETRY, 0.5)


@pytest.mark.parametrize(
    ("header", "want"),
    [
        (None, 0.0),
        ("120", 120.0),
        ("Wed, 01 Jan 2025 00:00:30 GMT", 30.0),
        ("Wed, 01 Jan 2025 00:00:30", 30.0),
        ("Tue, 31 Dec 2024 00:00:00 GMT", 0.0),
        ("-1", 0.0),
        ("1.5", 0.0),
        ("soon", 0.0),
        ("\u0663", 0.0),
        ("9" * 100, 0.0),
        ("Wed, 01 Jan 9999999 00:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(header, want):
    assert parse_retry_after(header, datetime(2025, 1, 1, tzinfo=UTC)) == want


def test_delivery_result_text_is_status_or_problem():
    assert str(DeliveryResult(503)) == "status 503"
    assert str(DeliveryResult(0, "no connection: refused")) == "no connection: refused"
    assert (DeliveryResult(503).code, DeliveryResult(0, "x").code) == ("503", "none")
