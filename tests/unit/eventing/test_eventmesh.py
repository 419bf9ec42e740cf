"""The Secret of an EventMesh, and OAuth2 tokens."""

import asyncio
import json

import pytest

from kit.clock import VirtualClock, settle
from quintet.eventing import oauth
from quintet.eventing.decide.eventmesh import MALFORMED, EventMesh, SecretError, from_secret
from quintet.eventing.publisher.eventmesh_backend import EventMeshBackend
from quintet.eventing.settings import BebSettings
from quintet.eventing.tokens import PAUSE_AFTER_FAILURE, Token, TokenCache, TokenError

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


def test_secret_gives_entry_of_rest_broker():
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
        pytest.param({}, "messaging: is missing", id="empty Secret"),
        pytest.param({"messaging": b"nonsense", "namespace": b"x"}, "messaging: must be a JSON list", id="invalid JSON"),
        pytest.param({"messaging": b"\xff", "namespace": b"x"}, "messaging: must be a JSON list", id="invalid UTF-8"),
        pytest.param(secret(AMQP), "no entry has the broker type saprestmgw", id="other broker only"),
        pytest.param(secret({**REST, "oa2": {"clientid": "the-client"}}), "missing required field `clientsecret`", id="incomplete credentials"),
        pytest.param(secret({**REST, "oa2": {**LOGIN, "granttype": "password"}}), "oa2.granttype must be", id="other grant type"),
        pytest.param(secret({**REST, "uri": "ftp://mesh"}), "uri must be a URL", id="other scheme"),
        pytest.param(secret({**REST, "uri": "http://mesh/\r\nX: y"}), "uri must be a URL", id="line break in URL"),
        pytest.param(secret({**REST, "uri": "http://mesh:99999/"}), "uri must be a URL", id="invalid port"),
        pytest.param(secret(REST, namespace=b" \n"), "namespace: is missing", id="blank namespace"),
        pytest.param(secret(REST, namespace=b"a\r\nb"), "namespace: must be one line", id="namespace with line break"),
    ],
)  # fmt: skip
def test_invalid_secret_names_the_invalid_part(data: dict[str, bytes], want_detail: str):
    with pytest.raises(SecretError) as raised:
        from_secret(data)
    assert str(raised.value) == MALFORMED
    assert want_detail in raised.value.detail
    assert "hush" not in raised.value.detail
    assert "the-client" not in raised.value.detail


def test_repr_hides_secret_and_token():
    assert "hush" not in repr(from_secret(secret(REST)))
    assert "hush" not in repr(Token("hush", 60))


class Endpoint:
    """A token endpoint with numbered tokens that can be held back."""

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


async def test_concurrent_requests_share_one_token_fetch():
    endpoint = Endpoint()
    endpoint.open.clear()
    tokens = TokenCache(endpoint.fetch, VirtualClock())
    waiting = [asyncio.create_task(tokens.current()) for _ in range(50)]
    await settle()
    waiting[0].cancel()
    await settle()
    endpoint.open.set()
    assert {await each for each in waiting[1:]} == {"token-1"}
    assert endpoint.fetches == 1


async def test_token_is_renewed_in_background_before_it_expires():
    endpoint, clock = Endpoint(600), VirtualClock()
    tokens = TokenCache(endpoint.fetch, clock)
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


async def test_expired_token_is_never_returned():
    endpoint, clock = Endpoint(600), VirtualClock()
    tokens = TokenCache(endpoint.fetch, clock)
    await tokens.current()
    await clock.advance(600)
    assert await tokens.current() == "token-2"


async def test_rejected_token_is_replaced_once_for_several_requests():
    endpoint = Endpoint()
    tokens = TokenCache(endpoint.fetch, VirtualClock())
    old = await tokens.current()
    for _ in range(3):
        tokens.invalidate(old)
        assert await tokens.current() == "token-2"
    assert endpoint.fetches == 2


async def test_failed_fetch_raises_for_all_and_is_not_repeated_immediately():
    endpoint, clock = Endpoint(), VirtualClock()
    endpoint.failure = "the door is closed"
    tokens = TokenCache(endpoint.fetch, clock)
    for _ in range(10):
        with pytest.raises(TokenError, match="the door is closed"):
            await tokens.current()
    assert endpoint.fetches == 1
    endpoint.failure = None
    await clock.advance(PAUSE_AFTER_FAILURE)
    assert await tokens.current() == "token-2"


async def test_failed_renewal_keeps_the_valid_token():
    endpoint, clock = Endpoint(600), VirtualClock()
    tokens = TokenCache(endpoint.fetch, clock)
    await tokens.current()
    endpoint.failure = "not today"
    await clock.advance(550)
    assert await tokens.current() == "token-1"
    await settle()
    assert await tokens.current() == "token-1"
    await tokens.close()


async def test_backend_is_ready_while_it_has_a_valid_token(tmp_path, monkeypatch):
    endpoint, clock = Endpoint(600), VirtualClock()
    monkeypatch.setattr(oauth, "fetch_token", lambda mesh, caller: endpoint.fetch())
    for name, data in secret(REST).items():
        (tmp_path / name).write_bytes(data)
    backend = EventMeshBackend(BebSettings(credentials=str(tmp_path)), "sap", 5.0, clock)
    assert backend.problem() == "no token was fetched yet"
    running = asyncio.create_task(backend.run())
    await clock.advance(530)
    endpoint.failure = "not today"
    await clock.advance(54)
    assert endpoint.fetches > 2, "a renewal that failed is tried again while the token is good"
    assert backend.problem() is None
    await clock.advance(2)
    assert backend.problem() == "not today"
    endpoint.failure = None
    await clock.advance(2)
    assert backend.problem() is None
    running.cancel()
    await asyncio.wait([running])
