"""One control plane for a whole test run, and a namespace for each test.

Used by the fixtures in `conftest`. The state of the cluster lies in a folder of this run alone,
so a test run neither sees nor disturbs clusters that a person has started.
"""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from kit import accounts
from kit.api import Api
from kit.recording import keep, recording
from quintet.local.cluster import Cluster, down, up


@contextmanager
def control_plane(state: Path) -> Iterator[Cluster]:
    """A control plane that is gone afterwards, whatever happens inside."""
    name = f"test-{os.getpid()}"
    with _state_in(state):
        cluster = up(name, audited=recording())
    try:
        accounts.install(cluster)
        yield cluster
    finally:
        keep(cluster)
        with _state_in(state):
            down(name)


@contextmanager
def cluster_with_a_node(name: str, state: Path) -> Iterator[Cluster]:
    """A cluster of one's own, for tests that change all of it."""
    with _state_in(state):
        cluster = up(name, node=True, audited=recording())
        try:
            yield cluster
        finally:
            keep(cluster)
            down(name)


@asynccontextmanager
async def fresh_namespace(api: Api, prefix: str = "test") -> AsyncIterator[str]:
    """A namespace of one's own; its deletion is asked for but not awaited."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        yield name
    finally:
        await api.delete(f"/api/v1/namespaces/{name}")


@contextmanager
def _state_in(directory: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(directory))
        yield
