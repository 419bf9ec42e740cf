"""CloudEvents in HTTP requests and in the stream, and the results of checkups."""

import contextlib
import json

from quintet.apis.checkup.results import parse as parse_results
from quintet.apis.checkup.types import MAX_RESULT_BYTES
from quintet.apis.decoding import cut_nesting
from quintet.eventing.decide.cloudevents import CloudEvent, NotACloudEventError, parse_events
from quintet.eventing.dispatcher.decide.outgoing_event import InvalidEvent, build_outgoing
from quintet.eventing.publisher.decide.subjects import NoSubjectError, SubjectMapper
from quintet.nats.messages import Message, encode_headers


def read_request(data: bytes) -> tuple[dict[str, str], bytes]:
    """Return headers and body of an input: header lines, an empty line, the body."""
    head, _, body = data.partition(b"\n\n")
    headers = {}
    for line in head.decode("latin-1").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip(" \t")
    return headers, body


def check_cloudevents(data: bytes) -> None:
    """A request is rejected, or gives events that are stored, delivered and read again unchanged."""
    headers, body = read_request(data)
    try:
        parsed = parse_events(headers, body)
    except NotACloudEventError as error:
        assert str(error)
        return
    for event in [parsed] if isinstance(parsed, CloudEvent) else parsed:
        _check_event(event)


def _check_event(event: CloudEvent) -> None:
    assert event.id
    assert event.source
    assert event.type
    with contextlib.suppress(NoSubjectError):
        subject = SubjectMapper("kyma", "").find(event.source, event.type).subject
        assert " " not in subject
        assert subject.isprintable()
    stored = Message("a", event.data, head=encode_headers(event.headers))
    assert dict(stored.headers or {}) == event.headers, "a stored event has other headers"
    again = parse_events(event.headers, event.data)
    assert again == event, f"{again}\nwas {event}"
    outgoing = build_outgoing(stored.headers, stored.payload, "")
    assert outgoing.body == event.data
    for name, value in outgoing.headers.items():
        assert value.isascii(), f"{name} is not safe in a request"
        assert value.isprintable(), f"{name} is not safe in a request"


def check_messages(data: bytes) -> None:
    """A message of the stream, by any client, becomes a safe request to a sink or a dead letter."""
    headers, body = read_request(data)
    try:
        outgoing = build_outgoing(headers, body, "prefix")
    except InvalidEvent:
        return
    for name, value in outgoing.headers.items():
        for text in (name, value):
            assert text.isascii()
            assert text.isprintable()


def check_results(data: bytes) -> None:
    """Results of a checkup are complete, or have a flaw and a message; they fit into the status."""
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(given, dict):
        return
    texts = {str(name): value for name, value in given.items() if isinstance(value, str)}
    results = parse_results(texts)
    assert (results.flaw is None) == (not results.problem)
    if results.flaw is None:
        assert results.succeeded is not None
    assert len(results.text.encode("utf-8", "surrogatepass")) <= MAX_RESULT_BYTES


def check_nesting(data: bytes) -> None:
    """JSON without its deepest values is valid and is not nested too deeply."""
    cut = cut_nesting(data, depth=5)
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        return
    left = json.loads(cut)
    assert _depth(left) <= 5
    if _depth(given) <= 5:
        assert left == given


def _depth(value: object) -> int:
    level, values = 0, [value]
    while values := [
        each
        for value in values
        if isinstance(value, dict | list)
        for each in [None, *(value.values() if isinstance(value, dict) else value)]
    ]:
        level += 1
    return level
