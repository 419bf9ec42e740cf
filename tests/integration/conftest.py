"""A control plane of their own for tests that change what all others share, a namespace for those that change nothing."""

from collections.abc import AsyncIterator, Iterator

import pytest

from kit.cluster.api import Api
from kit.cluster.control_plane import control_plane, fresh_namespace
from quintet.local.cluster import Cluster


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with control_plane(tmp_path_factory.mktemp("own")) as running:
        yield running


@pytest.fixture(scope="module")
async def shared_namespace(api: Api) -> AsyncIterator[str]:
    """For tests of a file that leave nothing in it, or nothing that another one would meet."""
    async with fresh_namespace(api) as name:
        yield name


@pytest.fixture
async def bare(own: Cluster) -> AsyncIterator[Api]:
    async with Api.connect(own.kubeconfig) as connected:
        yield connected
