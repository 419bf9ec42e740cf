"""The publisher proxy as a process in front of a real NATS server: every request and its response."""

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from kit.cli.quintet import COMMAND
from kit.eventually import eventually
from kit.nats.publishers import (
    CONFIG,
    STREAM,
    SUBJECT,
    Publisher,
    Stream,
    a_publisher,
    a_stream,
    batch,
    binary,
    members,
    post,
    settings,
    structured,
)
from kit.nats.server import NatsServer, a_nats_server
from kit.process import Program
from quintet.eventing.settings import VARIABLE, encode_settings
from quintet.nats.errors import StreamNotFound


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with a_nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.fixture(scope="module")
async def shared_stream(server: NatsServer) -> AsyncIterator[Stream]:
    async with a_stream(server) as made:
        yield made


@pytest.fixture
async def stream(shared_stream: Stream) -> Stream:
    """The stream, empty."""
    with contextlib.suppress(StreamNotFound):
        await shared_stream.jetstream.delete_stream(STREAM)
    await shared_stream.jetstream.create_stream(CONFIG)
    return shared_stream


@pytest.fixture(scope="module")
async def shared_publisher(server: NatsServer) -> AsyncIterator[Publisher]:
    async with a_publisher(settings(server.url)) as running:
        yield running


@pytest.fixture
async def publisher(shared_publisher: Publisher, stream: Stream) -> Publisher:
    await shared_publisher.ready()
    return shared_publisher


# Stored events.


async def test_binary_event_is_stored_unchanged(publisher: Publisher, stream: Stream):
    answer = await publisher.ask(
        binary(7, b'{"a": 1}', "traceparent: 00-1-2-01", time="2030-01-01T00:00:00Z", color="dark%20red")
    )
    assert (answer.status, answer.body) == (204, b"")
    stored = await stream.message(1)
    assert (stored.subject, stored.payload) == (SUBJECT, b'{"a": 1}')
    headers = dict(await stream.headers(1))
    assert headers.pop("Nats-Msg-Id")
    assert headers == {
        "Nats-Expected-Stream": STREAM,
        "ce-specversion": "1.0",
        "ce-id": "7",
        "ce-source": "/shop",
        "ce-type": "order.created.v1",
        "ce-originaltype": "order.created.v1",
        "ce-time": "2030-01-01T00:00:00Z",
        "ce-color": "dark%20red",
        "content-type": "application/json",
        "traceparent": "00-1-2-01",
    }


async def test_structured_event_is_stored_like_binary_event(publisher: Publisher, stream: Stream):
    for request in (
        binary(1, b'{"a":1}', subject="a%20b", count="5"),
        structured(2, subject="a b", count=5, datacontenttype="application/json", data={"a": 1}),
    ):
        assert (await publisher.ask(request)).status == 204
    first, second = await stream.message(1), await stream.message(2)
    assert json.loads(first.payload) == json.loads(second.payload)
    same = [{**await stream.headers(number), "ce-id": "", "Nats-Msg-Id": ""} for number in (1, 2)]
    assert same[0] == same[1]


async def test_binary_data_is_preserved(publisher: Publisher, stream: Stream):
    data = bytes(range(256))
    request = structured(datacontenttype="image/png", data_base64=base64.b64encode(data).decode())
    assert (await publisher.ask(request)).status == 204
    assert (await stream.message(1)).payload == data
    assert (await stream.headers(1))["content-type"] == "image/png"


@pytest.mark.parametrize(
    ("source", "event_type", "want_subject"),
    [
        pytest.param("/default/shop.one/", "order.created.v1", "kyma.defaultshopone.order.created.v1", id="a source with dots and slashes"),
        pytest.param(r"a b>c*d\e", "order.created", "kyma.abcde.order.created", id="all characters removed from a source"),
        pytest.param("/shop", "order*>/.cre ated.v1", "kyma.shop.order.created.v1", id="all characters removed from a type"),
        pytest.param("/shop", "sap.kyma.custom.app.order.created.v1", "kyma.sap.kyma.custom.app.order.created.v1", id="a complete type"),
    ],
)  # fmt: skip
async def test_subject_is_built_from_prefix_source_and_type(
    publisher: Publisher, stream: Stream, source: str, event_type: str, want_subject: str
):
    assert (await publisher.ask(structured(source=source, type=event_type))).status == 204
    assert (await stream.message(1)).subject == want_subject
    assert (await stream.headers(1))["ce-originaltype"] == event_type.replace(" ", "%20")


