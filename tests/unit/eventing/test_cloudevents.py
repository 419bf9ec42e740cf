"""CloudEvents out of requests: what is taken, and what is refused with which words."""

import base64
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.eventing.decide.cloudevents import BATCH, STRUCTURED, Event, NotACloudEventError, read
from quintet.eventing.decide.headers import BadValueError, decoded, encoded

BINARY = {"ce-id": "7", "ce-source": "/shop", "ce-type": "order.created.v1", "ce-specversion": "1.0"}
MEMBERS = {"id": "7", "source": "/shop", "type": "order.created.v1", "specversion": "1.0"}


def binary(body: bytes = b"", without: str = "", **headers: str) -> Event:
    given = {**BINARY, **{name.replace("_", "-"): value for name, value in headers.items()}}
    event = read({name: value for name, value in given.items() if name != without}, body)
    assert isinstance(event, Event)
    return event


def structured(without: str = "", content_type: str = STRUCTURED, **members: Any) -> Event:
    body = {name: value for name, value in {**MEMBERS, **members}.items() if name != without}
    event = read({"content-type": content_type}, json.dumps(body).encode())
    assert isinstance(event, Event)
    return event


def test_both_forms_of_one_event_give_the_same():
    want = Event(
        "7",
        "/shop",
        "order.created.v1",
        {**BINARY, "ce-time": "2030-01-01T00:00:00Z", "ce-color": "red", "content-type": "application/json"},
        b'{"a": 1}',
    )
    as_binary = binary(
        b'{"a": 1}', ce_time="2030-01-01T00:00:00Z", ce_color="red", content_type="application/json"
    )
    as_structured = structured(time="2030-01-01T00:00:00Z", color="red", data={"a": 1}, datacontenttype="application/json")  # fmt: skip
    assert as_binary == as_structured == want


@pytest.mark.parametrize("missing", ["id", "source", "type"])
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda name: binary(without=f"ce-{name}"), id="no header"),
        pytest.param(lambda name: structured(without=name), id="no member"),
        pytest.param(lambda name: structured(**{name: ""}), id="empty"),
        pytest.param(lambda name: structured(**{name: None}), id="null"),
    ],
)
def test_what_every_event_must_have_is_named_when_it_is_missing(made: Callable[[str], Event], missing: str):
    want = f"{missing}: MUST be a non-empty {'URI-reference' if missing == 'source' else 'string'}"
    with pytest.raises(NotACloudEventError) as raised:
        made(missing)
    assert str(raised.value) == want


def test_everything_wrong_is_said_at_once():
    with pytest.raises(NotACloudEventError) as raised:
        structured(
            id="", time="yesterday", dataschema="#part", subject="", Upper="x", nested={}, half=0.5, big=2**31
        )
    assert str(raised.value).splitlines() == [
        "id: MUST be a non-empty string",
        "time: MUST be a timestamp as in RFC 3339",
        "dataschema: MUST be an absolute URI",
        "subject: MUST be a non-empty string",
        "Upper: names of attributes MUST consist of lower-case letters and digits",
        "nested: MUST be a string, an integer or a boolean",
        "half: MUST be a string, an integer or a boolean",
        "big: MUST be an integer of 32 bits",
    ]


