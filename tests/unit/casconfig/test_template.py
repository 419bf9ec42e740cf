"""Where a kind has its pod is found from its schema, so that kinds nobody has heard of work too."""

import pytest

from quintet.apis.casconfig.template import pod_place
from quintet.apis.jsonserver import JSONSERVER, JSONSERVERS
from quintet.apis.kubernetes_schemas import load_schemas
from quintet.apis.meta import Resource
from quintet.apis.statefulcluster import STATEFULCLUSTER, STATEFULCLUSTERS
from quintet.manifests.crd import object_schema

TEMPLATE = {"$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"}


def kind(group, version, name, **spec):
    gvk = [{"group": group, "version": version, "kind": name}]
    return {
        "type": "object",
        "x-kubernetes-group-version-kind": gvk,
        "properties": {"spec": {"type": "object", "properties": spec}},
    }


def document(**kinds):
    return {"components": {"schemas": {**load_schemas(), **kinds}}}


def place(found, group="apps", version="v1", name="Thing"):
    return pod_place(document(thing=found), Resource(group, version, name, "things"))


def test_pod_template_behind_schema_references_is_found():
    assert place(kind("apps", "v1", "Thing", template={"allOf": [TEMPLATE], "default": {}})) == (
        "spec",
        "template",
        "spec",
    )


def test_pod_template_inside_a_job_template_is_found():
    job = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"template": TEMPLATE}}}}
    assert place(kind("batch", "v1", "Thing", jobTemplate=job), "batch") == (
        "spec",
        "jobTemplate",
        "spec",
        "template",
        "spec",
    )


def test_pod_itself_is_recognised():
    pod = kind("", "v1", "Pod")
    pod["properties"]["spec"] = {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]}
    assert place(pod, "", "v1", "Pod") == ("spec",)


@pytest.mark.parametrize(
    ("declared", "resource", "want"),
    [
        (STATEFULCLUSTER, STATEFULCLUSTERS, ("spec", "template", "spec")),
        (JSONSERVER, JSONSERVERS, None),
    ],
    ids=["StatefulCluster has a pod template", "what JsonServer lays over its template is none"],
)
def test_own_custom_resources_are_recognised(declared, resource, want):
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    schema = {**object_schema(declared), "x-kubernetes-group-version-kind": [gvk]}
    assert pod_place(document(it=schema), resource) == want


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"template": {"type": "object"}},
        {"template": {"type": "string"}},
        {
            "template": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"containers": {"type": "object"}}}},
            }
        },
        {
            "template": {
                "type": "object",
                "properties": {
                    "spec": {
                        "type": "object",
                        "properties": {"containers": {"type": "array", "items": {"type": "string"}}},
                    }
                },
            }
        },
        {"template": {"$ref": "#/components/schemas/nowhere"}},
    ],
    ids=[
        "no template",
        "any template",
        "a text",
        "containers that are no list",
        "a list of texts",
        "a broken reference",
    ],
)
def test_fields_that_resemble_a_pod_template_are_rejected(spec):
    assert place(kind("apps", "v1", "Thing", **spec)) is None


def test_same_kind_in_another_group_or_version_is_different():
    found = kind("apps", "v1", "Thing", template=TEMPLATE)
    assert place(found, version="v2") is None
    assert place(found, group="other") is None
    assert pod_place({}, Resource("apps", "v1", "Thing", "things")) is None
