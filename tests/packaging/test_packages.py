"""The tools of each install method accept our packages, and Helm renders the same objects.

Tests that need no such tool are in `integration/test_installation_files.py`.
"""

import base64
import json
import shutil
from pathlib import Path

import pytest
import yaml

from quintet import __version__
from quintet.components import COMPONENTS
from quintet.manifests.installation import QUINTET
from quintet.manifests.operator import operator, quintet_object

ALL = tuple(COMPONENTS.values())
ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/quintet"
QUINTET_PATH = "/apis/quintet.dev/v1alpha1/quintets/quintet"


def keyed(bodies):
    return {
        (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]): body
        for body in bodies
    }


def documents(text):
    return [body for body in yaml.safe_load_all(text) if body]


def rendered(helm, *options):
    argv = ("template", "quintet", str(CHART), "--namespace", QUINTET.namespace, "--include-crds", *options)
    done = helm(*argv)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def test_chart_renders_same_objects_as_single_file_manifest(helm):
    made = [body for body in rendered(helm) if "helm.sh/hook" not in body["metadata"].get("annotations", {})]
    want = keyed([*(body for body in operator(ALL) if body["kind"] != "Namespace"), quintet_object()])
    assert keyed(map(_without_standard_labels, made)) == keyed(map(_without_standard_labels, want.values()))


STANDARD = {
    "app.kubernetes.io/instance": "quintet",
    "app.kubernetes.io/managed-by": "Helm",
    "app.kubernetes.io/version": __version__,
    "helm.sh/chart": f"quintet-{__version__}",
}


def _without_standard_labels(body):
    metadata = body["metadata"]
    kept = {
        name: value
        for name, value in metadata.get("labels", {}).items()
        if name not in STANDARD and not name.startswith("app.kubernetes.io/")
    }
    return {**body, "metadata": {**metadata, "labels": kept}}


def test_chart_objects_have_the_standard_labels(helm):
    options = ("--set=serviceMonitor.enabled=true,prometheusRule.enabled=true", "--set=commonLabels.team=a")
    for body in rendered(helm, *options):
        if body["kind"] != "CustomResourceDefinition":
            want = {**STANDARD, "app.kubernetes.io/part-of": "quintet", "team": "a"}
            assert body["metadata"]["labels"].items() >= want.items(), body["metadata"]
            assert "app.kubernetes.io/name" in body["metadata"]["labels"], body["metadata"]


