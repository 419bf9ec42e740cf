"""The request to a sink, for binary and structured events in the stream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.eventing.dispatcher.decide.outgoing_event import InvalidEvent, build_outgoing

KEPT = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/shop",
    "ce-type": "order.created.v1",
    "content-type": "application/json",
}
PREFIX = "sap.kyma.custom"


def test_binary_event_is_forwarded_unchanged():
    sent = build_outgoing(KEPT, b'{"a":1}', PREFIX)
    assert sent.headers == KEPT
    assert sent.body == b'{"a":1}'
    assert sent.identity == ("/shop", "1")


def test_header_names_are_case_insensitive():
    assert build_outgoing({name.title(): value for name, value in KEPT.items()}, b"", PREFIX).headers == KEPT


def test_sink_gets_the_original_type():
    kept = KEPT | {"ce-type": "ordercreated.v1", "ce-originaltype": "order created.v1"}
    headers = build_outgoing(kept, b"", PREFIX).headers
    assert headers["ce-type"] == "order created.v1"
    assert headers["ce-originaltype"] == "order created.v1"


def test_sink_gets_a_complete_type_without_prefix_and_its_original():
    kept = KEPT | {"ce-type": f"{PREFIX}.shop.v1", "ce-originaltype": f"{PREFIX}.sh%20op.v1"}
    headers = build_outgoing(kept, b"", PREFIX).headers
    assert headers["ce-type"] == "sh%20op.v1"
    assert headers["ce-originaltype"] == f"{PREFIX}.sh%20op.v1"


@pytest.mark.parametrize(
    ("published", "wanted", "is_other"),
    [
        ("order.v1", "order.v1", False),
        ("or%20der/.v1", "order.v1", False),
        ("sap.kyma.custom.app.order.v1", "kyma.custom.app.order.v1", True),
        ("kyma.custom.app.order.v1", "sap.kyma.custom.app.order.v1", True),
        ("", "order.v1", False),
        ("%ff", "order.v1", False),
    ],
)
def test_event_of_the_publisher_has_another_type_only_if_the_cleaned_ones_differ(published, wanted, is_other):
    headers = KEPT | ({"ce-originaltype": published} if published else {})
    assert build_outgoing(headers, b"", PREFIX).has_other_type(wanted) is is_other


def test_event_type_prefix_is_removed():
    assert (
        build_outgoing(KEPT | {"ce-type": f"{PREFIX}.shop.order.v1"}, b"", PREFIX).headers["ce-type"]
        == "shop.order.v1"
    )


def test_only_event_and_tracing_headers_are_forwarded():
    tracing = {
        "traceparent": "00-ab-cd-01",
        "tracestate": "a=b",
        "b3": "1",
        "x-b3-traceid": "2",
        "baggage": "c=d",
    }
    foreign = {"Nats-Msg-Id": "1", "authorization": "Bearer x", "cookie": "y", "x-b3-evil name": "z"}
    assert build_outgoing(KEPT | tracing | foreign, b"", PREFIX).headers == KEPT | tracing


def test_structured_event_is_converted_to_binary_mode():
    document = {
        "specversion": "1.0",
        "id": "1",
        "source": "/shop",
        "type": "order.created.v1",
        "data": {"a": 1},
    }
    sent = build_outgoing(
        {"content-type": "application/cloudevents+json"}, json.dumps(document).encode(), PREFIX
    )
    assert sent.headers == KEPT
    assert json.loads(sent.body) == {"a": 1}


@pytest.mark.parametrize(
    ("headers", "payload"),
    [
        pytest.param(None, b"hello", id="no headers"),
        pytest.param({name: value for name, value in KEPT.items() if name != "ce-id"}, b"", id="no id"),
        pytest.param({"content-type": "application/cloudevents+json"}, b"[", id="invalid JSON"),
        pytest.param({"content-type": "application/cloudevents-batch+json"}, b"[]", id="batch"),
    ],
)
def test_invalid_event_raises_error(headers, payload):
    with pytest.raises(InvalidEvent):
        build_outgoing(headers, payload, PREFIX)


@given(value=st.text(min_size=1, max_size=30))
def test_header_value_never_contains_line_breaks(value):
    for sent in build_outgoing(
        KEPT | {"ce-subject": value, "traceparent": value}, b"", PREFIX
    ).headers.values():
        assert sent.isascii()
        assert sent.isprintable()
