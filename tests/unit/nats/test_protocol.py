"""The NATS protocol: parsing in pieces of any size, and encoding."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from quintet.nats import protocol
from quintet.nats.errors import ProtocolError
from quintet.nats.messages import Message, encode_headers
from quintet.nats.protocol import Parser, Ping, Pong, ServerError, ServerInfo

HEAD = b"NATS/1.0\r\nA: 1\r\n\r\n"
STORY = (
    b'INFO {"server_id":"S","version":"2.15.2","max_payload":100,"unknown":[1,2]}\r\n'
    b"+OK\r\nPING\r\nPONG\r\n"
    b"MSG shop.orders 7 5\r\nhello\r\n"
    b"MSG shop.orders 7 _INBOX.a.1 0\r\n\r\n"
    b"HMSG shop.orders 8 %d %d\r\n%bpay\r\nload\r\n"
    % (len(HEAD), len(HEAD) + 9, HEAD)
    + b"HMSG a.b 8 reply.to 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
    b"-ERR 'Permissions Violation for Publish to \"x\"'\r\n"
)
WANT = [
    ServerInfo(server_id="S", version="2.15.2", max_payload=100),
    Ping(),
    Pong(),
    Message("shop.orders", b"hello", subscription=7),
    Message("shop.orders", b"", "_INBOX.a.1", subscription=7),
    Message("shop.orders", b"pay\r\nload", head=HEAD, subscription=8),
    Message("a.b", b"", "reply.to", b"NATS/1.0 503\r\n\r\n", 8),
    ServerError('Permissions Violation for Publish to "x"'),
]


def test_parser_returns_one_event_per_command():
    assert Parser().feed(STORY) == WANT


@given(cuts=st.lists(st.integers(0, len(STORY)), max_size=20).map(sorted))
def test_parser_returns_the_same_events_however_bytes_are_split(cuts):
    parser, events = Parser(), []
    for start, end in zip([0, *cuts], [*cuts, len(STORY)], strict=True):
        events += parser.feed(STORY[start:end])

    assert events == WANT


def test_parser_accepts_single_bytes():
    parser = Parser()
    assert [event for byte in STORY for event in parser.feed(bytes([byte]))] == WANT


@given(
    messages=st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Z")), min_size=1),
            st.binary(max_size=200),
            st.dictionaries(
                st.text("abc-XYZ", min_size=1),
                st.text(st.characters(codec="utf-8", exclude_characters="\r\n")).map(str.strip),
                max_size=4,
            ),
        ),
        max_size=5,
    ),
    piece=st.integers(1, 50),
)
def test_published_message_parses_back(messages, piece):
    sent = b"".join(_delivered(protocol.encode_publish(*message, "")) for message in messages)
    parser = Parser()
    read = [
        event for start in range(0, len(sent), piece) for event in parser.feed(sent[start : start + piece])
    ]

    assert [(each.subject, each.payload, each.headers or {}) for each in read] == messages


def _delivered(sent: bytes) -> bytes:
    """Return the MSG or HMSG that a server sends for a PUB or HPUB."""
    line, rest = sent.split(b"\r\n", 1)
    verb, subject, *sizes = line.split(b" ")
    return b" ".join([b"HMSG" if verb == b"HPUB" else b"MSG", subject, b"1", *sizes]) + b"\r\n" + rest


@pytest.mark.parametrize(
    "invalid",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\x00\x01\x02\n",
        b"MSG\r\n",
        b"MSG a\r\n",
        b"MSG a b c d e f\r\n",
        b"MSG a x 5\r\nhello\r\n",
        b"MSG a 1 five\r\n",
        b"MSG a 1 1_0\r\n0123456789\r\n",
        b"MSG a 1 +2\r\nhi\r\n",
        b"MSG a 1_0 2\r\nhi\r\n",
        b"MSG a 1 -5\r\n",
        b"MSG a 1 999999999999\r\n",
        b"MSG a 1 5\r\nhelloXX",
        b"HMSG a 1 20 10\r\n",
        b"MSG \xff\xfe 1 0\r\n\r\n",
        b"INFO {\r\n",
        b"INFO []\r\n",
        b"\r\n",
        b"x" * (protocol.MAX_LINE + 2),
    ],
)
def test_invalid_data_breaks_the_parser(invalid):
    parser = Parser()

    assert parser.feed(invalid) == []
    assert isinstance(parser.broken, ProtocolError)
    assert parser.feed(b"PING\r\n") == [], "data after the error is ignored"


@given(cut=st.integers(0, 40))
def test_events_before_invalid_data_are_returned_however_bytes_are_split(cut):
    sent = b"PING\r\nMSG a 1 2\r\nhi\r\ninvalid\r\nPING\r\n"
    parser = Parser()

    assert parser.feed(sent[:cut]) + parser.feed(sent[cut:]) == [Ping(), Message("a", b"hi", subscription=1)]
    assert parser.broken is not None


@given(
    pieces=st.lists(
        st.binary(max_size=60) | st.sampled_from([b"MSG a 1 ", b"\r\n", b"PING", b"INFO ", b"3\r\nabc"]),
        max_size=20,
    )
)
def test_arbitrary_bytes_give_events_or_an_error_independent_of_splits(pieces):
    parser, events = Parser(), []
    for piece in pieces:
        events += parser.feed(piece)
    whole = Parser()

    assert (whole.feed(b"".join(pieces)), whole.broken is None) == (events, parser.broken is None)


def test_pieces_of_a_large_message_are_joined_once():
    payload = b"x" * 5_000_000
    sent = b"MSG a 1 %d\r\n%b\r\nPING\r\n" % (len(payload), payload)
    parser = Parser()
    events = [
        event for start in range(0, len(sent), 4096) for event in parser.feed(sent[start : start + 4096])
    ]

    assert events == [Message("a", payload, subscription=1), Ping()]


def test_publish_rejects_a_subject_longer_than_servers_accept():
    with pytest.raises(ProtocolError, match="too long"):
        protocol.encode_publish("a" * 5000, b"", None, "")


@pytest.mark.parametrize(
    "headers", [{"A": "\ud800"}, {"A": "b\r\nC: d"}, {"A": "b\n"}, {"A\r\n": "b"}, {"": "b"}, {"A:": "b"}]
)
def test_headers_with_line_breaks_or_colons_are_rejected(headers):
    with pytest.raises(ProtocolError):
        encode_headers(headers)


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB b 0", "a\tb", "a\nb", "a\x00"])
def test_subject_with_blanks_or_line_breaks_is_rejected(subject):
    with pytest.raises(ProtocolError):
        protocol.check_subject(subject)


@pytest.mark.parametrize(
    ("head", "want_status", "want_text", "want_headers"),
    [
        (b"", 0, "", None),
        (b"NATS/1.0\r\nA: b\r\n\r\n", 0, "", {"A": "b"}),
        (b"NATS/1.0 503\r\n\r\n", 503, "", {}),
        (b"NATS/1.0 409 Consumer Deleted\r\n\r\n", 409, "Consumer Deleted", {}),
        (
            b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 3\r\n\r\n",
            408,
            "Request Timeout",
            {"Nats-Pending-Messages": "3"},
        ),
        (b"NATS/1.0\r\nA: first\r\nA: second\r\n\r\n", 0, "", {"A": "first"}),
        (b"NATS/1.0\r\n12: b\r\n\r\n", 0, "", {"12": "b"}),
        (b"NATS/1.0\r\n404 x: b\r\n\r\n", 0, "", {"404 x": "b"}),
    ],
)
def test_status_line_is_distinguished_from_headers(head, want_status, want_text, want_headers):
    message = Message("a", b"", head=head)

    assert (message.status, message.status_text, message.headers) == (want_status, want_text, want_headers)


@given(
    st.dictionaries(
        st.text(st.sampled_from("0123456789 aZ-_."), min_size=1),
        st.text(st.sampled_from("09 a:")),
        min_size=1,
    )
)
def test_published_headers_never_parse_as_status(headers):
    message = Message("a", b"", head=encode_headers(headers))

    assert (message.status, message.status_text) == (0, "")
    assert message.headers == {name: value.strip() for name, value in headers.items()}
