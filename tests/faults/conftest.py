"""A separate control plane for the fault tests, because they kill its processes."""

from collections.abc import Iterator

import pytest

from kit.cluster.control_plane import control_plane
from quintet.local.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Replaces the shared control plane."""
    state = tmp_path_factory.mktemp("fault-state")
    with control_plane(state) as running:
        yield running
