"""The Secret of an EventMesh, and tokens of OAuth2."""

import asyncio
import json

import pytest

from kit.clock import VirtualClock, settle
from quintet.eventing import oauth
from quintet.eventing.decide.eventmesh import MALFORMED, EventMesh, SecretError, from_secret
from quintet.eventing.publisher.mesh import MeshBackend
from quintet.eventing.settings import BebSettings
from quintet.eventing.tokens import PAUSE_AFTER_FAILURE, Token, TokenError, Tokens

LOGIN = {
    "clientid": "the-client",
    "clientsecret": "hush-hush",
    "tokenendpoint": "https://login.example.com/oauth/token",
    "granttype": "client_credentials",
}
REST = {"broker": {"type": "saprestmgw"}, "oa2": LOGIN, "uri": "https://mesh.example.com/"}
AMQP = {"broker": {"type": "sapmgw"}, "oa2": {**LOGIN, "clientid": "other"}, "uri": "wss://mesh.example.com"}


def secret(*entries: object, namespace: bytes = b"default/shop/one") -> dict[str, bytes]:
    return {"messaging": json.dumps(entries).encode(), "namespace": namespace}


def test_the_entry_of_the_rest_broker_is_taken():
    assert from_secret(secret(AMQP, REST)) == EventMesh(
        publish_url="https://mesh.example.com/sap/ems/v1/events",
        token_url="https://login.example.com/oauth/token",
        client_id="the-client",
        client_secret="hush-hush",
        namespace="default/shop/one",
    )


@pytest.mark.parametrize(
    ("data", "want_detail"),
    [
        pytest.param({}, "messaging: is missing", id="an empty Secret"),
        pytest.param({"messaging": b"nonsense", "namespace": b"x"}, "messaging: must be a JSON list", id="no JSON"),
        pytest.param({"messaging": b"\xff", "namespace": b"x"}, "messaging: must be a JSON list", id="no text"),
        pytest.param(secret(AMQP), "no entry is of broker type saprestmgw", id="another broker only"),
        pytest.param(secret({**REST, "oa2": {"clientid": "the-client"}}), "missing required field `clientsecret`", id="half a login"),
        pytest.param(secret({**REST, "oa2": {**LOGIN, "granttype": "password"}}), "oa2.granttype must be", id="another grant"),
        pytest.param(secret({**REST, "uri": "ftp://mesh"}), "uri must be a URL", id="another scheme"),
        pytest.param(secret({**REST, "uri": "http://mesh/\r\nX: y"}), "uri must be a URL", id="a line break in a URL"),
        pytest.param(secret({**REST, "uri": "http://mesh:99999/"}), "uri must be a URL", id="a port that is none"),
        pytest.param(secret(REST, namespace=b" \n"), "namespace: is missing", id="a blank namespace"),
        pytest.param(secret(REST, namespace=b"a\r\nb"), "namespace: must be one line", id="a namespace of two lines"),
    ],
)  # fmt: skip
def test_a_secret_that_cannot_be_used_says_which_part_is_wrong(data: dict[str, bytes], want_detail: str):
    with pytest.raises(SecretError) as raised:
        from_secret(data)
    assert str(raised.value) == MALFORMED
    assert want_detail in raised.value.detail
    assert "hush" not in raised.value.detail
    assert "the-client" not in raised.value.detail


def test_neither_the_secret_nor_a_token_is_shown():
    assert "hush" not in repr(from_secret(secret(REST)))
    assert "hush" not in repr(Token("hush", 60))


class Endpoint:
    """Hands out numbered tokens, when it is told to."""

    def __init__(self, seconds: float = 600.0) -> None:
        self.seconds = seconds
        self.fetches = 0
        self.open = asyncio.Event()
        self.open.set()
        self.failure: str | None = None

    async def fetch(self) -> Token:
        self.fetches += 1
        await self.open.wait()
        if self.failure:
            raise TokenError(self.failure)
        return Token(f"token-{self.fetches}", self.seconds)


async def test_many_who_wait_share_one_fetch():
    endpoint = Endpoint()
    endpoint.open.clear()
    tokens = Tokens(endpoint.fetch, VirtualClock())
    waiting = [asyncio.create_task(tokens.current()) for _ in range(50)]
    await settle()
    waiting[0].cancel()
    await settle()
    endpoint.open.set()
    assert {await each for each in waiting[1:]} == {"token-1"}
    assert endpoint.fetches == 1


async def test_a_token_is_renewed_before_it_ends_and_nobody_waits_for_it():
    endpoint, clock = Endpoint(600), VirtualClock()
    tokens = Tokens(endpoint.fetch, clock)
    assert await tokens.current() == "token-1"
    await clock.advance(539)
    assert await tokens.current() == "token-1"
    assert endpoint.fetches == 1
    await clock.advance(2)
    endpoint.open.clear()
    assert await tokens.current() == "token-1"
    endpoint.open.set()
    await settle()
    assert await tokens.current() == "token-2"
    assert endpoint.fetches == 2


async def test_a_token_that_ended_is_never_handed_out():
    endpoint, clock = Endpoint(600), VirtualClock()
    tokens = Tokens(endpoint.fetch, clock)
    await tokens.current()
    await clock.advance(600)
    assert await tokens.current() == "token-2"


async def test_a_refused_token_is_replaced_once_however_many_were_refused_with_it():
    endpoint = Endpoint()
    tokens = Tokens(endpoint.fetch, VirtualClock())
    old = await tokens.current()
    for _ in range(3):
        tokens.refused(old)
        assert await tokens.current() == "token-2"
    assert endpoint.fetches == 2


async def test_a_failed_fetch_is_told_to_everybody_and_not_repeated_at_once():
    endpoint, clock = Endpoint(), VirtualClock()
    endpoint.failure = "the door is closed"
    tokens = Tokens(endpoint.fetch, clock)
    for _ in range(10):
        with pytest.raises(TokenError, match="the door is closed"):
            await tokens.current()
    assert endpoint.fetches == 1
    endpoint.failure = None
    await clock.advance(PAUSE_AFTER_FAILURE)
    assert await tokens.current() == "token-2"


async def test_a_failed_renewal_leaves_the_old_token_in_use_while_it_is_good():
    endpoint, clock = Endpoint(600), VirtualClock()
    tokens = Tokens(endpoint.fetch, clock)
    await tokens.current()
    endpoint.failure = "not today"
    await clock.advance(550)
    assert await tokens.current() == "token-1"
    await settle()
    assert await tokens.current() == "token-1"
    await tokens.close()


async def test_a_publisher_is_ready_as_long_as_it_holds_a_token_and_again_soon_after(tmp_path, monkeypatch):
    endpoint, clock = Endpoint(600), VirtualClock()
    monkeypatch.setattr(oauth, "fetch", lambda mesh, caller: endpoint.fetch())
    for name, data in secret(REST).items():
        (tmp_path / name).write_bytes(data)
    backend = MeshBackend(BebSettings(credentials=str(tmp_path)), "sap", 5.0, clock)
    assert backend.finding() == "no token was fetched yet"
    running = asyncio.create_task(backend.run())
    await clock.advance(530)
    endpoint.failure = "not today"
    await clock.advance(54)
    assert endpoint.fetches > 2, "a renewal that failed is tried again while the token is good"
    assert backend.finding() is None
    await clock.advance(2)
    assert backend.finding() == "not today"
    endpoint.failure = None
    await clock.advance(2)
    assert backend.finding() is None
    running.cancel()
    await asyncio.wait([running])
