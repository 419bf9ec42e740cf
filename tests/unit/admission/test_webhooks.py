"""A whole rotation with real handshakes, in virtual time: nobody ever meets a stranger."""

import asyncio
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from math import inf

import aiohttp
import pytest
from cryptography import x509

from kit.clock import VirtualClock
from quintet.admission.server import LIMITS, AdmissionServer
from quintet.admission.sources import CertificateFiles, MemoryStore, SelfSignedCertificates
from quintet.admission.webhooks import Webhooks
from quintet.kube.errors import Unreachable
from unit.admission.sample import ADMISSION, VALIDATE, a_review

HOURS = 3600.0
DAYS = 24 * HOURS
# OpenSSL's X509_V_FLAG_NO_CHECK_TIME: time is virtual here, so the test looks at the dates itself.
NO_CHECK_TIME = 0x200000


class Trust:
    """Stands for the API server: keeps the bundle that it was told, and the one before."""

    def __init__(self) -> None:
        self.bundles: list[bytes | None] = []
        self.fails = False
        self.fenced = False
        self.removed = 0

    async def ensure(self, bundle):
        if self.fails:
            raise Unreachable("no answer")
        self.bundles.append(bundle)
        return not self.fenced

    async def remove(self):
        self.removed += 1


@lru_cache(maxsize=2)
def trusting(bundle: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=bundle.decode())
    context.verify_flags |= NO_CHECK_TIME
    return context


async def leaf_shown(port: int, bundle: bytes) -> x509.Certificate:
    """Shake hands; fails unless the server's certificate is one of that bundle's."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(bundle))
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(shown)


def webhooks(clock, trust, source=None, **options):
    # Days pass here between two requests: an idle connection must not end by that.
    limits = replace(LIMITS, idle_seconds=inf)
    server = AdmissionServer((ADMISSION,), clock, host="127.0.0.1", port=0, limits=limits)
    return Webhooks(
        server, source or SelfSignedCertificates(MemoryStore(), ("127.0.0.1",)), clock, trust, **options
    )


async def test_handshakes_succeed_across_two_ca_rotations():
    """Also for an API server that has not heard of the last change of the bundle yet."""
    clock, trust = VirtualClock(), Trust()
    leaves, lengths = set(), []
    async with webhooks(clock, trust, interval=1 * DAYS).running() as port:
        for _ in range(550):
            await clock.advance(1 * DAYS)
            for bundle in set(trust.bundles[-2:]):
                leaf = await leaf_shown(port, bundle)
                assert leaf.not_valid_before_utc < clock.now() < leaf.not_valid_after_utc
                leaves.add(leaf.serial_number)
            lengths.append(trust.bundles[-1].count(b"BEGIN"))
    authorities = {bundle.split(b"-----END")[0] for bundle in trust.bundles}
    assert len(authorities) == 3, f"{len(authorities)} authorities, {len(leaves)} leaves"
    assert len(leaves) > 100, f"{len(leaves)} leaves"
    assert set(lengths) == {1, 2}, lengths


async def test_open_connection_survives_certificate_rotation():
    clock, trust, opened = VirtualClock(), Trust(), []
    trace = aiohttp.TraceConfig()

    async def count(*event: object) -> None:
        opened.append(event)

    trace.on_connection_create_end.append(count)
    async with webhooks(clock, trust, interval=1 * DAYS).running() as port:
        connector = aiohttp.TCPConnector(ssl=trusting(trust.bundles[-1]))
        async with aiohttp.ClientSession(connector=connector, trace_configs=[trace]) as session:
            for _ in range(10):
                url = f"https://127.0.0.1:{port}{VALIDATE}"
                async with session.post(url, json=a_review(text="x")) as answer:
                    assert answer.status == 200, await answer.text()
                await clock.advance(1 * DAYS)
    assert len(opened) == 1, opened


async def test_certificate_is_not_served_before_it_is_trusted():
    """A leaf of a new authority has to wait while the API server cannot be told."""
    clock, trust = VirtualClock(), Trust()
    async with webhooks(clock, trust, interval=1 * HOURS).running() as port:
        first = await leaf_shown(port, trust.bundles[-1])
        trust.fails = True
        await clock.advance(5 * DAYS)  # renewal is due, and tried every hour
        assert (await leaf_shown(port, trust.bundles[-1])).serial_number == first.serial_number
        trust.fails = False
        await clock.advance(1 * HOURS)
        assert (await leaf_shown(port, trust.bundles[-1])).serial_number != first.serial_number


async def test_server_waits_for_certificate_files_and_reports_it(tmp_path):
    clock = VirtualClock()
    made = await SelfSignedCertificates(MemoryStore(), ("127.0.0.1",)).current(datetime.now(UTC))
    hooks = webhooks(clock, None, CertificateFiles(tmp_path), interval=10)
    async with hooks.running() as port:
        assert "the webhook certificate has not been loaded yet" in hooks.readiness_problem()
        assert "tls.crt" in hooks.readiness_problem()
        with pytest.raises(OSError):  # noqa: PT011 - what OpenSSL says differs by version
            await leaf_shown(port, made.bundle)
        (tmp_path / "tls.crt").write_bytes(made.certificate)
        (tmp_path / "tls.key").write_bytes(made.key)
        await clock.advance(10)
        await hooks.refresh()  # reading files takes a thread, which virtual time does not wait for
        await leaf_shown(port, made.bundle)


async def test_local_process_removes_its_registration_and_installed_one_keeps_it():
    for remove, want in ((True, 1), (False, 0)):
        trust = Trust()
        async with webhooks(VirtualClock(), trust, remove=remove).running():
            pass
        assert trust.removed == want


async def test_shutdown_responds_for_a_while_and_closes_connections():
    clock, trust, enough = VirtualClock(), Trust(), asyncio.Event()
    ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def live() -> None:
        async with webhooks(clock, trust, drain=5).running() as port:
            ports.set_result(port)
            await enough.wait()

    life = asyncio.create_task(live())
    url = f"https://127.0.0.1:{await ports}{VALIDATE}"
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trusting(trust.bundles[-1]))
    ) as session:
        async with session.post(url, json=a_review(text="x")) as answer:
            assert (answer.status, answer.headers.get("Connection")) == (200, None)
        enough.set()
        await clock.advance(4)
        async with session.post(url, json=a_review(text="x")) as answer:
            assert (answer.status, answer.headers.get("Connection")) == (200, "close")
        await clock.advance(2)
        await life
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.post(url, json=a_review(text="x"))


async def test_new_leader_registers_within_a_second():
    clock, trust = VirtualClock(), Trust()
    trust.fenced = True
    async with webhooks(clock, trust).running():
        await clock.advance(3)
        tried = len(trust.bundles)
        trust.fenced = False
        await clock.advance(1)
        assert len(trust.bundles) == tried + 1
        await clock.advance(10)
        assert len(trust.bundles) == tried + 2, "and is back to the slow pace"
