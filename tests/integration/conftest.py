"""A separate control plane for tests that change shared objects, and a shared namespace for tests that leave no objects."""

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
    """A namespace for the tests of one file that leave no objects in it, or none that another test would see."""
    async with fresh_namespace(api) as name:
        yield name


@pytest.fixture
async def bare(own: Cluster) -> AsyncIterator[Api]:
    async with Api.connect(own.kubeconfig) as connected:
        yield connected
