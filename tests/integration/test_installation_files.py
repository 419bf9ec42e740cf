"""The files of install methods that need only kubectl: the same objects, accepted by the API server."""

from pathlib import Path

import pytest
import yaml

from quintet.components import COMPONENTS
from quintet.manifests.installation import KIAGNOSE, QUINTET
from quintet.manifests.operator import operator
from quintet.manifests.release import release

ALL = tuple(COMPONENTS.values())
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dist():
    return release(ALL)


def keyed(bodies):
    return {
        (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]): body
        for body in bodies
        if body
    }


@pytest.mark.parametrize(
    ("folder", "flavour", "name"),
    [("config/operator", QUINTET, "install.yaml"), ("config/kiagnose", KIAGNOSE, "kiagnose-install.yaml")],
)
def test_kustomize_build_equals_single_file_manifest(cluster, dist, folder, flavour, name):
    built = cluster.kubectl("kustomize", str(ROOT / folder))
    assert built.returncode == 0, built.stderr
    one_file = keyed(yaml.safe_load_all(dist[Path(name)]))
    assert keyed(yaml.safe_load_all(built.stdout)) == one_file == keyed(operator(ALL, flavour))


@pytest.mark.parametrize("name", ["install.yaml", "kiagnose-install.yaml"])
def test_api_server_accepts_every_object_of_single_file_manifest(cluster, dist, name):
    """A dry run on the real API server also checks kinds of Kubernetes."""
    bodies = [body for body in yaml.safe_load_all(dist[Path(name)]) if body and body["kind"] != "Namespace"]
    for body in bodies:
        body["metadata"].pop("namespace", None)
    text = "---\n".join(yaml.safe_dump(body) for body in bodies)
    done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(bodies)