def test_chart_values_of_pods_are_applied(helm, tmp_path):
    scheduling = {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [],
        "priorityClassName": "system-cluster-critical",
    }
    more = {
        "podLabels": {"team": "a"},
        "podAnnotations": {"sidecar.istio.io/inject": "false"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraArgs": ["--log-format=text"],
        "podDisruptionBudget": {"minAvailable": 1},
    }
    given = {
        "image": {"pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "operator": {**scheduling, **more},
        "serviceAccount": {"annotations": {"role": "x"}},
        "service": {"annotations": {"scrape": "true"}},
        "quintet": {"spec": {"pods": {"priorityClassName": "high"}}},
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(given))
    made = keyed(rendered(helm, "--values", str(file)))
    template = made["Deployment", QUINTET.namespace, "quintet-operator"]["spec"]["template"]
    spec, (container,) = template["spec"], template["spec"]["containers"]
    assert {name: spec.get(name, []) for name in scheduling} == scheduling
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["annotations"] == more["podAnnotations"]
    assert container["imagePullPolicy"] == "Always"
    assert container["env"][-1] == more["extraEnv"][0]
    assert container["args"][-1] == "--log-format=text"
    budget = made["PodDisruptionBudget", QUINTET.namespace, "quintet-operator"]["spec"]
    assert (budget["minAvailable"], "maxUnavailable" in budget) == (1, False)
    account = made["ServiceAccount", QUINTET.namespace, "quintet-operator"]
    assert account["metadata"]["annotations"] == {"role": "x"}
    service = made["Service", QUINTET.namespace, "quintet-operator-metrics"]
    assert service["metadata"]["annotations"] == {"scrape": "true"}
    assert made["Quintet", "", "quintet"]["spec"] == {
        "pods": {
            "priorityClassName": "high",
            "imagePullSecrets": [{"name": "registry"}],
            "imagePullPolicy": "Always",
        }
    }


def test_chart_test_runs_with_permission_to_read_the_quintet_only(helm):
    made = keyed(rendered(helm))
    pod = made["Pod", QUINTET.namespace, "quintet-test"]
    assert pod["spec"]["serviceAccountName"] == "quintet-test"
    assert made["ClusterRoleBinding", "", "quintet-test"]["roleRef"]["name"] == "quintet-test"
    (rule,) = made["ClusterRole", "", "quintet-test"]["rules"]
    assert rule == {"apiGroups": ["quintet.dev"], "resources": ["quintets"], "verbs": ["list"]}


def test_helm_lint_accepts_chart(helm):
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_helm_accepts_packaged_chart(helm, dist):
    done = helm("template", "quintet", str(dist / f"quintet-{__version__}.tgz"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "value",
    ["operator.replicas=0", "image.pullPolicy=Sometimes", "operator.tolerations={x}", "operator.logLevel=loud", "quintet.spec.topology=Scattered", "quintet.spec.replica=2",
     "unheard=of"],
)  # fmt: skip
def test_invalid_chart_value_is_rejected(helm, value):
    done = helm("template", "quintet", str(CHART), "--set", value)
    assert done.returncode != 0, done.stdout[:200]


def test_chart_values_are_applied(helm):
    made = keyed(
        rendered(
            helm,
            "--set=image.repository=registry.example.com/quintet,image.digest=sha256:abc",
            "--set=operator.replicas=3,operator.logLevel=debug,operator.resources=null",
            "--set=networkPolicy.enabled=false,serviceMonitor.enabled=true",
            "--set=quintet.spec.controllers={checkup},quintet.spec.settings.checkup.workers=2",
        )
    )
    deployment = made["Deployment", QUINTET.namespace, "quintet-operator"]["spec"]
    container = deployment["template"]["spec"]["containers"][0]
    assert deployment["replicas"] == 3
    assert container["image"] == "registry.example.com/quintet@sha256:abc"
    assert "--log-level=debug" in container["args"]
    assert ("ServiceMonitor", QUINTET.namespace, "quintet-operator") in made
    assert not [key for key in made if key[0] == "NetworkPolicy"]
    spec = made["Quintet", "", "quintet"]["spec"]
    assert spec == {"controllers": ["checkup"], "settings": {"checkup": {"workers": 2}}}


def test_bundle_validators_find_no_error(tool):
    # The design requires that the operator creates the CRDs of its controllers (docs/adr/0017).
    allowed = "CSV contains permissions to create CRD"
    done = tool("bundle-validate")("-allow", allowed, str(ROOT / "bundle"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_opm_accepts_catalog(tool, dist):
    for folder in (ROOT / "catalog", dist / "catalog"):
        done = tool("opm")("validate", str(folder))
        assert done.returncode == 0, done.stderr


def _plain(entry):
    """A property as text; an object in it without the wrapping that hides how it was written down."""
    value = entry["value"]
    return json.dumps(
        json.loads(base64.b64decode(value["data"])) if "data" in value else value, sort_keys=True
    )


def test_opm_renders_bundle_equal_to_catalog(tool, tmp_path):
    """The bundle in the catalog equals what opm renders from the folder."""
    shutil.copytree(ROOT / "bundle", tmp_path / "bundle")
    done = tool("opm")("render", "-o", "json", str(tmp_path / "bundle"))
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    ours = next(
        body
        for body in documents((ROOT / "catalog/quintet/catalog.yaml").read_text())
        if body["schema"] == "olm.bundle"
    )
    assert theirs["name"] == ours["name"]
    for kind in ("olm.package", "olm.gvk", "olm.bundle.object"):
        want, seen = (
            [_plain(each) for each in side["properties"] if each["type"] == kind] for side in (theirs, ours)
        )
        assert sorted(seen) == sorted(want), kind
    assert (theirs["image"], theirs["relatedImages"]) == (ours["image"], ours["relatedImages"])


async def test_helm_installs_upgrades_and_uninstalls_and_keeps_crds(helm, cluster, api, namespace):
    where = ("--namespace", namespace, "--kubeconfig", str(cluster.kubeconfig))
    done = helm("install", "quintet", str(CHART), *where, "--set", "quintet.spec.controllers={checkup}")
    assert done.returncode == 0, done.stderr
    assert "kubectl get quintets quintet" in done.stdout
    deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/quintet-operator"
    assert (await api.get(deployment))["spec"]["replicas"] == 2
    assert (await api.get(QUINTET_PATH))["spec"]["controllers"] == ["checkup"]
    done = helm("upgrade", "quintet", str(CHART), *where, "--set", "operator.replicas=1")
    assert done.returncode == 0, done.stderr
    assert (await api.get(deployment))["spec"]["replicas"] == 1
    done = helm("uninstall", "quintet", *where)
    assert done.returncode == 0, done.stderr
    assert not await api.exists(deployment)
    assert not await api.exists(QUINTET_PATH)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/quintets.quintet.dev"
    assert await api.exists(path)


def test_bundle_validators_find_error_in_broken_bundle(tool, tmp_path):
    broken = tmp_path / "bundle"
    shutil.copytree(ROOT / "bundle", broken)
    path = broken / "manifests/quintet.clusterserviceversion.yaml"
    service = yaml.safe_load(path.read_text())
    service["metadata"]["annotations"]["categories"] = "Unheard of"
    del service["spec"]["provider"]
    path.write_text(yaml.safe_dump(service))
    done = tool("bundle-validate")(str(broken))
    assert done.returncode == 1
    assert "Unheard of" in done.stdout
    assert "csv.Spec.Provider.Name not specified" in done.stdout
