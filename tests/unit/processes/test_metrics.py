"""The certificate of secure metrics: self-signed, or files that somebody else renews."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from kit.clock import VirtualClock
from kit.eventually import eventually, eventually_true
from quintet.admission.certs import RotationPolicy, new_authority, new_leaf
from quintet.clock import SystemClock
from quintet.kube.client import Client
from quintet.kube.config import ClusterConfig
from quintet.kube.transport import Transport
from quintet.processes.metrics import PLAIN, MetricsOptions, serving_metrics

ANYWHERE = ("127.0.0.1", 0)


@contextlib.asynccontextmanager
async def serving(options: MetricsOptions, clock: VirtualClock) -> AsyncIterator[int | None]:
    async with (
        Transport(ClusterConfig("http://127.0.0.1:1")) as transport,
        serving_metrics(options, Client(transport), clock) as port,
    ):
        yield port


async def served_certificate(port: int | None) -> x509.Certificate:
    """Return the certificate that a TLS handshake shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    session: ssl.SSLObject = writer.get_extra_info("ssl_object")
    found = session.getpeercert(binary_form=True)
    assert found
    writer.close()
    return x509.load_der_x509_certificate(found)


def write_certificate(folder: Path, name: str) -> x509.Certificate:
    now, policy = SystemClock().now(), RotationPolicy()
    leaf = new_leaf(new_authority(now, policy), (name,), now, policy)
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").write_bytes(leaf.key)
    return leaf.x509


async def test_metrics_without_address_are_not_served_apart():
    async with serving(MetricsOptions(), VirtualClock()) as port:
        assert port is None


async def test_plain_metrics_have_no_tls():
    async with serving(MetricsOptions(address=ANYWHERE, mode=PLAIN), VirtualClock()) as port:
        with pytest.raises(ssl.SSLError):
            await served_certificate(port)


async def test_self_signed_certificate_is_renewed_while_serving():
    clock = VirtualClock()
    async with serving(MetricsOptions(address=ANYWHERE), clock) as port:
        first = await served_certificate(port)
        assert first.not_valid_after_utc - clock.now() > timedelta(days=6)
        clock.elapsed += timedelta(days=6).total_seconds()
        await clock.advance(61.0)
        second = await served_certificate(port)
    assert second.not_valid_after_utc > first.not_valid_after_utc


async def test_renewed_certificate_files_are_served_without_restart(tmp_path: Path, caplog):
    clock, first = VirtualClock(), write_certificate(tmp_path, "first")
    async with serving(MetricsOptions(address=ANYWHERE, certificates=tmp_path), clock) as port:
        assert await served_certificate(port) == first
        second = write_certificate(tmp_path, "second")
        await wait_until_served(port, second, clock)
        (tmp_path / "tls.key").write_text("half written")
        await clock.advance(61.0)
        await eventually_true(lambda: "Metrics certificate could not be loaded" in caplog.text)
        assert await served_certificate(port) == second, "the last good one stays"


async def test_missing_certificate_files_are_loaded_as_soon_as_they_exist(tmp_path: Path):
    clock = VirtualClock()
    async with serving(MetricsOptions(address=ANYWHERE, certificates=tmp_path), clock) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await served_certificate(port)
        await wait_until_served(port, write_certificate(tmp_path, "late"), clock)


async def wait_until_served(port: int | None, certificate: x509.Certificate, clock: VirtualClock) -> None:
    async def probe() -> None:
        await clock.advance(61.0)
        try:
            assert await served_certificate(port) == certificate
        except (ssl.SSLError, ConnectionError) as error:
            raise AssertionError("no certificate yet") from error

    await eventually(probe)
