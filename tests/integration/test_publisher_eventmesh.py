"""The publisher proxy for backends of type beb, with a fake SAP Event Mesh (`kit.nats.eventmesh`)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kit.eventually import eventually
from kit.nats.eventmesh import EventMeshDouble, an_event_mesh
from kit.nats.publishers import Publisher, a_publisher, batch, binary, members, structured
from quintet.eventing.settings import BebSettings, PublisherSettings


def publisher_settings(folder: Path, *, seconds: float = 20.0) -> PublisherSettings:
    return PublisherSettings(
        namespace="shop",
        backend="mesh",
        event_type_prefix="sap.kyma.custom",
        request_seconds=seconds,
        beb=BebSettings(credentials=str(folder), qos="AT_LEAST_ONCE"),
    )


@pytest.fixture
async def mesh() -> AsyncIterator[EventMeshDouble]:
    async with an_event_mesh() as running:
        yield running


@pytest.fixture
async def publisher(mesh: EventMeshDouble, tmp_path: Path) -> AsyncIterator[Publisher]:
    async with a_publisher(publisher_settings(mesh.secret(tmp_path / "secret"))) as running:
        await running.ready()
        yield running


class Pair(NamedTuple):
    """A proxy and the Event Mesh that it publishes to."""

    publisher: Publisher
    mesh: EventMeshDouble


@pytest.fixture(scope="module")
async def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    async with (
        an_event_mesh() as mesh,
        a_publisher(publisher_settings(mesh.secret(tmp_path_factory.mktemp("secret")))) as publisher,
    ):
        await publisher.ready()
        yield Pair(publisher, mesh)


@pytest.fixture
def pair(shared_pair: Pair) -> Pair:
    """The shared proxy and Event Mesh with all events cleared."""
    shared_pair.mesh.events.clear()
    shared_pair.mesh.status, shared_pair.mesh.words = 204, b""
    return shared_pair


async def test_event_reaches_eventmesh_with_namespace_and_full_type(
    publisher: Publisher, mesh: EventMeshDouble
):
    answer = await publisher.ask(structured(7, data={"a": 1}, color="red"))
    assert (answer.status, answer.body) == (204, b"")
    (event,) = mesh.events
    assert event.body == b'{"a": 1}'
    wanted = {
        "ce-id": "7",
        "ce-specversion": "1.0",
        "ce-source": "default/shop/one",
        "ce-type": "sap.kyma.custom.shop.order.created.v1",
        "ce-originaltype": "order.created.v1",
        "ce-originalsource": "/shop",
        "ce-color": "red",
        "content-type": "application/json",
        "qos": "AT_LEAST_ONCE",
        "authorization": "Bearer token-1",
    }
    assert {name: event.headers.get(name) for name in wanted} == wanted


async def test_full_event_type_is_not_changed(pair: Pair):
    await pair.publisher.ask(structured(type="sap.kyma.custom.app.order.created.v1"))
    assert pair.mesh.events[0].headers["ce-type"] == "sap.kyma.custom.app.order.created.v1"


async def test_one_token_is_used_for_many_events(publisher: Publisher, mesh: EventMeshDouble):
    answers = await asyncio.gather(*(publisher.ask(binary(number)) for number in range(100)))
    assert {answer.status for answer in answers} == {204}
    assert len(mesh.events) == 100
    assert mesh.tokens == ["token-1"]


async def test_batch_is_forwarded_event_by_event(pair: Pair):
    assert (await pair.publisher.ask(batch(*(members(number) for number in range(5))))).status == 204
    assert sorted(event.headers["ce-id"] for event in pair.mesh.events) == ["0", "1", "2", "3", "4"]


async def test_revoked_token_is_replaced_once_without_failed_events(
    publisher: Publisher, mesh: EventMeshDouble
):
    await publisher.ask(binary("first"))
    mesh.forget_tokens()
    answers = await asyncio.gather(*(publisher.ask(binary(number)) for number in range(50)))
    assert {answer.status for answer in answers} == {204}
    assert mesh.tokens == ["token-1", "token-2"]
    assert mesh.refused >= 1


async def test_token_is_renewed_before_expiry(mesh: EventMeshDouble, tmp_path: Path):
    mesh.expires_in = 2
    async with a_publisher(publisher_settings(mesh.secret(tmp_path / "secret"))) as publisher:
        await publisher.ready()

        async def assert_renewed() -> None:
            assert (await publisher.ask(binary())).status == 204
            assert len(mesh.tokens) >= 3, mesh.tokens

        await eventually(assert_renewed, within=60)
        assert mesh.refused == 0


@pytest.mark.parametrize(
    ("status", "words", "want_status", "want_body"),
    [
        pytest.param(400, b"no such type", 400, b"no such type", id="an error that the publisher can fix"),
        pytest.param(429, b"slow down", 429, b"slow down", id="too many requests"),
        pytest.param(507, b"", 507, b"127.0.0.1 responded with 507", id="a full queue"),
        pytest.param(404, b"secret words", 502, b"127.0.0.1 responded with 404", id="a wrong address"),
        pytest.param(302, b"", 502, b"127.0.0.1 responded with 302", id="a redirect is not followed"),
        pytest.param(500, b"a trace", 502, b"127.0.0.1 responded with 500", id="a server error"),
    ],
)
async def test_eventmesh_error_is_mapped_to_publisher_response(
    pair: Pair, status: int, words: bytes, want_status: int, want_body: bytes
):
    pair.mesh.status, pair.mesh.words = status, words
    answer = await pair.publisher.ask(binary())
    assert (answer.status, answer.body) == (want_status, want_body)
    if status == 429:
        assert answer.headers["retry-after"] == "7"


async def test_unreachable_eventmesh_returns_502(mesh: EventMeshDouble, tmp_path: Path):
    folder = mesh.secret(tmp_path / "secret")
    text = (folder / "messaging").read_text().replace(f'"uri": "{mesh.url}"', '"uri": "http://127.0.0.1:1"')
    (folder / "messaging").write_text(text)
    async with a_publisher(publisher_settings(folder)) as publisher:
        await publisher.ready()
        answer = await publisher.ask(binary())
        assert answer.status == 502, answer
        assert answer.body.startswith(b"cannot connect to 127.0.0.1"), answer


async def test_refused_login_is_reported_by_readiness_and_to_publishers(
    mesh: EventMeshDouble, tmp_path: Path
):
    async with a_publisher(
        publisher_settings(mesh.secret(tmp_path / "secret", client_secret="wrong"))
    ) as publisher:

        async def assert_reported() -> None:
            answer = await publisher.get("/readyz")
            assert answer.status == 500, answer
            assert answer.body == b"no token: 127.0.0.1 rejected the credentials (status 401)", answer

        await eventually(assert_reported)
        answer = await publisher.ask(binary())
        assert (answer.status, answer.body) == (
            502,
            b"no token: 127.0.0.1 rejected the credentials (status 401)",
        )
        assert not [line for line in publisher.program.log if "wrong" in line or "hush" in line]


async def test_publisher_becomes_ready_when_login_works_later(mesh: EventMeshDouble, tmp_path: Path):
    mesh.token_status = 503
    async with a_publisher(publisher_settings(mesh.secret(tmp_path / "secret"))) as publisher:
        assert (await publisher.ask(binary())).status == 502
        mesh.token_status = 200
        await publisher.ready()
        assert (await publisher.ask(binary())).status == 204


async def test_malformed_secret_ends_process_with_reason(tmp_path: Path):
    (tmp_path / "messaging").write_text("[]")
    publisher = Publisher(publisher_settings(tmp_path))
    await publisher.program.start()
    assert await publisher.program.ended() == 1
    assert publisher.program.log[-1] == (
        "Error: The EventMesh secret data is not formatted properly. "
        "(messaging: no entry has the broker type saprestmgw)"
    )