async def test_event_sent_twice_is_stored_once(publisher: Publisher, stream: Stream):
    for request in (binary(1), binary(1), structured(1), binary(2), binary(1, source="/other"), binary(1)):
        assert (await publisher.ask(request)).status == 204
    assert await stream.count() == 3


async def test_source_and_id_are_not_confused_in_deduplication(publisher: Publisher, stream: Stream):
    await publisher.ask(binary("bc", source="a"))
    await publisher.ask(binary("c", source="ab"))
    assert await stream.count() == 2


# Batches.


async def test_batch_is_stored_in_order(publisher: Publisher, stream: Stream):
    assert (await publisher.ask(batch(*(members(number) for number in range(50))))).status == 204
    assert await stream.count() == 50
    assert [(await stream.headers(number))["ce-id"] for number in (1, 2, 50)] == ["0", "1", "49"]


async def test_empty_batch_is_accepted(publisher: Publisher, stream: Stream):
    assert (await publisher.ask(batch())).status == 204
    assert await stream.count() == 0


async def test_batch_with_invalid_event_stores_nothing(publisher: Publisher, stream: Stream):
    answer = await publisher.ask(batch(members(1), members(""), members(3)))
    assert (answer.status, answer.body) == (400, b"event 2 of 3: id: MUST be a non-empty string")
    assert await stream.count() == 0


async def test_batch_with_type_without_subject_stores_nothing(publisher: Publisher, stream: Stream):
    answer = await publisher.ask(batch(members(1), members(2, type="a..b"), members(3, type="b.")))
    assert (answer.status, answer.body) == (
        400,
        b"event 2 of 3: type: MUST NOT have empty segments after cleaning: a..b, and 1 more failed",
    )
    assert await stream.count() == 0


async def test_batch_over_stream_limit_names_failed_event_and_can_be_resent(
    publisher: Publisher, stream: Stream
):
    await stream.jetstream.update_stream(msgspec.structs.replace(CONFIG, max_msgs=2))
    events = [members(number) for number in range(4)]
    answer = await publisher.ask(batch(*events))
    assert answer.status == 507
    assert answer.body.startswith(b"event 3 of 4: the stream is full: "), answer.body
    assert b"and 1 more failed; send the whole batch again" in answer.body
    await stream.jetstream.update_stream(CONFIG)
    assert (await publisher.ask(batch(*events))).status == 204
    assert await stream.count() == 4


# Rejected requests.


