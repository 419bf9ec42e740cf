"""Certificates are shared by replicas, survive accidents, and follow files."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from quintet.admission.certs import CertificateState
from quintet.admission.sources import (
    CertificateFiles,
    MemoryStore,
    SelfSignedCertificates,
    ServingCertificate,
)
from quintet.kube.errors import Conflict, Status

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOSTS = ("hooks.quintet.svc",)
DAY = timedelta(days=1)


class SharedStore:
    """As a Secret: who read an older version may not write."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.version = 0
        self.writes = 0

    async def read(self):
        answer = dict(self.data), str(self.version or "")
        await asyncio.sleep(0)
        return answer

    async def write(self, data, version):
        await asyncio.sleep(0)
        if version != str(self.version or ""):
            raise Conflict("PUT secret", Status("changed", "Conflict", 409))
        self.data, self.version = dict(data), self.version + 1
        self.writes += 1


async def test_replicas_that_start_together_share_one_certificate():
    store = SharedStore()
    replicas = [SelfSignedCertificates(store, HOSTS) for _ in range(4)]
    served = await asyncio.gather(*(replica.current(NOW) for replica in replicas))
    assert len(set(served)) == 1
    assert store.writes == 1


async def test_one_replica_renews_and_others_follow():
    store = SharedStore()
    replicas = [SelfSignedCertificates(store, HOSTS) for _ in range(3)]
    before = {await replica.current(NOW) for replica in replicas}
    after = await asyncio.gather(*(replica.current(NOW + 5 * DAY) for replica in replicas))
    assert len(set(after)) == 1
    assert before.isdisjoint(after)
    assert store.writes == 2


async def test_emptied_or_damaged_store_is_restored():
    store = SharedStore()
    replica = SelfSignedCertificates(store, HOSTS)
    before = await replica.current(NOW)
    for accident in ({}, {"ca.crt": b"garbage"}):
        store.data = accident
        assert await replica.current(NOW) == before
        assert CertificateState.from_data(store.data) is not None


async def test_store_that_always_conflicts_is_reported():
    class Contested(SharedStore):
        async def write(self, data, version):
            raise Conflict("PUT secret", Status("changed", "Conflict", 409))

    with pytest.raises(TimeoutError, match="5 times"):
        await SelfSignedCertificates(Contested(), HOSTS).current(NOW)


async def test_single_process_needs_no_secret():
    source = SelfSignedCertificates(MemoryStore(), HOSTS)
    first = await source.current(NOW)
    assert await source.current(NOW) == first
    assert first.bundle is not None


async def test_changed_certificate_files_are_reloaded(tmp_path):
    source = CertificateFiles(tmp_path)
    with pytest.raises(FileNotFoundError):
        await source.current(NOW)
    for content in (b"one", b"two"):
        (tmp_path / "tls.crt").write_bytes(content)
        (tmp_path / "tls.key").write_bytes(content)
        assert await source.current(NOW) == ServingCertificate(content, content, None)