@pytest.mark.parametrize(
    ("headers", "body", "want"),
    [
        pytest.param({}, b"{}", "not a CloudEvent: there is neither", id="nothing of a CloudEvent"),
        pytest.param({"content-type": "application/json"}, b"{}", "not a CloudEvent: there is neither", id="plain JSON"),
        pytest.param({"content-type": "application/cloudevents+xml"}, b"<a/>", "Content-Type: MUST be", id="another format"),
        pytest.param({"content-type": "application/cloudevents"}, b"{}", "Content-Type: MUST be", id="no format"),
        pytest.param({"content-type": STRUCTURED + "; charset=latin-1"}, b"{}", "Content-Type: the charset MUST be UTF-8", id="another charset"),
        pytest.param({"content-type": STRUCTURED}, b"", "the body MUST be a JSON object", id="an empty body"),
        pytest.param({"content-type": STRUCTURED}, b"[]", "the body MUST be a JSON object", id="a list for an event"),
        pytest.param({"content-type": STRUCTURED}, b"{", "the body MUST be a JSON object", id="half a document"),
        pytest.param({"content-type": STRUCTURED}, b'{"id":"\xff"}', "the body MUST be UTF-8", id="bytes that are no text"),
        pytest.param({"content-type": STRUCTURED}, b"[" * 60_000, "the body MUST be a JSON object", id="brackets without end"),
        pytest.param({"content-type": STRUCTURED}, b'{"data":' + b"[" * 60_000, "the body MUST be a JSON object", id="deep data"),
        pytest.param({"content-type": BATCH}, b"{}", "the body MUST be a JSON array", id="an object for a batch"),
        pytest.param({**BINARY, "ce-specversion": "0.3"}, b"", "specversion: MUST be 1.0", id="an old version"),
        pytest.param({**BINARY, "ce-datacontenttype": "text/plain"}, b"", "datacontenttype: MUST be the header Content-Type", id="the content type twice"),
        pytest.param({**BINARY, "content-type": "nonsense"}, b"", "datacontenttype: MUST be a media type", id="no media type"),
        pytest.param({**BINARY, "ce-a-b": "x"}, b"", "a-b: names of attributes MUST consist", id="a name with a dash"),
        pytest.param({**BINARY, "ce-": "x"}, b"", ": names of attributes MUST consist", id="a name without a letter"),
        pytest.param({**BINARY, "ce-x": "%C0%A0"}, b"", "x: MUST be UTF-8 where it is percent-encoded", id="an overlong encoding"),
        pytest.param({**BINARY, "ce-x": "a%0Ab"}, b"", "x: MUST NOT hold control characters", id="an encoded line break"),
        pytest.param({**BINARY, "ce-x": "\xe9"}, b"", "x: MUST be percent-encoded where it is not ASCII", id="bare Latin-1"),
        pytest.param({**BINARY, "ce-id": "%00"}, b"", "id: MUST NOT hold control characters", id="an id that is a zero byte"),
    ],
)  # fmt: skip
def test_what_is_no_cloudevent_is_refused_with_the_reason(headers: dict[str, str], body: bytes, want: str):
    with pytest.raises(NotACloudEventError) as raised:
        read(headers, body)
    assert str(raised.value).startswith(want), str(raised.value)


@pytest.mark.parametrize(
    ("time", "good"),
    [
        ("2030-01-01T00:00:00Z", True),
        ("2030-01-01t00:00:00.123456789z", True),
        ("2030-12-31T23:59:60+05:30", True),
        ("2028-02-29T00:00:00Z", True),
        ("2030-02-29T00:00:00Z", False),
        ("2030-13-01T00:00:00Z", False),
        ("2030-01-01T24:00:00Z", False),
        ("2030-01-01T00:00:00", False),
        ("2030-01-01 00:00:00Z", False),
        ("2030-01-01", False),
        ("\u0662030-01-01T00:00:00Z", False),
    ],
)
def test_times_are_those_of_rfc_3339(time: str, good: bool):
    if good:
        assert structured(time=time).headers["ce-time"] == time
    else:
        with pytest.raises(NotACloudEventError, match="time: MUST be a timestamp"):
            structured(time=time)


@pytest.mark.parametrize(
    ("members", "want_type", "want_data"),
    [
        pytest.param({}, None, b"", id="no data"),
        pytest.param({"data": {"a": [1]}}, "application/json", b'{"a": [1]}', id="JSON without saying so"),
        pytest.param({"data": "text"}, "application/json", b'"text"', id="a JSON string stays one"),
        pytest.param({"data": None}, "application/json", b"null", id="null is data"),
        pytest.param({"data": 1, "datacontenttype": "application/vnd.x+json; v=1"}, "application/vnd.x+json; v=1", b"1", id="a kind of JSON"),
        pytest.param({"data": "<a/>", "datacontenttype": "text/xml"}, "text/xml", b"<a/>", id="text in a string"),
        pytest.param({"data": "\xe9", "datacontenttype": "text/plain"}, "text/plain", b"\xc3\xa9", id="text as UTF-8"),
        pytest.param({"data": "\xe9", "datacontenttype": "text/plain; charset=iso-8859-1"}, "text/plain; charset=iso-8859-1", b"\xe9", id="text in its charset"),
        pytest.param({"data_base64": "AAEC", "datacontenttype": "image/png"}, "image/png", b"\0\1\2", id="bytes"),
        pytest.param({"data_base64": None, "data": 1}, "application/json", b"1", id="an unset member does not count"),
    ],
)  # fmt: skip
def test_data_of_a_structured_event_becomes_the_bytes_it_stands_for(
    members: dict[str, Any], want_type: str | None, want_data: bytes
):
    event = structured(**members)
    assert (event.headers.get("content-type"), event.data) == (want_type, want_data)