@pytest.mark.parametrize(
    ("request_bytes", "want_status", "want_body"),
    [
        pytest.param(binary(""), 400, "id: MUST be a non-empty string", id="binary without an id"),
        pytest.param(structured(""), 400, "id: MUST be a non-empty string", id="structured without an id"),
        pytest.param(structured(source=""), 400, "source: MUST be a non-empty URI-reference", id="without a source"),
        pytest.param(structured(type=None), 400, "type: MUST be a non-empty string", id="without a type"),
        pytest.param(binary(specversion="0.3"), 400, "specversion: MUST be 1.0", id="unsupported specversion"),
        pytest.param(post(b"{}"), 400, "not a CloudEvent: no header ce-specversion, and the Content-Type is not application/cloudevents+json", id="no CloudEvent at all"),
        pytest.param(post(b"{", "Content-Type: application/cloudevents+json"), 400, "the body MUST be a JSON object: Input data was truncated", id="truncated JSON"),
        pytest.param(structured(type="order..created"), 400, "type: MUST NOT have empty segments after cleaning: order..created", id="an empty segment"),
        pytest.param(structured(type="order.>.created"), 400, "type: MUST NOT have empty segments after cleaning: order..created", id="empty after cleaning"),
        pytest.param(structured(type=".order"), 400, "type: MUST NOT have empty segments after cleaning: .order", id="an empty first segment"),
        pytest.param(structured(source="/./"), 400, "source: MUST NOT be empty after cleaning: /./", id="source empty after cleaning"),
        pytest.param(structured(type="a" * 2000), 400, "source, type: MUST NOT give a subject of more than 1024 bytes", id="a trailing dot in the type"),
        pytest.param(binary(7, b"x" * 65_537), 413, "the body is larger than 65536 bytes\n", id="more than 64 KiB"),
        pytest.param(b"GET /publish HTTP/1.1\r\nHost: x\r\n\r\n", 405, "publish events with POST /publish", id="GET"),
        pytest.param(binary().replace(b"POST", b"PUT"), 405, "publish events with POST /publish", id="PUT"),
        pytest.param(binary().replace(b"/publish", b"/events"), 404, "not found: publish events with POST /publish", id="another path"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not found: publish events with POST /publish", id="root path"),
        pytest.param(b"POST /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405, "only GET is allowed", id="POST to a health endpoint"),
    ],
)  # fmt: skip
async def test_rejected_request_reports_reason(
    publisher: Publisher, stream: Stream, request_bytes: bytes, want_status: int, want_body: str
):
    answer = await publisher.ask(request_bytes)
    assert (answer.status, answer.body.decode()) == (want_status, want_body)
    assert await stream.count() == 0


async def test_body_of_64_kib_is_accepted(publisher: Publisher, stream: Stream):
    assert (await publisher.ask(binary(7, b"x" * 65_536))).status == 204
    assert len((await stream.message(1)).payload) == 65_536


async def test_method_not_allowed_lists_allowed_methods(publisher: Publisher):
    assert (await publisher.get("/publish")).headers["allow"] == "POST"


async def test_pipelined_requests_are_answered_in_order(publisher: Publisher, stream: Stream):
    async with publisher.client() as client:
        client.send(b"".join([binary(1), binary(""), structured(2), binary(3, type="a..b"), binary(4)]))
        assert [(await client.answer()).status for _ in range(5)] == [204, 400, 204, 400, 204]
    assert await stream.count() == 3


# Missing streams and full streams.


async def test_missing_stream_returns_504_until_it_exists(publisher: Publisher, stream: Stream):
    await stream.jetstream.delete_stream(STREAM)
    answer = await publisher.ask(binary())
    assert (answer.status, answer.body) == (504, b"no stream has the subject of the event")
    assert answer.headers["retry-after"] == "1"
    await stream.jetstream.create_stream(CONFIG)
    assert (await publisher.ask(binary())).status == 204


async def test_stream_with_other_name_returns_504(publisher: Publisher, stream: Stream):
    await stream.jetstream.delete_stream(STREAM)
    await stream.jetstream.create_stream(msgspec.structs.replace(CONFIG, name="other"))
    try:
        answer = await publisher.ask(binary())
        assert answer.status == 504, answer
        assert answer.body.startswith(b"another stream has the subject of the event"), answer
    finally:
        await stream.jetstream.delete_stream("other")


async def test_full_stream_returns_507_until_there_is_room(publisher: Publisher, stream: Stream):
    await stream.jetstream.update_stream(msgspec.structs.replace(CONFIG, max_msgs=1))
    assert (await publisher.ask(binary(1))).status == 204
    answer = await publisher.ask(binary(2))
    assert answer.status == 507, answer
    assert answer.body.startswith(b"the stream is full: "), answer
    await stream.jetstream.purge_stream(STREAM)
    assert (await publisher.ask(binary(2))).status == 204


async def test_event_over_stream_message_size_returns_413(publisher: Publisher, stream: Stream):
    await stream.jetstream.update_stream(msgspec.structs.replace(CONFIG, max_msg_size=1000))
    answer = await publisher.ask(binary(1, b"x" * 2000))
    assert answer.status == 413, answer


# Metrics, health and readiness.


async def test_metrics_count_requests_events_and_duration(server: NatsServer, stream: Stream):
    async with a_publisher(settings(server.url)) as publisher:
        await publisher.ready()
        for request in (binary(1), binary(2), binary(""), batch(members(3), members(4))):
            await publisher.ask(request)
        await eventually(lambda: _assert_metrics(publisher, server.port))


async def _assert_metrics(publisher: Publisher, port: int) -> None:
    shown = await publisher.metrics()
    for line in (
        'eventing_epp_requests_total{code="204",method="POST",path="/publish"} 3.0',
        'eventing_epp_requests_total{code="400",method="POST",path="/publish"} 1.0',
        'eventing_epp_requests_duration_seconds_count{code="204",method="POST",path="/publish"} 3.0',
        f'eventing_epp_backend_duration_milliseconds_count{{code="204",destination_service="127.0.0.1:{port}"}} 4.0',
        'eventing_epp_event_type_published_total{code="204",event_source="/shop",event_type="order.created.v1"} 4.0',
        "eventing_epp_health 1.0",
        "eventing_epp_events_in_flight 0.0",
    ):
        assert line in shown.splitlines(), shown


async def test_metrics_port_serves_only_metrics(publisher: Publisher):
    answer = await publisher.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", port=publisher.metrics_port)
    assert answer.status == 404


async def test_health_and_readiness_return_200_when_connected(publisher: Publisher):
    for path in ("/healthz", "/readyz"):
        assert (await publisher.get(path)).status == 200


async def test_publisher_starts_before_nats_and_becomes_ready_with_it(tmp_path: Path):
    server = NatsServer(tmp_path / "nats")
    async with a_publisher(settings(server.url)) as publisher:
        unready = await publisher.get("/readyz")
        assert unready.status == 500, unready
        assert (await publisher.get("/healthz")).status == 200
        refused = await publisher.ask(binary())
        assert refused.status == 502, refused
        await server.start()
        try:
            async with a_stream(server):
                await publisher.ready()
                assert (await publisher.ask(binary())).status == 204
        finally:
            await server.kill()


@pytest.mark.parametrize(
    ("password", "want_status", "want_words"),
    [
        pytest.param("wrong", 500, b"rejected the login", id="wrong"),
        pytest.param("right", 200, b"ok", id="right"),
    ],
)
async def test_readiness_reports_whether_login_works(
    tmp_path: Path, password: str, want_status: int, want_words: bytes
):
    (tmp_path / "username").write_text("shop\n")
    (tmp_path / "password").write_text(f"{password}\n")
    users = {"users": [{"user": "shop", "password": "right"}]}
    async with (
        a_nats_server(tmp_path / "nats", {"authorization": users}) as server,
        a_publisher(settings(server.url, credentials=str(tmp_path))) as publisher,
    ):

        async def assert_reported() -> None:
            answer = await publisher.get("/readyz")
            assert answer.status == want_status, answer
            assert want_words in answer.body, answer

        await eventually(assert_reported)
        assert not [line for line in publisher.program.log if password in line.split()]


async def test_unreadable_credentials_end_process_with_reason(tmp_path: Path):
    (tmp_path / "nkey").write_text("nonsense")
    publisher = Publisher(settings("nats://127.0.0.1:1", credentials=str(tmp_path)))
    await publisher.program.start()
    assert await publisher.program.ended() == 1
    assert "invalid Secret with credentials: nkey: " in publisher.program.log[-1], publisher.program.log


async def test_publisher_with_limited_reconnects_exits_with_reason(tmp_path: Path):
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_publisher(settings(server.url, max_reconnects=2)) as publisher,
    ):
        await publisher.ready()
        await server.kill()
        assert await publisher.program.ended() == 1
        assert any("gave up" in line for line in publisher.program.log), publisher.program.log


async def test_headers_count_toward_small_server_payload_limit(tmp_path: Path):
    async with (
        a_nats_server(tmp_path / "nats", {"max_payload": 2048}) as server,
        a_stream(server),
        a_publisher(settings(server.url)) as publisher,
    ):
        await publisher.ready()
        answer = await publisher.ask(binary(1, b"x" * 2000))
        assert answer.status == 413, answer
        assert b"the NATS server accepts 2048" in answer.body, answer
        assert (await publisher.ask(binary(2, b"x" * 1000))).status == 204
        assert not [line for line in publisher.program.log if "lost" in line], publisher.program.log


async def test_occupied_port_ends_process_with_reason(publisher: Publisher, server: NatsServer):
    second = Program(
        str(COMMAND), "publisher-proxy", "--address", f"127.0.0.1:{publisher.port}",
        environment={VARIABLE: encode_settings(settings(server.url))},
    )  # fmt: skip
    await second.start()
    assert await second.ended() == 1
    assert "choose another port" in "\n".join(second.log), second.log
