"""What readiness promises: events are stored and delivered. Full streams and missing permissions are reported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.eventually import eventually, eventually_true
from kit.kinds.eventingbackends import (
    connect_jetstream,
    create,
    create_secret,
    get,
    update_config,
    wait_for_reason,
    wait_until_ready,
)
from kit.nats.publishers import CONFIG, a_publisher, a_stream, binary, settings
from kit.nats.server import NatsServer, a_nats_server
from quintet.clock import SystemClock
from quintet.kube.client import Client
from quintet.nats.client import NatsClient
from quintet.nats.config import ConsumerConfig
from quintet.nats.credentials import from_secret
from quintet.nats.errors import NatsError, NotPermitted
from quintet.nats.jetstream import JetStream
from quintet.nats.options import NatsOptions

NEXT, ACK, INBOX = "$JS.API.CONSUMER.MSG.NEXT.sap.>", "$JS.ACK.sap.>", "_INBOX.>"


def a_user(name: str, *, publish: str = "nothing", subscribe: str = "nothing") -> dict[str, Any]:
    """Return a user who may do everything except one thing."""
    permissions = {
        "publish": {"allow": [">"], "deny": [publish]},
        "subscribe": {"allow": [">"], "deny": [subscribe]},
    }
    return {"user": name, "password": "pw", "permissions": permissions}


@asynccontextmanager
async def a_server(store: Path, *users: dict[str, Any]) -> AsyncIterator[NatsServer]:
    """Run a server that gives everything to clients without a login."""
    owner = {"user": "owner", "password": "pw"}
    config = {"authorization": {"users": [owner, *users]}, "no_auth_user": "owner"}
    async with a_nats_server(store, config) as server:
        yield server


@asynccontextmanager
async def a_client(server: NatsServer, user: str) -> AsyncIterator[NatsClient]:
    login = from_secret({"username": user.encode(), "password": b"pw"})
    async with NatsClient(NatsOptions(server.url, login, connect_seconds=20.0), SystemClock()) as client:
        yield client


# Full streams.


@pytest.mark.parametrize(
    ("limit", "value"), [("maxMessages", 3), ("maxBytes", "100Ki"), ("maxMessagesPerSubject", 3)]
)
async def test_backend_with_full_stream_is_not_ready_and_recovers(
    backend_operator, witness, backends: Client, nats, namespace, limit, value
):
    key = await create(backends, namespace, "any", url=nats.url, retentionPolicy="limits", **{limit: value})
    await wait_until_ready(backends, key)
    async with connect_jetstream(nats.url) as jetstream:
        for _ in range(3):
            await jetstream.publish("kyma.shop.order", bytes(15_000))
        found = await wait_for_reason(backends, key, "Stream full")
        assert f"raise {limit}" in found.message
        await jetstream.purge_stream("sap")
    await wait_until_ready(backends, key)
    witness.assert_truth()


async def test_configuration_changes_while_the_stream_is_full(
    backend_operator, backends: Client, nats, namespace
):
    async with connect_jetstream(nats.url) as jetstream:
        config = {"url": nats.url, "retentionPolicy": "limits", "maxMessages": 1}
        key = await create(backends, namespace, "any", **config)
        await wait_until_ready(backends, key)
        await jetstream.publish("kyma.shop.order", b"{}")
        await wait_for_reason(backends, key, "Stream full")
        await update_config(backends, key, **config, maxMessagesPerSubject=77)

        async def assert_in_use() -> None:
            used = {each.name: each.value for each in (await get(backends, key)).status.effective_config}
            assert used["maxMessagesPerSubject"] == "77"

        await eventually(assert_in_use, within=60)
        await wait_for_reason(backends, key, "Stream full")
    await update_config(backends, key, **{**config, "maxMessages": 5})
    await wait_until_ready(backends, key)


# Permissions.


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        ({"publish": "kyma.>"}, "kyma.>"),
        ({"publish": "retry.sap.*"}, "retry.sap.*"),
        ({"publish": "dead-letter.sap.*"}, "dead-letter.sap.*"),
        ({"publish": "$JS.API.>"}, "$JS.API.>"),
        ({"publish": NEXT}, NEXT),
        ({"publish": ACK}, ACK),
        ({"subscribe": INBOX}, "inboxes"),
    ],
    ids=["events", "retries", "dead letters", "API", "pull", "acknowledge", "responses"],
)
async def test_backend_with_insufficient_permissions_names_the_missing_one(
    backend_operator, witness, backends: Client, namespace, tmp_path, refused, told
):
    async with a_server(tmp_path / "nats", a_user("limited", **refused), a_user("good")) as server:
        await create_secret(backends, namespace, "login", username="limited", password="pw")
        key = await create(backends, namespace, "any", url=server.url, credentialsSecretRef="login")
        found = await wait_for_reason(backends, key, "Not permitted by the server")
        assert told in found.message
        await create_secret(backends, namespace, "login", username="good", password="pw")
        await wait_until_ready(backends, key)
        async with connect_jetstream(server.url) as jetstream:
            assert (await jetstream.stream_info("sap")).state.last_seq == 0, "a probe was stored"
    witness.assert_truth()


async def test_publisher_without_permission_responds_at_once_with_the_reason(tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "username").write_text("limited")
    (secret / "password").write_text("pw")
    async with (
        a_server(tmp_path / "nats", a_user("limited", publish="kyma.secret.>")) as server,
        a_stream(server, CONFIG),
        a_publisher(settings(server.url, seconds=300.0, credentials=str(secret))) as publisher,
    ):
        await publisher.ready()
        refused = [publisher.ask(binary(number, source="secret")) for number in range(5)]
        answers = await asyncio.gather(*refused, publisher.ask(binary(9, source="open")))
        assert [each.status for each in answers] == [502] * 5 + [204]
        assert answers[0].body == b"no permission to publish to kyma.secret.order.created.v1"


async def test_publisher_that_gets_no_responses_is_not_ready_and_tells_why(tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "username").write_text("deaf")
    (secret / "password").write_text("pw")
    async with (
        a_server(tmp_path / "nats", a_user("deaf", subscribe=INBOX)) as server,
        a_stream(server, CONFIG),
        a_publisher(settings(server.url, seconds=300.0, credentials=str(secret))) as publisher,
    ):

        async def assert_told() -> None:
            for answer in (await publisher.get("/readyz"), await publisher.ask(binary())):
                assert answer.status in (500, 502)
                assert b"no permission to subscribe to _INBOX." in answer.body

        await eventually(assert_told, within=60)


async def test_client_without_permission_to_receive_responses_cannot_connect(tmp_path):
    async with a_server(tmp_path, a_user("deaf", subscribe=INBOX)) as server:
        with pytest.raises(NotPermitted, match="no permission to subscribe to _INBOX"):
            async with a_client(server, "deaf"):
                pass


async def test_refused_pull_request_is_reported_and_works_once_it_is_allowed(tmp_path):
    async with (
        a_server(tmp_path, a_user("worker", publish=NEXT)) as server,
        a_stream(server, CONFIG) as stream,
        a_client(server, "worker") as client,
    ):
        await stream.jetstream.create_or_update_consumer("sap", ConsumerConfig(durable_name="orders"))
        errors: list[NatsError] = []
        received: list[Any] = []
        pull = JetStream(client).pull("sap", "orders", 5, received.append, on_error=errors.append)
        await eventually_true(lambda: len(errors) >= 2)
        assert not pull.is_active
        assert isinstance(pull.failure, NotPermitted)
        server.config["authorization"]["users"][1] = a_user("worker")
        server.reload()
        await eventually_true(lambda: pull.is_active, within=60)
        assert pull.failure is None
        await stream.jetstream.publish("kyma.shop.order", b"{}")
        await eventually_true(lambda: received)
        pull.stop()
