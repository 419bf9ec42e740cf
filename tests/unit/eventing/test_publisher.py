"""Responses, subjects, acknowledgements and metrics of the publisher proxy."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from kit.clock import VirtualClock
from quintet.eventing.decide.cloudevents import BATCH, STRUCTURED, CloudEvent, NotACloudEventError
from quintet.eventing.publisher import metrics as names
from quintet.eventing.publisher.decide.responses import (
    BackendError,
    BusyError,
    PublishResult,
    result_for_batch,
    result_for_error,
)
from quintet.eventing.publisher.decide.subjects import MAX_BYTES, NoSubjectError, SubjectMapper
from quintet.eventing.publisher.metrics import MAX_TYPES, PublisherMetrics
from quintet.eventing.publisher.nats_backend import message_id
from quintet.eventing.publisher.pending_acks import Done, PendingAcks
from quintet.eventing.publisher.proxy import PublisherProxy
from quintet.nats import errors as nats
from quintet.nats.messages import Message
from quintet.nats.protocol import check_subject
from quintet.web.messages import DeferredResponse, Request, Response


@pytest.mark.parametrize(
    ("error", "want_status", "comes_back"),
    [
        (NotACloudEventError("id: MUST be a non-empty string"), 400, False),
        (NoSubjectError("type: MUST NOT have empty segments"), 400, False),
        (nats.PayloadTooLarge("too much"), 413, False),
        (nats.JetStreamError(400, 10054, "message size exceeds maximum allowed"), 413, False),
        (BackendError(PublishResult(429, "slow down", 5)), 429, True),
        (BusyError("busy"), 503, True),
        (nats.Overloaded("busy"), 503, True),
        (nats.NotReady(503, 10008, "no leader"), 503, True),
        (nats.StreamFull(503, 10077, "maximum messages exceeded"), 507, True),
        (nats.StreamMissing("none"), 504, True),
        (nats.JetStreamUnavailable("none"), 504, True),
        (nats.RequestTimeout("late"), 504, True),
        (nats.JetStreamError(400, 10060, "expected stream does not match"), 504, False),
        (nats.Disconnected("away"), 502, True),
        (nats.Closed("away"), 502, True),
        (nats.NotPermitted("no"), 502, True),
        (nats.JetStreamError(500, 1, "anything"), 502, True),
        (RuntimeError("a mistake of ours"), 500, False),
    ],
)
def test_error_selects_the_status(error: Exception, want_status: int, comes_back: bool):
    answer = result_for_error(error)
    assert (answer.status, answer.retry_after > 0) == (want_status, comes_back), answer
    assert answer.reason


def test_internal_error_is_not_shown_to_publishers():
    assert "internal detail" not in result_for_error(RuntimeError("an internal detail")).reason


def test_batch_result_is_that_of_its_first_failure():
    full, away = nats.StreamFull(503, 10077, "maximum bytes exceeded"), nats.Disconnected("away")
    assert result_for_batch([None, None]) == PublishResult(204)
    one = result_for_batch([None, full, None])
    assert one.status == 507
    assert one.reason.startswith("event 2 of 3: the stream is full")
    assert one.reason.endswith(
        "; send the whole batch again: events that are stored already are not stored twice"
    )
    assert result_for_batch([away, full]).reason.startswith("event 1 of 2: away, and 1 more failed; send")
    wrong = result_for_batch([None, NoSubjectError("type: wrong")])
    assert wrong == PublishResult(400, "event 2 of 2: type: wrong"), "sending it again would not help"


def test_message_id_is_unique_per_source_and_id():
    def made(source: str, identity: str) -> str:
        return message_id(CloudEvent(identity, source, "t", {}, b""))

    assert made("/shop", "7") == made("/shop", "7")
    assert len({made("/shop", "7"), made("/shop", "8"), made("/shop7", ""), made("/sho", "p7")}) == 4
    assert len(made("x" * 60_000, "y" * 60_000)) == 32


def test_subject_cache_is_bounded():
    subjects = SubjectMapper("kyma", "sap.kyma.custom")
    for number in range(10_000):
        assert subjects.find("/shop", f"order.v{number}").subject == f"kyma.shop.order.v{number}"
    assert len(subjects._cache) <= 4096


def test_subject_length_is_limited_in_bytes():
    subjects = SubjectMapper("kyma", "")
    room = MAX_BYTES - len("kyma.shop.")
    assert len(subjects.find("shop", "é" * (room // 2)).subject.encode()) <= MAX_BYTES
    with pytest.raises(NoSubjectError, match="more than 1024 bytes"):
        subjects.find("shop", "é" * (room // 2 + 1))


def test_unicode_blanks_never_reach_a_subject():
    with pytest.raises(NoSubjectError, match="printable"):
        SubjectMapper("kyma", "").find("shop", "a\u2003b")


@given(st.text(max_size=50), st.text(max_size=50))
def test_subject_is_valid_for_nats_or_rejected(source: str, event_type: str):
    try:
        subject = SubjectMapper("kyma", "sap.kyma").find(source, event_type).subject
    except NoSubjectError:
        return
    check_subject(subject)
    assert all(subject.split("."))
    assert not set(subject) & set("*> \t\r\n")


class Told:
    """Records the results of acknowledgements."""

    def __init__(self) -> None:
        self.found: dict[str, Exception | None] = {}

    def about(self, name: str) -> Done:
        def done(error: Exception | None) -> None:
            assert name not in self.found, "told twice"
            self.found[name] = error

        return done


def an_ack(subject: str, **answer: object) -> Message:
    return Message(subject, json.dumps(answer or {"stream": "sap", "seq": 1}).encode())


def test_acknowledgements_resolve_events_in_any_order():
    acks, told = PendingAcks(5, VirtualClock()), Told()
    first, second = acks.open(told.about("first")), acks.open(told.about("second"))
    acks.resolve(an_ack(second))
    assert told.found == {"second": None}
    acks.resolve(an_ack(first))
    acks.resolve(an_ack(first))
    assert told.found == {"first": None, "second": None}
    assert len(acks) == 0


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param(Message("", b"", "", b"NATS/1.0 503\r\n\r\n"), nats.StreamMissing, id="no responders"),
        pytest.param(an_ack("", error={"code": 503, "err_code": 10077, "description": "full"}), nats.StreamFull, id="full"),
        pytest.param(Message("", b"nonsense"), nats.ProtocolError, id="invalid JSON"),
        pytest.param(an_ack("", other=1), nats.ProtocolError, id="no stream"),
    ],
)  # fmt: skip
def test_invalid_acknowledgement_fails_the_event(message: Message, want: type[Exception]):
    acks, told = PendingAcks(5, VirtualClock()), Told()
    message.subject = acks.open(told.about("it"))
    acks.resolve(message)
    assert type(told.found["it"]) is want


async def test_event_without_acknowledgement_times_out_and_late_one_is_ignored():
    clock = VirtualClock()
    acks, told = PendingAcks(5, clock), Told()
    early = acks.open(told.about("early"))
    await clock.advance(3)
    acks.open(told.about("late"))
    await clock.advance(2.5)
    assert set(told.found) == {"early"}
    assert isinstance(told.found["early"], nats.RequestTimeout)
    acks.resolve(an_ack(early))
    await clock.advance(3)
    assert set(told.found) == {"early", "late"}


async def test_timeouts_work_after_an_idle_period():
    clock = VirtualClock()
    acks, told = PendingAcks(5, clock), Told()
    acks.resolve(an_ack(acks.open(told.about("first"))))
    await clock.advance(60)
    acks.open(told.about("second"))
    await clock.advance(6)
    assert isinstance(told.found["second"], nats.RequestTimeout)


def test_lost_connection_fails_all_pending_events():
    acks, told = PendingAcks(5, VirtualClock()), Told()
    for name in "abc":
        acks.open(told.about(name))
    acks.fail(nats.Disconnected("away"))
    assert [type(each) for each in told.found.values()] == [nats.Disconnected] * 3
    assert len(acks) == 0


def test_refused_subject_fails_its_events_only():
    acks, told = PendingAcks(5, VirtualClock()), Told()
    reply = acks.open(told.about("reply refused"), "kyma.b")
    for name, subject in (("first", "kyma.a"), ("second", "kyma.a"), ("other", "kyma.b")):
        acks.open(told.about(name), subject)
    acks.refuse("kyma.a", nats.NotPermitted("no"))
    acks.refuse(reply, nats.NotPermitted("no"))
    assert set(told.found) == {"first", "second", "reply refused"}
    assert len(acks) == 1


async def test_failing_callback_does_not_affect_other_events():
    clock = VirtualClock()
    acks, told = PendingAcks(5, clock), Told()

    def broken(error: Exception | None) -> None:
        raise RuntimeError("a mistake of ours")

    for name in ("first", "second"):
        acks.open(broken)
        acks.open(told.about(name))
        if name == "first":
            acks.fail(nats.Disconnected("away"))
    await clock.advance(6)
    assert [type(each) for each in told.found.values()] == [nats.Disconnected, nats.RequestTimeout]


def shown(metrics: PublisherMetrics) -> str:
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()


def test_durations_are_counted_in_their_buckets():
    metrics = PublisherMetrics("nats:4222")
    for seconds in (0.0001, 0.0005, 0.003, 99.0):
        metrics.count_request(204, "POST", "/publish", seconds)
    lines = shown(metrics).splitlines()
    for bound, count in (("0.0005", 2), ("0.0025", 2), ("0.005", 3), ("10.0", 3), ("+Inf", 4)):
        want = f'{names.DURATION}_bucket{{code="204",le="{bound}",method="POST",path="/publish"}} {count}.0'
        assert want in lines, lines


def test_types_beyond_the_limit_are_counted_as_other():
    metrics = PublisherMetrics("nats:4222")
    for number in range(MAX_TYPES + 50):
        metrics.count_event(204, f"order.v{number}", "/shop", 0.001)
    metrics.count_event(204, "order.v0", "/shop", 0.001)
    lines = shown(metrics).splitlines()
    assert f'{names.PUBLISHED}_total{{code="204",event_source="other",event_type="other"}} 50.0' in lines
    assert f'{names.PUBLISHED}_total{{code="204",event_source="/shop",event_type="order.v0"}} 2.0' in lines


class Slow:
    """A backend whose callbacks are called by the test."""

    def __init__(self) -> None:
        self.waiting: list[Done] = []

    def check(self, event: CloudEvent) -> None:
        SubjectMapper("kyma", "").find(event.source, event.type)

    def send(self, event: CloudEvent, tracing: object, done: Done) -> None:
        self.waiting.append(done)

    def problem(self) -> str | None:
        return None


def an_event(number: int) -> Request:
    headers = {
        "ce-id": str(number),
        "ce-source": "/shop",
        "ce-type": "t",
        "ce-specversion": "1.0",
        "host": "x",
    }
    return Request("POST", "/publish", "", headers)


def test_proxy_rejects_events_beyond_the_in_flight_limit():
    backend, metrics = Slow(), PublisherMetrics("slow")
    proxy = PublisherProxy(backend, metrics, VirtualClock(), max_in_flight=10)
    under_way = [proxy.handle(an_event(number)) for number in range(10)]
    refused = proxy.handle(an_event(10))
    assert isinstance(refused, Response)
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    body = json.dumps([{"id": "1", "source": "s", "type": "t", "specversion": "1.0"}]).encode()
    batch = Request("POST", "/publish", "", {"content-type": "application/cloudevents-batch+json"}, body)
    assert proxy.handle(batch).status == 503  # type: ignore[union-attr]  # it is refused at once
    backend.waiting.pop()(None)
    assert isinstance(proxy.handle(an_event(11)), DeferredResponse)
    for done in backend.waiting:
        done(None)
    assert metrics.in_flight == 0
    given: list[Response] = []
    for each in under_way:
        assert isinstance(each, DeferredResponse)
        each.on_set(given.append)
    assert [each.status for each in given] == [204] * 10


HEADERS = st.dictionaries(
    st.sampled_from(
        ["content-type", "ce-id", "ce-source", "ce-type", "ce-specversion", "ce-time", "ce-x", "b3"]
    ),
    st.one_of(st.sampled_from(["1.0", STRUCTURED, BATCH, "a.b", "text/plain"]), st.text(max_size=20)),
)
BODIES = st.one_of(st.binary(max_size=50), st.sampled_from([b"[]", b"{}", b'[{"id":"1"}]', b'{"data":1}']))


@given(
    HEADERS, BODIES, st.sampled_from(["POST", "GET", "HEAD"]), st.sampled_from(["/publish", "/readyz", "/x"])
)
def test_proxy_responds_to_arbitrary_requests(headers: dict[str, str], body: bytes, method: str, path: str):
    backend, metrics = Slow(), PublisherMetrics("slow")
    answer = PublisherProxy(backend, metrics, VirtualClock()).handle(Request(method, path, "", headers, body))
    assert isinstance(answer, Response | DeferredResponse)
    for done in backend.waiting:
        done(None)
    assert metrics.in_flight == 0
