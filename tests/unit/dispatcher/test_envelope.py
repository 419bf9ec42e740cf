"""What a sink gets of an event, whatever form the stream keeps it in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.eventing.dispatcher.decide.envelope import UnreadableEvent, outgoing

KEPT = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/shop",
    "ce-type": "order.created.v1",
    "content-type": "application/json",
}
PREFIX = "sap.kyma.custom"


def test_an_event_goes_out_as_it_was_kept():
    sent = outgoing(KEPT, b'{"a":1}', PREFIX)
    assert sent.headers == KEPT
    assert sent.body == b'{"a":1}'
    assert sent.identity == ("/shop", "1")


def test_names_of_headers_may_be_written_in_any_case():
    assert outgoing({name.title(): value for name, value in KEPT.items()}, b"", PREFIX).headers == KEPT


def test_a_sink_sees_the_type_that_was_published():
    kept = KEPT | {"ce-type": "ordercreated.v1", "ce-originaltype": "order created.v1"}
    headers = outgoing(kept, b"", PREFIX).headers
    assert headers["ce-type"] == "order created.v1"
    assert "ce-originaltype" not in headers


def test_the_prefix_of_complete_types_is_left_out():
    assert (
        outgoing(KEPT | {"ce-type": f"{PREFIX}.shop.order.v1"}, b"", PREFIX).headers["ce-type"]
        == "shop.order.v1"
    )


def test_tracing_headers_go_with_the_event_and_others_do_not():
    tracing = {
        "traceparent": "00-ab-cd-01",
        "tracestate": "a=b",
        "b3": "1",
        "x-b3-traceid": "2",
        "baggage": "c=d",
    }
    foreign = {"Nats-Msg-Id": "1", "authorization": "Bearer x", "cookie": "y", "x-b3-evil name": "z"}
    assert outgoing(KEPT | tracing | foreign, b"", PREFIX).headers == KEPT | tracing


def test_an_event_kept_as_one_document_goes_out_in_the_same_form():
    document = {
        "specversion": "1.0",
        "id": "1",
        "source": "/shop",
        "type": "order.created.v1",
        "data": {"a": 1},
    }
    sent = outgoing({"content-type": "application/cloudevents+json"}, json.dumps(document).encode(), PREFIX)
    assert sent.headers == KEPT
    assert json.loads(sent.body) == {"a": 1}


@pytest.mark.parametrize(
    ("headers", "payload"),
    [
        pytest.param(None, b"hello", id="no headers at all"),
        pytest.param({name: value for name, value in KEPT.items() if name != "ce-id"}, b"", id="no id"),
        pytest.param({"content-type": "application/cloudevents+json"}, b"[", id="broken JSON"),
        pytest.param({"content-type": "application/cloudevents-batch+json"}, b"[]", id="a batch"),
    ],
)
def test_what_is_no_event_is_told_apart(headers, payload):
    with pytest.raises(UnreadableEvent):
        outgoing(headers, payload, PREFIX)


@given(value=st.text(min_size=1, max_size=30))
def test_no_value_can_end_its_header(value):
    for sent in outgoing(KEPT | {"ce-subject": value, "traceparent": value}, b"", PREFIX).headers.values():
        assert sent.isascii()
        assert sent.isprintable()
