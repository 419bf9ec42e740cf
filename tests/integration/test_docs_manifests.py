"""The API server accepts the manifests in the documentation."""

import json
import re
from pathlib import Path

import pytest
import yaml

from kit.cluster.control_plane import wait_for_crds

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def documented_manifests():
    for page in PAGES:
        for number, block in enumerate(BLOCK.findall(page.read_text()), 1):
            for document in yaml.safe_load_all(block):
                if isinstance(document, dict) and {"apiVersion", "kind"} <= document.keys():
                    yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
                    break


# The API server has no Gateway API, so this accepts any HTTPRoute; where it leads, a unit test checks.
HTTP_ROUTE = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "httproutes.gateway.networking.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
    },
    "spec": {
        "group": "gateway.networking.k8s.io",
        "names": {"kind": "HTTPRoute", "plural": "httproutes"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
async def kinds(cluster):
    """The API server with all our CRDs."""
    done = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(ROOT / "config/crd"))
    assert done.returncode == 0, done.stderr
    own = ROOT / "charts/quintet/crds"
    done = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(own))
    assert done.returncode == 0, done.stderr
    done = cluster.kubectl("apply", "-f", "-", input=json.dumps(HTTP_ROUTE))
    assert done.returncode == 0, done.stderr
    await wait_for_crds(cluster)
    return cluster


@pytest.mark.parametrize("block", list(documented_manifests()))
async def test_every_manifest_in_docs_is_accepted(block, kinds, namespace):
    done = kinds.kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", input=block)
    assert done.returncode == 0, f"{block}\n{done.stderr}"
