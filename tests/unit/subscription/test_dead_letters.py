"""Which dead letters a request concerns, and how tables show them."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.meta import ObjectMeta
from quintet.apis.subscription import Subscription, SubscriptionSpec, SubscriptionStatus
from quintet.apis.subscription.dead_letters import (
    LONGEST,
    REQUEST,
    DeadLetter,
    DeadLetterAction,
    DeadLetterRequest,
    DeadLetterStatus,
    encode_request,
    find_request,
)
from quintet.clock import timestamp
from quintet.controllers.subscription.dead_letters import describe
from quintet.inspect.dead_letters import dead_letter_lines, dead_letter_rows, more_notes
from quintet.nats.config import StoredMessage
from quintet.nats.messages import encode_headers

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LETTER = DeadLetter(17, "a-42", "order.created.v1", "shop", timestamp(NOW), 3, "status 503")


def annotated(value: str) -> ObjectMeta:
    return ObjectMeta(name="orders", namespace="shop", annotations={REQUEST: value})


def request(**fields: object) -> DeadLetterRequest:
    return msgspec.convert({"id": "1", "action": "drop", **fields}, DeadLetterRequest)


@pytest.mark.parametrize(
    ("fields", "included"),
    [
        pytest.param({}, True, id="all"),
        pytest.param({"sequences": [16, 17]}, True, id="number"),
        pytest.param({"sequences": [16, 18]}, False, id="other numbers"),
        pytest.param({"ids": ["a-42"]}, True, id="event id"),
        pytest.param({"ids": ["a-4"]}, False, id="part of the event id"),
        pytest.param({"result": "503"}, True, id="part of the result"),
        pytest.param({"result": "500"}, False, id="other result"),
        pytest.param({"after": NOW}, True, id="from its time on"),
        pytest.param({"after": NOW + timedelta(seconds=1)}, False, id="after its time"),
        pytest.param({"before": NOW}, False, id="until its time"),
        pytest.param({"before": NOW + timedelta(seconds=1)}, True, id="before a later time"),
        pytest.param({"ids": ["a-42"], "result": "500"}, False, id="one of two fits"),
    ],
)
def test_request_includes_dead_letters_that_fit_every_field(fields: dict[str, object], included: bool):
    assert request(**fields).includes(LETTER) is included


def test_request_with_time_does_not_include_dead_letter_without_time():
    assert not request(after=NOW).includes(msgspec.structs.replace(LETTER, time=""))


@given(
    st.builds(
        DeadLetterRequest,
        st.text(min_size=1, max_size=64),
        st.sampled_from(DeadLetterAction),
        st.lists(st.integers(0, 2**53), max_size=5).map(tuple),
        st.lists(st.text(max_size=20), max_size=5).map(tuple),
        st.text(max_size=LONGEST),
        st.none() | st.datetimes(timezones=st.just(UTC)),
    )
)
def test_written_request_is_read_unchanged(sent: DeadLetterRequest):
    assert find_request(annotated(encode_request(sent))) == sent


@pytest.mark.parametrize(
    ("written", "error"),
    [
        pytest.param("{", "Input data was truncated", id="no JSON"),
        pytest.param('{"id":"1","action":"resend"}', "Invalid enum value 'resend'", id="unknown action"),
        pytest.param('{"action":"drop"}', "missing required field `id`", id="no id"),
        pytest.param('{"id":"1","action":"drop","all":true}', "unknown field `all`", id="unknown field"),
        pytest.param(
            '{"id":"1","action":"drop","after":"2026-01-31T12:00:00"}', "need a time zone", id="local time"
        ),
    ],
)
def test_invalid_request_is_described(written: str, error: str):
    found = find_request(annotated(written))
    assert isinstance(found, str)
    assert error in found


def test_object_without_request_has_none():
    assert find_request(ObjectMeta(name="orders")) is None


@given(
    st.dictionaries(
        st.sampled_from(["ce-id", "ce-type", "Quintet-Tries", "Quintet-Answer"]),
        st.text("ä9x ", max_size=400),
    )
)
def test_stored_message_of_any_content_fits_the_status(headers: dict[str, str]):
    found = describe(
        StoredMessage(subject="d.x", sequence=3, head=encode_headers(headers) if headers else b"", time=NOW)
    )
    assert msgspec.json.decode(msgspec.json.encode(found), type=DeadLetter) == found
    assert found.time == timestamp(NOW)


def test_table_has_a_row_for_each_listed_dead_letter_and_notes_the_rest():
    status = SubscriptionStatus(dead_letters=DeadLetterStatus(3, (LETTER,)))
    subscription = Subscription(
        metadata=ObjectMeta(name="orders", namespace="shop"),
        spec=SubscriptionSpec("http://s", "shop", ("a.b",)),
        status=status,
    )
    rows = dead_letter_rows([subscription], NOW + timedelta(minutes=12))
    assert rows[1:] == [["orders", "17", "a-42", "order.created.v1", "3", "12m", "status 503"]]
    assert more_notes([subscription]) == ["orders has 2 more"]
    assert dead_letter_rows([], NOW) == []


def test_control_characters_of_an_event_do_not_reach_the_terminal():
    lines = dead_letter_lines(msgspec.structs.replace(LETTER, id="a\x1b[31m\nb"))
    assert len(lines) == 7
    assert not [line for line in lines if not line.isprintable()]


def test_request_is_json_that_kubectl_can_write():
    written = json.loads(encode_request(request(sequences=[17])))
    assert (written["id"], written["action"], written["sequences"]) == ("1", "drop", [17])
