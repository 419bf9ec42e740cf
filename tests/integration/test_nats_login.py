"""Who may connect to a real NATS server, by which login, and what each refusal is called."""

import asyncio
import socket
from datetime import UTC, datetime, timedelta

import pytest

from kit.nats.nkeys import Key, Operator
from kit.nats.server import a_nats_server
from quintet.clock import SystemClock
from quintet.local.controlplane.certificates import Authority
from quintet.nats.client import Client
from quintet.nats.credentials import from_secret
from quintet.nats.errors import (
    CertificateExpired,
    CredentialsError,
    JetStreamUnavailable,
    LoginRefused,
    NotPermitted,
    ProtocolError,
    TlsFailed,
    Unreachable,
    Unresolved,
)
from quintet.nats.jetstream import JetStream
from quintet.nats.options import Options


def a_client(url: str, secret: dict[str, bytes] | None = None, **options) -> Client:
    credentials = from_secret(secret) if secret else None
    return Client(Options(url, credentials, **{"connect_seconds": 20.0, **options}), SystemClock())


async def echoes(url: str, secret: dict[str, bytes] | None = None, **options) -> bool:
    """Whether a message goes out and comes back."""
    async with a_client(url, secret, **options) as client:
        client.subscribe("echo", lambda message: client.publish(message.reply, message.payload))
        return (await client.request("echo", b"hello", timeout=20)).payload == b"hello"


USERS = {"authorization": {"users": [{"user": "ann", "password": "right"}]}}
KEY = Key("U")
OPERATOR = Operator()

LOGINS = [
    pytest.param(USERS, {"username": b"ann", "password": b"right"}, {"username": b"ann", "password": b"wrong"}, id="user and password"),
    pytest.param({"authorization": {"token": "right"}}, {"token": b"right"}, {"token": b"wrong"}, id="a token"),
    pytest.param({"authorization": {"users": [{"nkey": KEY.public}]}}, {"nkey": KEY.seed.encode()}, {"nkey": Key("U").seed.encode()}, id="an nkey"),
    pytest.param(OPERATOR.config(), {"creds": OPERATOR.creds()}, {"creds": Operator().creds()}, id="the token of a creds file"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "right", "wrong"), LOGINS)
async def test_the_right_login_is_let_in_and_the_wrong_one_is_told_so(config, right, wrong, tmp_path):
    async with a_nats_server(tmp_path, config) as server:
        assert await echoes(server.url, right)
        for secret in (wrong, None):
            with pytest.raises(LoginRefused, match=r"refused the login"):
                await echoes(server.url, secret)


async def test_a_token_that_is_too_old_is_refused(tmp_path):
    async with a_nats_server(tmp_path, OPERATOR.config()) as server:
        with pytest.raises(LoginRefused):
            await echoes(server.url, {"creds": OPERATOR.creds(exp=1000)})


async def test_a_user_without_the_right_to_publish_is_told_at_once_and_stays_connected(tmp_path):
    user = {
        "user": "ann",
        "password": "pw",
        "permissions": {"publish": ["echo", "_INBOX.>"], "subscribe": [">"]},
    }
    async with (
        a_nats_server(tmp_path, {"authorization": {"users": [user]}}) as server,
        a_client(server.url, {"username": b"ann", "password": b"pw"}) as client,
    ):
        with pytest.raises(NotPermitted, match=r"secret\.things"):
            await client.request("secret.things", b"", timeout=60)
        client.subscribe("echo", lambda message: client.publish(message.reply, b"yes"))
        assert (await client.request("echo", b"", timeout=20)).payload == b"yes"


async def test_a_server_without_jetstream_says_so(tmp_path):
    async with a_nats_server(tmp_path, jetstream=False) as server, a_client(server.url) as client:
        with pytest.raises(JetStreamUnavailable):
            await JetStream(client).account_info()


async def test_an_account_without_jetstream_says_so(tmp_path):
    config = {
        "accounts": {
            "POOR": {"users": [{"user": "poor", "password": "pw"}]},
            "RICH": {"jetstream": "enabled", "users": [{"user": "rich", "password": "pw"}]},
        }
    }
    async with a_nats_server(tmp_path, config) as server:
        async with a_client(server.url, {"username": b"poor", "password": b"pw"}) as client:
            with pytest.raises(JetStreamUnavailable):
                await JetStream(client).account_info()
        async with a_client(server.url, {"username": b"rich", "password": b"pw"}) as client:
            assert (await JetStream(client).account_info()).streams == 0


# What is no server, or none that answers.


async def test_a_host_without_an_address_is_unresolved():
    with pytest.raises(Unresolved, match=r"nowhere\.invalid"):
        await echoes("nats://nowhere.invalid:4222", connect_seconds=120.0)


async def test_a_port_where_nobody_listens_is_unreachable():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
        await echoes(f"nats://127.0.0.1:{port}")


async def test_a_server_that_never_speaks_is_given_up_in_time():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(Unreachable, match=r"did not answer within 0\.2 s"),
    ):
        await echoes(f"nats://127.0.0.1:{listener.getsockname()[1]}", connect_seconds=0.2)


