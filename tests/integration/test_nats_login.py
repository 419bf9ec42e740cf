"""Authentication and TLS of connections to a real NATS server, and the error class of each failure."""

import asyncio
import socket
from datetime import UTC, datetime, timedelta

import pytest

from kit.nats.nkeys import Key, Operator
from kit.nats.server import a_nats_server
from quintet.clock import SystemClock
from quintet.local.controlplane.certificates import Authority
from quintet.nats.client import NatsClient
from quintet.nats.credentials import from_secret
from quintet.nats.errors import (
    CertificateExpired,
    CredentialsError,
    JetStreamUnavailable,
    LoginRefused,
    NotPermitted,
    ProtocolError,
    ServerUnreachable,
    TlsFailed,
    Unresolved,
)
from quintet.nats.jetstream import JetStream
from quintet.nats.options import NatsOptions


def a_client(url: str, secret: dict[str, bytes] | None = None, **options) -> NatsClient:
    credentials = from_secret(secret) if secret else None
    return NatsClient(NatsOptions(url, credentials, **{"connect_seconds": 20.0, **options}), SystemClock())


async def can_echo(url: str, secret: dict[str, bytes] | None = None, **options) -> bool:
    """Return whether a message is sent and received."""
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
async def test_correct_login_is_accepted_and_wrong_login_is_refused(config, right, wrong, tmp_path):
    async with a_nats_server(tmp_path, config) as server:
        assert await can_echo(server.url, right)
        for secret in (wrong, None):
            with pytest.raises(LoginRefused, match=r"rejected the login"):
                await can_echo(server.url, secret)


async def test_expired_user_token_is_refused(tmp_path):
    async with a_nats_server(tmp_path, OPERATOR.config()) as server:
        with pytest.raises(LoginRefused):
            await can_echo(server.url, {"creds": OPERATOR.creds(exp=1000)})


async def test_missing_publish_permission_is_reported_and_connection_stays(tmp_path):
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


async def test_server_without_jetstream_raises_unavailable(tmp_path):
    async with a_nats_server(tmp_path, jetstream=False) as server, a_client(server.url) as client:
        with pytest.raises(JetStreamUnavailable):
            await JetStream(client).account_info()


async def test_account_without_jetstream_raises_unavailable(tmp_path):
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


# ServerUnreachable and wrong servers.


async def test_unknown_host_raises_unresolved():
    with pytest.raises(Unresolved, match=r"nowhere\.invalid"):
        await can_echo("nats://nowhere.invalid:4222", connect_seconds=120.0)


async def test_closed_port_raises_unreachable():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ServerUnreachable, match=f"127.0.0.1:{port}"):
        await can_echo(f"nats://127.0.0.1:{port}")


async def test_silent_server_times_out():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ServerUnreachable, match=r"did not respond within 0\.2 s"),
    ):
        await can_echo(f"nats://127.0.0.1:{listener.getsockname()[1]}", connect_seconds=0.2)


async def test_server_with_other_protocol_raises_protocol_error():
    async def speak(reader, writer):
        writer.write(b"220 mail.example.com ESMTP\r\n")
        await reader.read()
        writer.close()

    other = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with other:
        with pytest.raises(ProtocolError, match=r"220 mail"):
            await can_echo(f"nats://127.0.0.1:{other.sockets[0].getsockname()[1]}")


@pytest.mark.parametrize("url", ["http://a:1", "nats://", "nats://a:notaport", "nats://[::1"])
async def test_invalid_url_is_rejected_without_connecting(url):
    with pytest.raises(ServerUnreachable, match="URL"):
        await can_echo(url)


async def test_client_connects_only_to_given_addresses(tmp_path):
    async with a_nats_server(tmp_path) as server:
        name = f"nats://never.resolved.invalid:{server.port}"
        assert await can_echo(name, addresses=("127.0.0.1",))
        assert await can_echo(name, addresses=("127.99.99.99", "127.0.0.1"))
        with pytest.raises(ServerUnreachable):
            await can_echo(server.url, addresses=("127.99.99.99",))


# TLS.


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("authority"))


