"""Defaults, refusals and warnings of a JsonServer, in the words of its users."""

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from quintet.apis.jsonserver import JSONSERVER, default, validate
from quintet.apis.lint import problems
from quintet.manifests.crd import custom_resource_definition

NAMES = ("volumes", "containers", "projected", "sources", "volumeMounts", "name", "json-server", "mountPath")
ANY_TEMPLATE = st.dictionaries(
    st.sampled_from(NAMES),
    st.recursive(
        st.none() | st.integers() | st.sampled_from(NAMES),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
        ),
    ),
)


def a_server(name="app-x", **spec):
    return {"metadata": {"name": name}, "spec": {"jsonConfig": "{}", **spec}}


def test_defaulting_sets_one_replica_and_the_finalizer():
    stored = default({"metadata": {"name": "app-x"}, "spec": {"jsonConfig": "{}"}})
    assert stored["spec"]["replicas"] == 1
    assert stored["metadata"]["finalizers"] == ["example.com/jsonserver"]


def test_defaulting_keeps_existing_values():
    given = a_server(replicas=0)
    given["metadata"]["finalizers"] = ["a/b", "example.com/jsonserver"]
    assert default(given) == given


@pytest.mark.parametrize(
    ("server", "want"),
    [
        (a_server("web"), "metadata.name: Invalid value: \"web\": Invalid name: must start with 'app-'."),
        (a_server(replicas=-1), "spec.replicas: Invalid value: -1: Invalid replicas number."),
        (
            a_server(jsonConfig="{"),
            "spec.jsonConfig: Invalid value: Invalid JSON configuration. line 1, column 2: expecting property name "
            "enclosed in double quotes",
        ),
        (
            {"metadata": {"name": "app-x"}, "spec": {}},
            "spec.jsonConfig: Required value: Invalid JSON configuration. It must be a string that contains a JSON object.",
        ),
        (
            a_server(template={"metadata": {"labels": {"app": "other"}}}),
            "spec.template.metadata.labels[app]: Forbidden: this label selects the pods and must stay 'app-x'",
        ),
        (
            a_server(template={"spec": {"serviceAccountName": "admin"}}),
            "spec.template.spec.serviceAccountName: Forbidden: pods of a JsonServer run without a ServiceAccount of their own",
        ),
        (
            a_server(template={"spec": {"volumes": [{"name": "json-config", "emptyDir": {}}]}}),
            "spec.template.spec.volumes[0]: Forbidden: the volume name 'json-config' is reserved",
        ),
        (
            a_server(
                template={
                    "spec": {
                        "volumes": [
                            {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
                        ]
                    }
                }
            ),
            "spec.template.spec.volumes[0]: Forbidden: pods of a JsonServer must not mount a ServiceAccount token or a pod certificate",
        ),
        (
            a_server(
                template={
                    "spec": {
                        "containers": [
                            {"name": "json-server", "volumeMounts": [{"name": "x", "mountPath": "/data"}]}
                        ]
                    }
                }
            ),
            "spec.template.spec.containers[0].volumeMounts[0]: Forbidden: /data, /etc/json-server and their volumes are reserved",
        ),
        (
            a_server(template={"spec": {"containers": [{"image": "x"}]}}),
            "spec.template.spec.containers[0].name: Required value: must be set",
        ),
    ],
)
def test_error_names_its_field(server, want):
    assert [str(error) for error in validate(server).errors] == [want]


def test_all_errors_are_reported_at_once():
    assert len(validate(a_server("web", replicas=-1, jsonConfig="[")).errors) == 3


def test_valid_server_passes():
    overlay = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {"containers": [{"name": "json-server", "env": []}]},
    }
    assert validate(a_server(template=overlay)).errors == ()


def test_several_replicas_with_ephemeral_storage_give_a_warning():
    want = "spec.storage: with Ephemeral storage and several replicas, each pod has its own data"
    assert validate(a_server(storage="Ephemeral", replicas=2)).warnings == (want,)
    assert validate(a_server(storage="Ephemeral", replicas=1)).warnings == ()


def test_data_that_cannot_be_served_gives_a_warning_with_its_path():
    found = validate(a_server(jsonConfig='{"version": 1}')).warnings
    assert list(found) == [
        "spec.jsonConfig: version: json-server serves only objects and arrays at the top level, not a string or number"
    ]


def test_invalid_data_gives_an_error_and_no_warning():
    assert validate(a_server(jsonConfig="[")).warnings == ()


def test_crd_follows_the_api_conventions():
    schema = custom_resource_definition(JSONSERVER)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert problems(schema) == []


@drawn(ANY_TEMPLATE)
def test_template_of_any_shape_is_validated_without_crash(template):
    validate({"metadata": {"name": "app-x"}, "spec": {"jsonConfig": "{}", "template": {"spec": template}}})
