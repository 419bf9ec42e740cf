"""Chart and bundle are the same installation in other words."""

import base64
import json
from pathlib import Path

import jsonschema
import pytest

from kit.manifests import yamltext
from quintet import __version__
from quintet.components import COMPONENTS
from quintet.manifests import olm
from quintet.manifests.helm import chart as helm
from quintet.manifests.helm import expressions
from quintet.manifests.operator import operator, operator_rules, quintet_object

ALL = tuple(COMPONENTS.values())


@pytest.fixture(scope="module")
def chart():
    return helm.chart(ALL)


@pytest.fixture(scope="module")
def bundle():
    files = olm.bundle(ALL)
    return {path: yamltext.load(content) for path, content in files.items()}


@pytest.fixture(scope="module")
def service(bundle):
    return bundle[Path("manifests/quintet.clusterserviceversion.yaml")]


def templates(chart):
    return {path.name: content for path, content in chart.items() if "templates" in path.parts}


def test_chart_contains_every_object_of_operator(chart):
    text = "".join(templates(chart).values())
    for body in operator(ALL):
        if body["kind"] not in ("Namespace", "CustomResourceDefinition"):
            assert f"kind: {body['kind']}\nmetadata:\n  name: {body['metadata']['name']}\n" in text


def test_every_chart_object_has_the_standard_labels(chart):
    for name, content in templates(chart).items():
        objects = content.count("\nkind: ") if name.endswith(".yaml") else 0
        assert content.count('include "quintet.labels" .') == objects, name


def test_fields_of_a_template_come_from_values():
    body = {
        "number": expressions.scalar(".Values.n"),
        "labels": {
            "own": "x",
            **expressions.merge(".Values.labels"),
            **expressions.merge('include "l" .'),
        },
        "list": ["first", expressions.items(".Values.more")],
        "selector": expressions.optional(".Values.selector"),
        "alert": "{{ $value }} failed",
    }
    assert (
        expressions.as_template(body, ".Values.enabled")
        == """\
{{- if .Values.enabled }}
number: {{ .Values.n }}
labels:
  own: x
  {{- with .Values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- include "l" . | nindent 2 }}
list:
  - first
  {{- with .Values.more }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.selector }}
selector:
  {{- toYaml . | nindent 2 }}
{{- end }}
alert: '{{ "{{" }} $value }} failed'
{{- end }}
"""
    )


def test_default_chart_values_satisfy_schema():
    jsonschema.validate(helm.values(), helm.values_schema())


def test_every_chart_value_is_used_and_documented(chart):
    text, page = "".join(templates(chart).values()), chart[helm.CHART / "README.md"]
    inner = {"image.repository", "image.tag", "image.digest"}  # within `with .Values.image`
    for group, found in helm.values().items():
        named = (
            [f"{group}.{name}" for name in found]
            if group not in ("imagePullSecrets", "commonLabels")
            else [group]
        )
        for name in named:
            assert name in inner or f".Values.{name}" in text, name
            assert f"| `{name}` | `" in page, name


def test_chart_defaults_are_those_of_the_other_ways_to_install():
    (deployment,) = [body for body in operator(ALL) if body["kind"] == "Deployment"]
    spec, found = deployment["spec"]["template"]["spec"], helm.values()["operator"]
    assert found["replicas"] == deployment["spec"]["replicas"]
    assert found["resources"] == spec["containers"][0]["resources"]
    assert found["topologySpreadConstraints"] == spec["topologySpreadConstraints"]
    image = helm.values()["image"]
    assert f"{image['repository']}:{__version__}" == spec["containers"][0]["image"]
    assert image["pullPolicy"] == spec["containers"][0]["imagePullPolicy"]


def test_quintet_chart_values_forbid_unknown_fields():
    spec = helm.values_schema()["properties"]["quintet"]["properties"]["spec"]
    assert spec["additionalProperties"] is False
    assert spec["properties"]["settings"]["properties"]["eventing"]["additionalProperties"] is False
    assert "x-kubernetes" not in json.dumps(spec)


def test_chart_crds_are_in_crds_folder(chart):
    assert [path.name for path in chart if path.parent.name == "crds"] == ["quintets.quintet.dev.yaml"]
    templates = [content for path, content in chart.items() if "templates" in path.parts]
    assert not [content for content in templates if "kind: CustomResourceDefinition" in content]


def test_bundle_grants_same_permissions_as_other_methods(service):
    cluster, own = operator_rules(ALL)
    strategy = service["spec"]["install"]["spec"]
    assert strategy["clusterPermissions"] == [{"serviceAccountName": "quintet-operator", "rules": cluster}]
    assert strategy["permissions"] == [{"serviceAccountName": "quintet-operator", "rules": own}]


