"""A webhook server on loopback, and a client that trusts it."""

import ssl
from datetime import UTC, datetime

import aiohttp
import pytest

from quintet.admission.server import AdmissionServer
from quintet.admission.sources import MemoryStore, SelfSignedCertificates, ServingCertificate
from quintet.clock import SystemClock
from unit.admission.sample import ADMISSION, hold

HOSTS = ("127.0.0.1",)


@pytest.fixture
async def serving() -> ServingCertificate:
    return await SelfSignedCertificates(MemoryStore(), HOSTS).current(datetime.now(UTC))


@pytest.fixture
async def server(serving):
    """Running, with a certificate; `server.port` is where."""
    made = AdmissionServer((ADMISSION,), SystemClock(), host="127.0.0.1", port=0, time_limit=3.0)
    made.load(serving)
    made.port = await made.start()
    hold.clear()
    yield made
    hold.set()
    await made.stop()


@pytest.fixture
async def session(server, serving):
    trust = ssl.create_default_context(cadata=serving.bundle.decode())
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{server.port}", connector=connector) as client:
        yield client
