"""Requests of the transport, on plain sockets."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kit.clock import VirtualClock
from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.kube.client import Client
from quintet.kube.config import ClusterConfig, from_kubeconfig
from quintet.kube.errors import (
    ApiError,
    BadRequest,
    DeadlineExceeded,
    Unauthorized,
    UnexpectedResponse,
    Unreachable,
    UntrustedServer,
    WriteFenced,
)
from quintet.kube.transport import Transport
from quintet.observe import metrics

PODS = Resource("", "v1", "Pod", "pods")
KEY = ObjectKey("shop", "basket")

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Wire:
    """A server with a list of responses that records every request."""

    answers: list[bytes]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    address: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (
                        int(line[15:])
                        for line in head.splitlines()
                        if line.lower().startswith(b"content-length:")
                    ),
                    0,
                )
                self.requests.append(head + await reader.readexactly(length))
                if not self.answers:
                    break
                writer.write(self.answers.pop(0))
                await writer.drain()
        writer.close()


def answer(body: bytes = b"{}", status: str = "200 OK", *headers: str) -> bytes:
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""))
    return head.encode() + body


@contextlib.asynccontextmanager
async def listening(handle: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@contextlib.asynccontextmanager
async def wire(*answers: bytes) -> AsyncIterator[tuple[Wire, Transport]]:
    seen = Wire(list(answers))
    async with listening(seen.handle) as address, Transport(ClusterConfig(address)) as transport:
        yield seen, transport


WRITES = {
    "create": lambda client: client.create(PODS, {}, Object, namespace="shop"),
    "replace": lambda client: client.replace(PODS, KEY, {}, Object),
    "apply": lambda client: client.apply(PODS, KEY, {}, Object),
    "patch": lambda client: client.patch(PODS, KEY, {}, Object),
    "delete": lambda client: client.delete(PODS, KEY),
    "evict": lambda client: client.evict(KEY),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "reused connection"])
async def test_closed_fence_sends_no_byte_of_a_write(write, kept):
    async with wire(answer(), answer()) as (seen, transport):
        client = Client(transport).with_fence(lambda: False)
        if kept:
            await client.version()

        with pytest.raises(WriteFenced):
            await write(client)
        await client.version()

    assert [request.partition(b" ")[0] for request in seen.requests] == [b"GET"] * (2 if kept else 1)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_write_without_response_is_not_repeated(write):
    async with wire(answer()) as (seen, transport):
        client = Client(transport)
        await client.version()

        with pytest.raises(Unreachable) as caught:
            await write(client)

    assert type(caught.value) is Unreachable
    assert len(seen.requests) == 2, seen.requests


async def test_write_that_was_sent_is_not_reported_as_fenced():
    verdicts = [True, False, False]
    async with wire() as (seen, transport):
        client = Client(transport).with_fence(lambda: verdicts.pop(0))

        with pytest.raises(Unreachable):
            await client.delete(PODS, KEY)

    assert len(seen.requests) == 1


async def test_reads_ignore_the_fence():
    async with wire(answer()) as (_, transport):
        await Client(transport).with_fence(lambda: False).get(PODS, KEY, Object)


async def test_redirect_raises_error_and_is_not_followed():
    moved = answer(b"", "302 Found", "Location: /elsewhere")
    async with wire(moved, answer()) as (seen, transport):
        with pytest.raises(ApiError) as caught:
            await Client(transport).version()

    assert caught.value.status.code == 302
    assert len(seen.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"gitVersion":7}', b'{"gitVersion":"\xff"}'])
async def test_undecodable_success_raises_unexpected_response(body):
    async with wire(answer(body)) as (_, transport):
        with pytest.raises(UnexpectedResponse, match="GET /version: the response is not a valid Version"):
            await Client(transport).version()


BAD_NAMES = ["..", ".", "../../kube-system/secrets/x", "a/b", "a%2fb", "a?x=y", "a#b"]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_name_with_path_characters_is_rejected(name):
    async with wire() as (seen, transport):
        client = Client(transport)
        for call in (
            client.get(PODS, ObjectKey("shop", name), Object),
            client.delete(PODS, ObjectKey(name, "basket")),
            client.evict(ObjectKey("shop", name)),
            client.create(PODS, {}, Object, namespace=name),
        ):
            with pytest.raises(BadRequest, match="is not a valid name"):
                await call

    assert not seen.requests


async def test_name_with_colon_is_not_escaped():
    async with wire(answer()) as (seen, transport):
        await Client(transport).get(PODS, ObjectKey("", "system:node"), Object)

    assert seen.requests[0].startswith(b"GET /api/v1/pods/system:node HTTP/1.1\r\n")


async def test_server_url_path_is_prepended():
    seen = Wire([answer()])
    async with (
        listening(seen.handle) as address,
        Transport(ClusterConfig(f"{address}/clusters/one/")) as transport,
    ):
        await Client(transport).version()

    assert seen.requests[0].startswith(b"GET /clusters/one/version ")


class Renewable:
    """Credentials that have a second token."""

    certificate = None

    def __init__(self) -> None:
        self.value = "Bearer old"
        self.refused: list[str | None] = []

    async def header(self) -> str | None:
        return self.value

    async def renew(self, refused: str | None) -> bool:
        self.refused.append(refused)
        self.value = "Bearer new"
        return True


@pytest.mark.parametrize("watch", [False, True], ids=["a request", "a watch"])
async def test_rejected_credentials_are_renewed_once(watch):
    no = answer(b"", "401 Unauthorized")
    seen, credentials = Wire([no, answer(b"a\nb\n")]), Renewable()
    async with (
        listening(seen.handle) as address,
        Transport(ClusterConfig(address, credentials=credentials)) as transport,
    ):
        if watch:
            async with transport.stream("/x", {}, idle_timeout=30.0) as batches:
                got = b"".join([b"".join(lines) async for lines in batches])
        else:
            got = (await transport.request("GET", "/x")).replace(b"\n", b"")

    assert got == b"ab"
    assert credentials.refused == ["Bearer old"]
    assert [b"Bearer new" in request for request in seen.requests] == [False, True]


async def test_credentials_rejected_twice_raise_unauthorized():
    no = answer(b"", "401 Unauthorized")
    seen = Wire([no, no, answer()])
    async with (
        listening(seen.handle) as address,
        Transport(ClusterConfig(address, credentials=Renewable())) as transport,
    ):
        with pytest.raises(Unauthorized):
            await transport.request("GET", "/x")

    assert len(seen.requests) == 2


async def test_error_of_the_watch_consumer_is_not_translated():
    async with wire(answer(b"a\n"), answer(b"b\n")) as (_, transport):
        for error in (TimeoutError("mine"), OSError("mine")):
            with pytest.raises(type(error), match=r"^mine$"):
                async with transport.stream("/x", {}, idle_timeout=30.0):
                    raise error


async def test_stream_yields_complete_lines_however_data_is_split():
    big = b"x" * 3_000_000
    text = b"one\n\ntwo\n" + big + b"\nlast\ncut off"

    async def in_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for start in range(0, len(text), 100_003):
            writer.write(text[start : start + 100_003])
            await writer.drain()
        writer.close()

    async with (
        listening(in_pieces) as address,
        Transport(ClusterConfig(address)) as transport,
        transport.stream("/x", {}, idle_timeout=30.0) as batches,
    ):
        lines = [line async for batch in batches for line in batch]

    assert [len(line) for line in lines] == [3, 3, len(big), 4]
    assert lines[2] == big


async def test_stream_without_data_times_out():
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n")
        await reader.read()
        writer.close()

    async with (
        listening(silent) as address,
        Transport(ClusterConfig(address)) as transport,
        transport.stream("/x", {}, idle_timeout=1.0) as batches,
    ):
        assert await anext(batches) == [b"a"]
        with pytest.raises(DeadlineExceeded):
            await anext(batches)


async def test_concurrent_requests_are_limited():
    now, most, all_there = 0, 0, asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                now += 1
                most = max(most, now)
                if now == 3:
                    all_there.set()
                # The first response waits for three requests: with a lower limit this would never end.
                await all_there.wait()
                await asyncio.sleep(0)
                now -= 1
                writer.write(answer())
        writer.close()

    async with listening(slow) as address, Transport(ClusterConfig(address), max_requests=3) as transport:
        await asyncio.gather(*(transport.request("GET", f"/{number}") for number in range(30)))

    assert most == 3


@pytest.fixture
def serving(pair, tmp_path) -> ssl.SSLContext:
    file = tmp_path / "both.pem"
    file.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def test_ca_without_optional_extensions_is_trusted(serving, pair):
    seen = Wire([answer()])
    async with listening(seen.handle, serving) as address:
        trusting = ClusterConfig(address, ca_data=pair.certificate)
        async with Transport(trusting) as transport:
            await transport.request("GET", "/x")


TRUST = {
    "another authority": (lambda make, pair: {"ca_data": make().certificate}, "self-signed|unable to get"),
    "another name": (
        lambda make, pair: {"ca_data": pair.certificate, "tls_server_name": "outer.example"},
        "outer.example",
    ),
}


@pytest.mark.parametrize(("options", "want"), TRUST.values(), ids=TRUST)
async def test_untrusted_server_gets_no_request(serving, make_pair, pair, options, want):
    seen = Wire([answer()])
    async with (
        listening(seen.handle, serving) as address,
        Transport(ClusterConfig(address, **options(make_pair, pair))) as transport,
    ):
        with pytest.raises(UntrustedServer, match=want):
            await transport.request("GET", "/x")

    assert not seen.requests


@pytest.mark.parametrize("options", [{"insecure": True}, {"tls_server_name": "inner.example"}])
async def test_insecure_or_tls_server_name_accepts_other_host_name(serving, pair, options):
    seen = Wire([answer()])
    ca = {} if "insecure" in options else {"ca_data": pair.certificate}
    async with (
        listening(seen.handle, serving) as address,
        Transport(ClusterConfig(address, **ca, **options)) as transport,
    ):
        await transport.request("GET", "/x")

    assert len(seen.requests) == 1


async def test_configured_http_proxy_is_used():
    seen = Wire([answer()])
    async with listening(seen.handle) as address:
        far = ClusterConfig("http://far.example:8001", proxy_url=address)
        async with Transport(far) as transport:
            await transport.request("GET", "/x")

    assert seen.requests[0].startswith(b"GET http://far.example:8001/x ")


async def test_connection_is_reused_for_the_next_request():
    async with wire(answer(), answer(), answer(b"", "404 Not Found"), answer()) as (seen, transport):
        await transport.request("GET", "/x")
        await transport.request("POST", "/x", body=b"{}")
        with pytest.raises(ApiError):
            await transport.request("GET", "/x")
        await transport.request("GET", "/x")

    assert seen.connections == 1


async def test_connection_with_close_header_is_not_reused():
    async with wire(answer(b"{}", "200 OK", "Connection: close"), answer()) as (seen, transport):
        await transport.request("GET", "/x")
        await transport.request("GET", "/x")

    assert seen.connections == 2


async def test_connection_with_unexpected_response_is_not_reused():
    async with wire(answer() + answer(b'{"of":"somebody else"}'), answer()) as (seen, transport):
        await transport.request("GET", "/x")
        assert await transport.request("GET", "/x") == b"{}"

    assert seen.connections == 2


async def test_large_response_arrives_completely():
    big = b"x" * 5_000_000
    async with wire(answer(big), answer()) as (seen, transport):
        assert await transport.request("GET", "/x") == big
        await transport.request("GET", "/x")

    assert seen.connections == 1


async def test_invalid_http_response_raises_unreachable():
    async with wire(b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as (_, transport):
        with pytest.raises(Unreachable, match="the response is not valid HTTP"):
            await transport.request("GET", "/x")


async def test_incomplete_response_times_out():
    async with wire(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}") as (_, transport):
        transport._timeout = 0.2
        with pytest.raises(DeadlineExceeded):
            await transport.request("GET", "/x")


async def test_proxy_tunnels_tls_with_connect(serving, pair):
    seen, asked = Wire([answer()]), list[bytes]()

    async with listening(seen.handle, serving) as address:

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            port = int(address.rpartition(":")[2])
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))

        async with listening(tunnel) as proxy:
            far = ClusterConfig(
                "https://inner.example:6443",
                ca_data=pair.certificate,
                proxy_url=proxy.replace("//", "//us:secret@"),
            )
            async with Transport(far) as transport:
                assert await transport.request("GET", "/x") == b"{}"

    assert asked[0].startswith(b"CONNECT inner.example:6443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic dXM6c2VjcmV0\r\n" in asked[0]
    assert b"Proxy-Authorization" not in seen.requests[0]


async def test_proxy_refusal_raises_unreachable_with_status():
    async with listening(Wire([answer(b"", "403 Forbidden")]).handle) as proxy:
        far = ClusterConfig("https://inner.example:6443", proxy_url=proxy)
        async with Transport(far) as transport:
            with pytest.raises(Unreachable, match=r"the proxy 127\.0\.0\.1 responded with 403"):
                await transport.request("GET", "/x")


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def test_closed_port_raises_unreachable_with_reason():
    async with listening(Wire([]).handle) as address:
        pass
    async with Transport(ClusterConfig(address)) as transport:
        with pytest.raises(Unreachable, match=f"GET /x: {address[7:]}: connection refused"):
            await transport.request("GET", "/x")


async def test_plain_http_server_raises_unreachable_for_https():
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer(b"", "400 Bad Request"))
        writer.close()

    async with (
        listening(plain) as address,
        Transport(ClusterConfig(address.replace("http:", "https:"))) as transport,
    ):
        with pytest.raises(Unreachable, match=r"wrong version number|record layer failure"):
            await transport.request("GET", "/x")


def kubeconfig(path: Path, server: str, user: str = "{}", cluster: str = "") -> ClusterConfig:
    """Write a kubeconfig and load it."""
    path.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        f"clusters: [{{name: c, cluster: {{server: '{server}'{cluster}}}}}], "
        f"users: [{{name: u, user: {user}}}]}}"
    )
    return from_kubeconfig([path])


async def test_user_of_the_kubeconfig_is_impersonated(tmp_path):
    seen = Wire([answer(), answer()])
    user = "{as: Jürgen, as-uid: '7', as-groups: [a, b], as-user-extra: {Example.com/Team: [x]}}"
    async with (
        listening(seen.handle) as address,
        Transport(kubeconfig(tmp_path / "k", address, user)) as transport,
    ):
        await transport.request("GET", "/x")
        await transport.request("GET", "/x", impersonate="other")

    first, second = (request.split(b"\r\n") for request in seen.requests)
    assert [line for line in first if line.startswith(b"Impersonate")] == [
        "Impersonate-User: Jürgen".encode(),
        b"Impersonate-Uid: 7",
        b"Impersonate-Group: a",
        b"Impersonate-Group: b",
        b"Impersonate-Extra-example.com%2Fteam: x",
    ]
    assert [line for line in second if line.startswith(b"Impersonate")] == [b"Impersonate-User: other"]


async def test_replaced_ca_file_is_trusted_without_restart(make_pair, tmp_path):
    old, new = make_pair(), make_pair()
    (tmp_path / "ca").write_bytes(old.certificate)
    (tmp_path / "both.pem").write_bytes(new.certificate + new.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")
    seen = Wire([answer()])
    async with listening(seen.handle, context) as address:
        found = kubeconfig(tmp_path / "k", address, cluster=", certificate-authority: ca")
        async with Transport(found) as transport:
            with pytest.raises(UntrustedServer):
                await transport.request("GET", "/x")
            (tmp_path / "ca").write_bytes(b"-----BEGIN CERT")  # half written
            with pytest.raises(UntrustedServer):
                await transport.request("GET", "/x")
            (tmp_path / "ca").write_bytes(new.certificate)
            await transport.request("GET", "/x")


async def test_certificate_of_a_plugin_is_presented(make_pair, tmp_path, serving, pair):
    """The plugin prints a new certificate after a 401; the second connection presents it."""
    presented: list[str] = []
    first, second = (make_pair(common_name=name) for name in ("first", "second"))

    class Issues:
        certificate: tuple[bytes, bytes] | None = None

        async def header(self) -> None:
            self.certificate = self.certificate or (first.certificate, first.key)

        async def renew(self, refused: str | None) -> bool:
            self.certificate = (second.certificate, second.key)
            return True

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        presented.append(ssl.DER_cert_to_PEM_cert(der))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"", "401 Unauthorized") if len(presented) == 1 else answer())

    serving.verify_mode = ssl.CERT_REQUIRED
    for each in (first, second):
        serving.load_verify_locations(cadata=each.certificate.decode())
    async with listening(ask, serving) as address:
        found = ClusterConfig(address, credentials=Issues(), ca_data=pair.certificate)
        async with Transport(found) as transport:
            await transport.request("GET", "/x")

    assert [text.encode() for text in presented] == [first.certificate, second.certificate]


async def test_rejected_identity_is_a_problem_until_it_is_accepted():
    clock, no = VirtualClock(), answer(b"", "401 Unauthorized")
    seen = Wire([no, no, answer(b"", "403 Forbidden")])
    async with (
        listening(seen.handle) as address,
        Transport(ClusterConfig(address, source="here"), clock=clock) as transport,
    ):
        for wait in (0.0, 16.0):
            await clock.advance(wait)
            with pytest.raises(Unauthorized):
                await transport.request("GET", "/x")
            problem = transport.identity.problem()
            assert (problem is not None) == (wait > 0), "a single 401 is no problem"
        assert "16 s (401)" in str(problem)
        assert metrics.identity_rejected._value.get() == 1
        with pytest.raises(ApiError):
            await transport.separate(timeout=5.0).request("GET", "/x")
        assert transport.identity.problem() is None, "a response other than 401 ends it"
        assert metrics.identity_rejected._value.get() == 0
