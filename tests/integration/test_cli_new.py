"""Starter manifests of every kind, applied to a real API server."""

import pytest

from kit.cli.invoke import works
from kit.kinds.controllers import install_crds
from quintet.apis.suite import QUINTET
from quintet.components import CUSTOM_RESOURCES
from quintet.kube.client import Client
from quintet.local.cluster import Cluster

KINDS = [kind.resource.kind for kind in (QUINTET, *CUSTOM_RESOURCES)]


@pytest.fixture(scope="module")
async def all_kinds(client: Client) -> None:
    await install_crds(client, QUINTET)


@pytest.mark.parametrize("options", [(), ("--full",)], ids=["brief", "full"])
@pytest.mark.parametrize("kind", KINDS)
async def test_starter_manifest_is_accepted_by_api_server(
    kind, options, all_kinds, cluster: Cluster, namespace: str
):
    text = await works("new", kind.lower(), *options)
    done = cluster.kubectl(
        "apply", "-n", namespace, "--dry-run=server", "--validate=strict", "-f", "-", input=text
    )
    assert done.returncode == 0, done.stderr + text
    assert f"{kind.lower()}." in done.stdout, done.stdout