@pytest.mark.parametrize(
    ("members", "want"),
    [
        pytest.param({"data": 1, "data_base64": "AA=="}, "data, data_base64: MUST NOT be there both", id="both"),
        pytest.param({"data_base64": "A"}, "data_base64: MUST be a string in Base64", id="no base64"),
        pytest.param({"data_base64": 5}, "data_base64: MUST be a string in Base64", id="a number for base64"),
        pytest.param({"data": {}, "datacontenttype": "text/xml"}, "data: MUST be a string", id="an object as XML"),
        pytest.param({"data": "a", "datacontenttype": "text/plain; charset=klingon"}, "data: MUST be text of the charset", id="an unknown charset"),
        pytest.param({"datacontenttype": "text/plain\r\nX: y"}, "datacontenttype: MUST NOT hold control", id="a second header"),
        pytest.param({"datacontenttype": "text/plain;\xe9"}, "datacontenttype: MUST be a media type", id="a header beyond ASCII"),
    ],
)  # fmt: skip
def test_data_that_contradicts_itself_is_refused(members: dict[str, Any], want: str):
    with pytest.raises(NotACloudEventError) as raised:
        structured(**members)
    assert str(raised.value).startswith(want), str(raised.value)


def test_a_number_or_a_truth_value_travels_as_its_text():
    event = structured(count=-5, good=True, bad=False, unset=None)
    assert event.headers == {**BINARY, "ce-count": "-5", "ce-good": "true", "ce-bad": "false"}


def test_a_batch_gives_its_events_in_order_and_may_be_empty():
    body = json.dumps([{**MEMBERS, "id": str(number)} for number in range(3)]).encode()
    events = read({"content-type": f"{BATCH}; charset=UTF-8"}, body)
    assert [event.id for event in events] == ["0", "1", "2"]  # type: ignore[union-attr]  # a batch is a list
    assert read({"content-type": BATCH}, b"[]") == []


def test_a_batch_says_which_of_its_events_are_wrong():
    body = json.dumps([MEMBERS, {**MEMBERS, "id": ""}, 5]).encode()
    with pytest.raises(NotACloudEventError) as raised:
        read({"content-type": BATCH}, body)
    first, second = str(raised.value).splitlines()
    assert first == "event 2 of 3: id: MUST be a non-empty string"
    assert second.startswith("event 3 of 3: the body MUST be a JSON object")


def test_content_types_are_compared_without_regard_to_case():
    assert structured(content_type="Application/CloudEvents+JSON ; charset=UTF-8").id == "7"


def test_values_quoted_as_older_publishers_do_are_understood():
    assert binary(ce_x=r'"a \"b\" c"').headers["ce-x"] == "a%20%22b%22%20c"
    assert binary(ce_x="plain text").headers["ce-x"] == "plain%20text"


def test_the_example_of_the_binding_is_encoded_as_it_says():
    assert encoded("Euro € 😀") == "Euro%20%E2%82%AC%20%F0%9F%98%80"
    assert decoded("Euro%20%e2%82%ac%20%F0%9F%98%80") == "Euro € 😀"


@given(st.text())
def test_every_value_without_control_characters_survives_as_a_header(value: str):
    try:
        header = encoded(value)
    except BadValueError:
        assert any(ord(each) < 32 or 127 <= ord(each) < 160 or ord(each) >= 0xD800 for each in value)
        return
    assert header.isascii()
    assert not set(header) & set(' "\r\n')
    assert decoded(header) == value


@given(
    st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cc", "Cs", "Cn"])),
    st.binary(),
)
def test_an_event_means_the_same_in_either_form(value: str, data: bytes):
    as_binary = binary(data, ce_id=encoded(value), ce_word=encoded(value), content_type="image/png")
    as_structured = structured(
        id=value, word=value, datacontenttype="image/png", data_base64=base64.b64encode(data).decode()
    )
    assert as_binary == as_structured


@given(st.binary(max_size=200), st.sampled_from([STRUCTURED, BATCH]))
def test_no_body_does_anything_but_be_refused_or_taken(body: bytes, content_type: str):
    with contextlib.suppress(NotACloudEventError):
        read({"content-type": content_type}, body)
