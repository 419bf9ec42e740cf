"""Every object that we ship, create or document has only known fields; kube-score checks them too.

The schemas are those of the running API server and of the CRDs in the repository (`kit.manifests.json_schemas`).
"""

import json
from pathlib import Path

import pytest
import yaml

from kit.manifests.json_schemas import LOCATION, schemas_from_crd, schemas_from_openapi
from quintet import __version__
from quintet.apis.suite.types import QuintetSpec, Topology
from quintet.components import COMPONENTS
from quintet.manifests.installation import KIAGNOSE, QUINTET, installer, objects
from quintet.manifests.text import as_yaml

ROOT = Path(__file__).parents[2]
ALL = tuple(COMPONENTS.values())
# Read by kubectl and by Helm, never sent to a server; and kinds of Prometheus' operator, which no server here
# has a schema of: see test_monitoring.
LOCAL = ("kustomization.yaml", "Chart.yaml", "values.yaml", "servicemonitor.yaml", "prometheusrule.yaml")
# Findings of kube-score that we accept, with the reason.
KNOWN = {
    "CPU limit is not set": "a leader that is throttled loses its lease",
    "Ephemeral Storage limit is not set": "only /tmp can be written, and that has a limit of 16 MiB",
    "Ephemeral Storage request is not set": "logs are all that is kept, and the kubelet rotates them",
    "ImagePullPolicy is not set to Always": "a tag is one version; no start should have to wait for a registry",
    "The pod does not have a matching egress NetworkPolicy": "no policy can name the API server",
    "Deployment does not have a host podAntiAffinity set": "topologySpreadConstraints spread them over nodes",
}


def list_manifests():
    """Return the manifest files of the repository."""
    folders = ("config", "examples", "bundle/manifests")
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.yaml"))]
    return [path for path in found if path.name not in LOCAL]


@pytest.fixture(scope="session")
async def schemas(api, tmp_path_factory):
    """A folder with a schema for every kind of the API server, of ours, and of OLM if its tool is available."""
    folder = tmp_path_factory.mktemp("schemas")

    def keep(named):
        for name, schema in named:
            (folder / name).write_text(json.dumps(schema))

    for place in (await api.get("/openapi/v3"))["paths"].values():
        path, _, query = place["serverRelativeURL"].partition("?")
        keep(schemas_from_openapi(await api.get(path, **dict([query.split("=", 1)]))))
    ours = [
        *sorted((ROOT / "config/crd").glob("*.yaml")),
        *sorted((ROOT / "charts/quintet/crds").glob("*.yaml")),
    ]
    for path in ours:
        for body in yaml.safe_load_all(path.read_text()):
            if body["kind"] == "CustomResourceDefinition":
                keep(schemas_from_crd(body))
    return folder


@pytest.fixture(scope="session")
def conform(tool, program, schemas):
    for path in sorted((program("olm").parent / "crds").glob("*.yaml")):
        for name, schema in schemas_from_crd(yaml.safe_load(path.read_text())):
            (schemas / name).write_text(json.dumps(schema))

    def check(*paths):
        """What kubeconform says of files: how many objects it found right, and all else that it says."""
        done = tool("kubeconform")(
            "-strict", "-summary", "-output", "json", "-schema-location", f"{schemas}/{LOCATION}", *map(str, paths)
        )  # fmt: skip
        said = json.loads(done.stdout)
        others = [
            f"{each['filename']} {each['kind']} {each['name']}: {each['msg']}" for each in said["resources"]
        ]
        assert (done.returncode == 0) == (not others), done.stderr
        return said["summary"]["valid"], others

    return check


def test_every_manifest_in_repository_conforms_to_schema(conform):
    valid, others = conform(*list_manifests())
    assert others == []
    assert valid >= len(list_manifests())


def test_every_manifest_of_release_conforms_to_schema(conform, dist):
    files = [
        dist / name
        for name in ("install.yaml", "quintet.yaml", "kiagnose-install.yaml", "kiagnose-quintet.yaml")
    ]
    files += sorted((dist / "operators/quintet" / __version__ / "manifests").iterdir())
    valid, others = conform(*files)
    assert others == []
    assert valid > len(files)


@pytest.mark.parametrize(
    "options",
    [(), ("--set=networkPolicy.enabled=false,operator.replicas=3,image.digest=sha256:abc",)],
    ids=["default values", "with other values"],
)
def test_rendered_chart_conforms_to_schema(conform, helm, tmp_path, options):
    done = helm("template", "quintet", str(ROOT / "charts/quintet"), "--include-crds", *options)
    assert done.returncode == 0, done.stderr
    (tmp_path / "rendered.yaml").write_text(done.stdout)
    valid, others = conform(tmp_path / "rendered.yaml")
    assert others == []
    assert valid > 10


@pytest.mark.parametrize("topology", list(Topology))
@pytest.mark.parametrize("flavour", [QUINTET, KIAGNOSE], ids=lambda flavour: flavour.name)
def test_objects_created_by_operator_conform_to_schema(conform, tmp_path, topology, flavour):
    (tmp_path / "made.yaml").write_text(as_yaml(*created_objects(topology, flavour)))
    valid, others = conform(tmp_path / "made.yaml")
    assert others == []
    assert valid > 10


def created_objects(topology, flavour=QUINTET):
    return objects(installer(ALL, flavour)(QuintetSpec(topology=topology), {}))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("spec", "replica"), 2),
        (("spec", "replicas"), "two"),
        (("spec", "template", "spec", "containers", 0, "imagePullPolicies"), "Always"),
        (("spec", "template", "spec", "topologySpreadConstraints", 0, "whenUnsatisfiable"), "Perhaps"),
        (("metadata", "label"), {}),
    ],
    ids=lambda each: ".".join(map(str, each)) if isinstance(each, tuple) else "",
)
def test_conformance_check_finds_invalid_deployment(conform, tmp_path, place, value):
    deployment = next(body for body in created_objects(Topology.COMBINED) if body["kind"] == "Deployment")
    *above, last = place
    below = deployment
    for step in above:
        below = below[step]
    below[last] = value
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(deployment))
    valid, others = conform(tmp_path / "wrong.yaml")
    assert (valid, len(others)) == (0, 1)


def test_conformance_check_finds_invalid_custom_resource(conform, tmp_path):
    body = yaml.safe_load((ROOT / "config/samples/jsonserver.yaml").read_text())
    body["spec"]["replica"] = 2
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(body))
    assert conform(tmp_path / "wrong.yaml")[0] == 0


def run_kube_score(tool, *paths):
    """Return the findings of kube-score."""
    argv = ("score", "--output-format", "json", "--kubernetes-version", "v1.35", *map(str, paths))
    done = tool("kube-score")(*argv)
    assert done.stdout, done.stderr
    return {
        said["summary"]
        for each in json.loads(done.stdout)
        for check in each["checks"]
        if check["grade"] < 10 and not check["skipped"]
        for said in check["comments"]
    }


@pytest.mark.parametrize("topology", list(Topology))
def test_kube_score_finds_only_known_exceptions(tool, dist, tmp_path, topology):
    (tmp_path / "made.yaml").write_text(as_yaml(*created_objects(topology)))
    assert run_kube_score(tool, tmp_path / "made.yaml", dist / "install.yaml") == set(KNOWN)


def test_manager_manifest_without_operator_lacks_only_network_policy(tool):
    found = run_kube_score(tool, ROOT / "config/default/manager.yaml")
    assert found - set(KNOWN) == {"The pod does not have a matching NetworkPolicy"}
