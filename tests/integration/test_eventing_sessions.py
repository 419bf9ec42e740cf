"""NATS connections of backends: reused, replaced only by working ones, and reported when lost."""

from collections.abc import AsyncIterator

import pytest

from kit.eventually import eventually
from kit.nats.server import NatsServer, a_nats_server
from quintet.apis.meta import ObjectKey
from quintet.clock import SystemClock
from quintet.eventing.sessions import Sessions
from quintet.nats.credentials import NatsCredentials
from quintet.nats.errors import LoginRefused, ServerUnreachable
from quintet.nats.options import NatsOptions

BUS = ObjectKey("shop", "bus")
USERS = {"authorization": {"users": [{"user": "a", "password": "1"}, {"user": "b", "password": "2"}]}}


@pytest.fixture
async def nats(tmp_path) -> AsyncIterator[NatsServer]:
    async with a_nats_server(tmp_path, USERS) as server:
        yield server


@pytest.fixture
async def sessions() -> AsyncIterator[Sessions]:
    made = Sessions(SystemClock())
    yield made
    await made.close()


def options_for_user(nats: NatsServer, user: str, password: str) -> NatsOptions:
    credentials = NatsCredentials(user, password)
    return NatsOptions(nats.url, credentials=credentials, max_reconnects=0, connect_seconds=60.0)


async def test_session_is_reused_while_nothing_changes(nats, sessions: Sessions):
    first = await sessions.open(BUS, options_for_user(nats, "a", "1"), "v1")
    assert await sessions.open(BUS, options_for_user(nats, "a", "1"), "v1") is first
    assert sessions.current(BUS, nats.url) is first
    assert sessions.current(ObjectKey("shop", "other"), nats.url) is None


async def test_failing_credentials_keep_existing_session(nats, sessions: Sessions):
    first = await sessions.open(BUS, options_for_user(nats, "a", "1"), "v1")
    with pytest.raises(LoginRefused):
        await sessions.open(BUS, options_for_user(nats, "b", "wrong"), "v2")
    assert sessions.current(BUS, nats.url) is first
    second = await sessions.open(BUS, options_for_user(nats, "b", "2"), "v3")
    assert sessions.current(BUS, nats.url) is second
    assert first.closed


async def test_lost_connection_is_reported_and_not_reused(nats, sessions: Sessions):
    await sessions.open(BUS, options_for_user(nats, "a", "1"), "v1")
    told: list[ObjectKey] = []
    sessions.listeners.append(told.append)
    await nats.kill()

    def assert_lost() -> None:
        assert told == [BUS]
        assert sessions.has_lost(BUS)

    await eventually(assert_lost, within=90)
    assert sessions.current(BUS, nats.url) is None
    with pytest.raises(ServerUnreachable):
        await sessions.open(BUS, options_for_user(nats, "a", "1"), "v1")
    await nats.start()
    again = await sessions.open(BUS, options_for_user(nats, "a", "1"), "v1")
    assert sessions.current(BUS, nats.url) is again
    assert not sessions.has_lost(BUS)


async def test_unneeded_session_is_closed_silently(nats, sessions: Sessions):
    client = await sessions.open(BUS, options_for_user(nats, "a", "1"), "v1")
    told: list[ObjectKey] = []
    sessions.listeners.append(told.append)
    await sessions.keep_only(BUS, [nats.url])
    assert not client.closed
    await sessions.keep_only(BUS, [])
    assert (client.closed, told, sessions.urls(BUS)) == (True, [], [])
