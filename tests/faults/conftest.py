"""A control plane for these tests alone: they kill its parts."""

from collections.abc import Iterator

import pytest

from kit.cluster.control_plane import control_plane
from quintet.local.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Takes the place of the shared one."""
    state = tmp_path_factory.mktemp("fault-state")
    with control_plane(state) as running:
        yield running