def test_bundle_runs_same_deployment_as_other_methods(service):
    (want,) = [body for body in operator(ALL) if body["kind"] == "Deployment"]
    (deployment,) = service["spec"]["install"]["spec"]["deployments"]
    assert deployment["spec"] == want["spec"]


def test_bundle_contains_only_allowed_kinds(bundle):
    kinds = {body["kind"] for path, body in bundle.items() if path.parts[0] == "manifests"}
    assert kinds == {"ClusterServiceVersion", "CustomResourceDefinition", "ClusterRole", "Service"}


def test_bundle_has_all_operatorhub_fields(service):
    spec, annotations = service["spec"], service["metadata"]["annotations"]
    assert service["metadata"]["name"] == f"quintet.v{__version__}"
    for field in ("displayName", "description", "icon", "version", "maintainers", "provider", "links",
                  "keywords", "minKubeVersion"):  # fmt: skip
        assert spec[field], field
    assert [mode["type"] for mode in spec["installModes"] if mode["supported"]] == ["AllNamespaces"]
    assert len(spec["installModes"]) == 4
    assert tuple(map(int, spec["minKubeVersion"].split("."))) <= (1, 32, 0)
    examples = json.loads(annotations["alm-examples"])
    assert examples == [quintet_object()]
    assert {each["kind"] for each in examples} == {
        each["kind"] for each in spec["customresourcedefinitions"]["owned"]
    }
    assert b"<svg" in base64.b64decode(spec["icon"][0]["base64data"])


def test_bundle_suggests_quintet_as_initialization_resource(service):
    annotations = service["metadata"]["annotations"]
    assert json.loads(annotations["operatorframework.io/initialization-resource"]) == quintet_object()
    assert annotations["operatorframework.io/suggested-namespace"] == "quintet-system"


def test_bundle_lists_every_default_image(service):
    from quintet.cli.verbs.processes.run import run

    defaults = {each.name: each.default for each in run.params if each.name.endswith("_image")}
    assert sorted(defaults) == ["eventing_image", "json_server_image", "nats_image"]
    assert {each["image"] for each in service["spec"]["relatedImages"]} == set(defaults.values())
    assert service["metadata"]["annotations"]["containerImage"] in defaults.values()


def test_bundle_image_labels_equal_its_annotations(bundle):
    said = bundle[Path("metadata/annotations.yaml")]["annotations"]
    lines = olm.dockerfile().splitlines()
    assert [line for line in lines if line.startswith("LABEL ")] == [
        f"LABEL {name}={value}" for name, value in said.items()
    ]


def test_catalog_links_each_release_to_its_predecessor():
    releases = [olm.Release("0.1.0"), olm.Release("0.2.0", replaces="0.1.0")]
    first = olm.catalog(ALL, releases[0])
    found = list(yamltext.load_all(olm.catalog(ALL, releases[1], first)))
    (channel,) = [each for each in found if each["schema"] == "olm.channel"]
    assert channel["entries"] == [
        {"name": "quintet.v0.1.0"},
        {"name": "quintet.v0.2.0", "replaces": "quintet.v0.1.0"},
    ]
    bundles = [each for each in found if each["schema"] == "olm.bundle"]
    assert [each["name"] for each in bundles] == ["quintet.v0.1.0", "quintet.v0.2.0"]
    assert bundles[0] in list(yamltext.load_all(first)), "what was released stays as it was"
    (package,) = [each for each in found if each["schema"] == "olm.package"]
    assert package["defaultChannel"] == channel["name"]
    assert "replaces" not in olm.cluster_service_version(ALL, releases[0])["spec"]
    assert olm.cluster_service_version(ALL, releases[1])["spec"]["replaces"] == "quintet.v0.1.0"


def test_repeated_release_is_listed_once():
    releases = [olm.Release("0.1.0"), olm.Release("0.2.0", replaces="0.1.0")]
    second = olm.catalog(ALL, releases[1], olm.catalog(ALL, releases[0]))
    assert olm.catalog(ALL, releases[1], second) == second


def test_release_without_predecessor_in_catalog_is_rejected():
    first = olm.catalog(ALL, olm.Release("0.1.0"))
    with pytest.raises(ValueError, match=r"quintet\.v0\.3\.0 must replace .* quintet\.v0\.1\.0"):
        olm.catalog(ALL, olm.Release("0.3.0", replaces="0.2.0"), first)