async def test_a_server_that_speaks_something_else_is_told_from_one_that_is_away():
    async def speak(reader, writer):
        writer.write(b"220 mail.example.com ESMTP\r\n")
        await reader.read()
        writer.close()

    other = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with other:
        with pytest.raises(ProtocolError, match=r"220 mail"):
            await echoes(f"nats://127.0.0.1:{other.sockets[0].getsockname()[1]}")


@pytest.mark.parametrize("url", ["http://a:1", "nats://", "nats://a:notaport", "nats://[::1"])
async def test_an_address_that_is_none_is_refused_without_trying(url):
    with pytest.raises(Unreachable, match="url"):
        await echoes(url)


async def test_only_the_given_addresses_are_connected_to(tmp_path):
    async with a_nats_server(tmp_path) as server:
        name = f"nats://never.resolved.invalid:{server.port}"
        assert await echoes(name, addresses=("127.0.0.1",))
        assert await echoes(name, addresses=("127.99.99.99", "127.0.0.1"))
        with pytest.raises(Unreachable):
            await echoes(server.url, addresses=("127.99.99.99",))


# TLS.


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("authority"))


def encrypted(authority: Authority, *, hosts=("127.0.0.1",), not_after=None, verify=False) -> dict:
    certificate, key = authority.issue("server", "nats", hosts=hosts, not_after=not_after)
    settings = {"cert_file": str(certificate), "key_file": str(key), "timeout": 20}
    return {
        "tls": {
            **settings,
            **({"ca_file": str(authority.directory / "ca.crt"), "verify": True} if verify else {}),
        }
    }


def trusts(authority: Authority, **more: bytes) -> dict[str, bytes]:
    return {"ca.crt": (authority.directory / "ca.crt").read_bytes(), **more}


async def test_tls_works_whether_the_url_or_the_server_asks_for_it(authority, tmp_path):
    async with a_nats_server(tmp_path, encrypted(authority)) as server:
        assert await echoes(server.tls_url, trusts(authority))
        assert await echoes(server.url, trusts(authority))


async def test_tls_verifies_the_name_of_the_url_at_an_address_that_was_given(authority, tmp_path):
    async with a_nats_server(tmp_path, encrypted(authority, hosts=("nats.shop.svc",))) as server:
        options = {"addresses": ("127.0.0.1",)}
        assert await echoes(f"tls://nats.shop.svc:{server.port}", trusts(authority), **options)
        with pytest.raises(TlsFailed, match=r"not valid for 'other\.shop\.svc'"):
            await echoes(f"tls://other.shop.svc:{server.port}", trusts(authority), **options)


async def test_an_expired_certificate_is_called_so(authority, tmp_path):
    config = encrypted(authority, not_after=datetime.now(UTC) - timedelta(days=1))
    async with a_nats_server(tmp_path, config) as server:
        with pytest.raises(CertificateExpired, match="expired"):
            await echoes(server.tls_url, trusts(authority))


async def test_a_certificate_of_strangers_is_not_trusted(authority, tmp_path):
    async with a_nats_server(tmp_path, encrypted(authority)) as server:
        with pytest.raises(TlsFailed, match="not accepted"):
            await echoes(server.tls_url)


async def test_a_server_without_tls_is_not_spoken_to_in_the_clear_when_tls_is_asked_for(authority, tmp_path):
    async with a_nats_server(tmp_path) as server:
        for url, secret in ((server.tls_url, None), (server.url, trusts(authority))):
            with pytest.raises(TlsFailed, match="does not offer TLS"):
                await echoes(url, secret)


async def test_a_server_that_wants_a_certificate_of_ours_gets_it_or_refuses(authority, tmp_path):
    certificate, key = authority.issue("client", "somebody")
    mine = {"tls.crt": certificate.read_bytes(), "tls.key": key.read_bytes()}
    async with a_nats_server(tmp_path, encrypted(authority, verify=True)) as server:
        assert await echoes(server.tls_url, trusts(authority, **mine))
        with pytest.raises((TlsFailed, Unreachable)):
            await echoes(server.tls_url, trusts(authority))


async def test_an_expired_certificate_of_ours_is_called_so(authority, tmp_path):
    certificate, key = authority.issue("old", "somebody", not_after=datetime.now(UTC) - timedelta(days=1))
    mine = {"tls.crt": certificate.read_bytes(), "tls.key": key.read_bytes()}
    async with a_nats_server(tmp_path, encrypted(authority, verify=True)) as server:
        with pytest.raises((TlsFailed, Unreachable)):
            await echoes(server.tls_url, trusts(authority, **mine))


async def test_a_key_that_does_not_fit_is_named(authority, tmp_path):
    certificate, _ = authority.issue("one", "somebody")
    _, key = authority.issue("two", "somebody")
    mine = {"tls.crt": certificate.read_bytes(), "tls.key": key.read_bytes()}
    async with a_nats_server(tmp_path, encrypted(authority)) as server:
        with pytest.raises(CredentialsError, match=r"tls\.key"):
            await echoes(server.tls_url, trusts(authority, **mine))


async def test_nothing_of_a_login_is_sent_before_tls_stands(authority, tmp_path):
    async with a_nats_server(tmp_path, encrypted(authority) | USERS) as server:
        good = {"username": b"ann", "password": b"right"}
        assert await echoes(server.tls_url, trusts(authority, **good))
        assert await echoes(server.url, trusts(authority, **good)), "also where only the server asks for TLS"