def tls_config(authority: Authority, *, hosts=("127.0.0.1",), not_after=None, verify=False) -> dict:
    certificate, key = authority.issue("server", "nats", hosts=hosts, not_after=not_after)
    settings = {"cert_file": str(certificate), "key_file": str(key), "timeout": 20}
    return {
        "tls": {
            **settings,
            **({"ca_file": str(authority.directory / "ca.crt"), "verify": True} if verify else {}),
        }
    }


def trust_secret(authority: Authority, **more: bytes) -> dict[str, bytes]:
    return {"ca.crt": (authority.directory / "ca.crt").read_bytes(), **more}


async def test_tls_works_when_requested_by_url_or_by_server(authority, tmp_path):
    async with a_nats_server(tmp_path, tls_config(authority)) as server:
        assert await can_echo(server.tls_url, trust_secret(authority))
        assert await can_echo(server.url, trust_secret(authority))


async def test_tls_verifies_host_name_of_url_with_given_address(authority, tmp_path):
    async with a_nats_server(tmp_path, tls_config(authority, hosts=("nats.shop.svc",))) as server:
        options = {"addresses": ("127.0.0.1",)}
        assert await can_echo(f"tls://nats.shop.svc:{server.port}", trust_secret(authority), **options)
        with pytest.raises(TlsFailed, match=r"not valid for 'other\.shop\.svc'"):
            await can_echo(f"tls://other.shop.svc:{server.port}", trust_secret(authority), **options)


async def test_expired_server_certificate_is_reported(authority, tmp_path):
    config = tls_config(authority, not_after=datetime.now(UTC) - timedelta(days=1))
    async with a_nats_server(tmp_path, config) as server:
        with pytest.raises(CertificateExpired, match="expired"):
            await can_echo(server.tls_url, trust_secret(authority))


async def test_certificate_of_unknown_authority_is_not_trusted(authority, tmp_path):
    async with a_nats_server(tmp_path, tls_config(authority)) as server:
        with pytest.raises(TlsFailed, match="not trusted"):
            await can_echo(server.tls_url)


async def test_client_that_requires_tls_never_uses_plain_text(authority, tmp_path):
    async with a_nats_server(tmp_path) as server:
        for url, secret in ((server.tls_url, None), (server.url, trust_secret(authority))):
            with pytest.raises(TlsFailed, match="does not offer TLS"):
                await can_echo(url, secret)


async def test_server_that_requires_client_certificate_accepts_only_ours(authority, tmp_path):
    certificate, key = authority.issue("client", "somebody")
    mine = {"tls.crt": certificate.read_bytes(), "tls.key": key.read_bytes()}
    async with a_nats_server(tmp_path, tls_config(authority, verify=True)) as server:
        assert await can_echo(server.tls_url, trust_secret(authority, **mine))
        with pytest.raises((TlsFailed, ServerUnreachable)):
            await can_echo(server.tls_url, trust_secret(authority))


async def test_expired_client_certificate_is_reported(authority, tmp_path):
    certificate, key = authority.issue("old", "somebody", not_after=datetime.now(UTC) - timedelta(days=1))
    mine = {"tls.crt": certificate.read_bytes(), "tls.key": key.read_bytes()}
    async with a_nats_server(tmp_path, tls_config(authority, verify=True)) as server:
        with pytest.raises((TlsFailed, ServerUnreachable)):
            await can_echo(server.tls_url, trust_secret(authority, **mine))


async def test_key_that_does_not_match_certificate_is_reported(authority, tmp_path):
    certificate, _ = authority.issue("one", "somebody")
    _, key = authority.issue("two", "somebody")
    mine = {"tls.crt": certificate.read_bytes(), "tls.key": key.read_bytes()}
    async with a_nats_server(tmp_path, tls_config(authority)) as server:
        with pytest.raises(CredentialsError, match=r"tls\.key"):
            await can_echo(server.tls_url, trust_secret(authority, **mine))


async def test_login_is_sent_only_after_tls_handshake(authority, tmp_path):
    async with a_nats_server(tmp_path, tls_config(authority) | USERS) as server:
        good = {"username": b"ann", "password": b"right"}
        assert await can_echo(server.tls_url, trust_secret(authority, **good))
        assert await can_echo(server.url, trust_secret(authority, **good)), (
            "also where only the server asks for TLS"
        )
