"""Malformed JSON from peers: every decoder raises its own error, and deep JSON still has an identity."""

import contextlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.casconfig.ledger import LedgerError, annotation, ledgers
from quintet.apis.decoding import CUT, cut_nesting
from quintet.apis.meta import Object, ObjectKey
from quintet.controllers.jsonserver.controller import _same_data
from quintet.eventing.decide import cloudevents
from quintet.kube import client
from quintet.kube.errors import ServerFault, UnexpectedResponse, error_for
from quintet.nats import jetstream
from quintet.nats.errors import ProtocolError
from quintet.nats.messages import Message
from quintet.nats.protocol import Parser

SOURCES = Path(__file__).parents[3] / "src"
DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
MALFORMED = {
    "not UTF-8 in a value": b'{"server_id": "\xff", "stream": "\xff", "kind": "\xff", "message": "\xff"}',
    "not UTF-8 in a key": b'{"\xff": 1}',
    "nested too deeply": DEEP,
    "truncated": b'{"server_id": "a", "stream": "a',
    "another type": b"[1]",
    "empty": b"",
}
malformed = pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)


@malformed
def test_nats_parser_reads_malformed_info_as_events_or_a_protocol_error(text):
    parser = Parser()
    events = parser.feed(b"INFO " + text + b"\r\n")
    assert len(events) == 1 or parser.broken is not None


@malformed
def test_jetstream_ack_that_is_malformed_raises_a_protocol_error(text):
    with pytest.raises(ProtocolError):
        jetstream.parse_ack(Message("reply", text))


@malformed
@pytest.mark.parametrize("mode", ["", "-batch"])
def test_cloudevent_that_is_malformed_is_refused(text, mode):
    headers = {"content-type": f"application/cloudevents{mode}+json"}
    with pytest.raises(cloudevents.NotACloudEventError):
        cloudevents.parse_events(headers, text)


@malformed
def test_api_response_that_is_malformed_raises_an_error_of_the_api_client(text):
    with contextlib.suppress(UnexpectedResponse):  # unknown fields are skipped, so that some can be read
        client._decode("GET /x", text, Object)
    assert isinstance(error_for("GET /x", 500, text), ServerFault)


@malformed
def test_jsonserver_that_serves_malformed_data_does_not_serve_the_config(text):
    assert not _same_data(text, '{"a": 1}')


@malformed
def test_ledger_that_is_malformed_raises_a_ledger_error(text):
    key = annotation(ObjectKey("ns", "config"), "ns")
    with pytest.raises(LedgerError):
        ledgers(
            {"metadata": {"namespace": "ns", "annotations": {key: text.decode("utf-8", "replace")}}},
            ObjectKey("ns", "config"),
        )


def test_object_nested_too_deeply_keeps_its_identity_when_cut():
    text = b'{"spec":' + DEEP + b',"metadata":{"managedFields":[' + DEEP + b'],"name":"a","uid":"u"}}'
    obj = msgspec.json.decode(cut_nesting(text), type=Object)
    assert (obj.metadata.name, obj.metadata.uid) == ("a", "u")


def test_page_with_an_item_nested_too_deeply_keeps_the_others_whole():
    items = b'{"metadata":{"name":"deep"},"spec":' + DEEP + b'},{"metadata":{"name":"whole"},"spec":{"a":1}}'
    page = client._decode_page("GET /x", b'{"metadata":{"resourceVersion":"7"},"items":[' + items + b"]}")
    assert [bytes(item) for item in page.items] == [b'{"metadata":{"name":"whole"},"spec":{"a":1}}']
    assert [msgspec.json.decode(item, type=Object).metadata.name for item in page.too_deep] == ["deep"]
    assert page.metadata.resource_version == "7"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


def expected_cut(value, depth):
    """Return the value with the marker in place of every container nested more than `depth` deep."""
    if not isinstance(value, list | dict):
        return value
    if depth == 0:
        return msgspec.json.decode(CUT)
    if isinstance(value, list):
        return [expected_cut(item, depth - 1) for item in value]
    return {key: expected_cut(item, depth - 1) for key, item in value.items()}


@given(json_values, st.integers(1, 4))
def test_cut_nesting_replaces_exactly_the_containers_below_the_depth(value, depth):
    text = msgspec.json.encode(value)
    assert msgspec.json.decode(cut_nesting(text, depth)) == expected_cut(value, depth)


def test_no_module_catches_only_the_decode_error_of_msgspec():
    """Its decoder also raises UnicodeDecodeError and RecursionError: DECODE_ERRORS names all of them."""
    found = [
        f"{path.relative_to(SOURCES)}:{number}"
        for path in SOURCES.rglob("*.py")
        if path.name != "decoding.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "msgspec.DecodeError" in line or "MsgspecError" in line
    ]
    assert not found
