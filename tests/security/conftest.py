"""A separate control plane for the attacks, because admission policies hold for the whole cluster."""

from collections.abc import Iterator

import pytest

from kit.cluster.api import Api
from kit.cluster.control_plane import control_plane
from kit.kinds.controllers import install_crds
from quintet.apis.suite import QUINTET
from quintet.components import COMPONENTS, CUSTOM_RESOURCES
from quintet.kube.client import Client
from quintet.local.cluster import Cluster
from quintet.manifests.operator import user_facing_roles
from quintet.manifests.policy import policies

POLICIES = "/apis/admissionregistration.k8s.io/v1/"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Replaces the shared control plane."""
    with control_plane(tmp_path_factory.mktemp("security-state")) as running:
        yield running


@pytest.fixture(scope="session")
async def installed(client: Client, api: Api) -> None:
    """CRDs, admission policies and roles for users, as every installation has them."""
    await install_crds(client, QUINTET)
    requirements = [each for component in COMPONENTS.values() for each in component.user_requirements]
    for body in policies(requirements):
        bound = body["kind"].endswith("Binding")
        plural = "validatingadmissionpolicybindings" if bound else "validatingadmissionpolicies"
        await api.create(POLICIES + plural, body)
    for role in user_facing_roles(CUSTOM_RESOURCES):
        await api.create(ROLES, role)
