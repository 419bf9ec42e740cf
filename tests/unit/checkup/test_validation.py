"""What the webhooks of Checkup say, and what the definition says by itself."""

import pytest

from quintet.apis.checkup import CHECKUP
from quintet.apis.checkup.types import FINALIZER
from quintet.apis.checkup.validation import alias_warnings, default, spec_errors
from quintet.apis.lint import problems
from quintet.manifests.crd import custom_resource_definition, object_schema

SPEC = {"image": "i", "serviceAccountName": "s", "timeoutSeconds": 5}


def said(**spec):
    return [str(error) for error in spec_errors({**SPEC, **spec})]


def test_valid_spec_has_no_errors():
    assert said() == []
    assert (
        said(timeoutSeconds="86400", params='{"a": "b"}', template={"spec": {"nodeSelector": {"a": "b"}}})
        == []
    )


@pytest.mark.parametrize(
    "timeout", [0, -1, 86401, "0", "05", "86401", "1m", "", "5.0", 5.5, True, None, [], "²"]
)
def test_timeout_is_a_number_of_seconds(timeout):
    (error,) = said(timeoutSeconds=timeout)
    assert error.startswith("spec.timeoutSeconds")
    assert "from 1 to 86400" in error


def test_two_different_timeouts_are_refused():
    (error,) = said(timeout=6)
    assert "spec.timeout: Forbidden" in error


@pytest.mark.parametrize("name", ["image", "serviceAccountName"])
def test_required_fields_must_not_be_blank(name):
    assert said(**{name: " "}) == [f"spec.{name}: Required value: must be set"]


def test_all_errors_are_reported_at_once():
    found = spec_errors({"params": "["})
    assert [str(error.path) for error in found] == [
        "spec.image", "spec.serviceAccountName", "spec.timeoutSeconds", "spec.params",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("overlay", "want"),
    [
        ({"serviceAccountName": "admin"}, "spec.template.spec.serviceAccountName: Forbidden"),
        (
            {"automountServiceAccountToken": False},
            "spec.template.spec.automountServiceAccountToken: Forbidden",
        ),
        ({"restartPolicy": "Always"}, "spec.template.spec.restartPolicy: Forbidden"),
        ({"activeDeadlineSeconds": 1}, "spec.template.spec.activeDeadlineSeconds: Forbidden"),
        (
            {"containers": [{"name": "checkup", "image": "x"}]},
            "spec.template.spec.containers[0].image: Forbidden",
        ),
        ({"containers": [{"image": "x"}]}, "spec.template.spec.containers[0].name: Required"),
        ({"containers": {}}, "spec.template.spec.containers: Invalid type"),
        ({"containers": {"name": "x"}}, "spec.template.spec.containers: Invalid type"),
        ({"containers": [{"name": "checkup", "env": [{"name": "POD_UID"}]}]}, "env[0].name: Forbidden"),
        ({"containers": [{"name": "checkup", "env": [{"name": "MESSAGE"}]}]}, "env[0].name: Forbidden"),
        ({"containers": [{"name": "helper", "image": "x", "env": [{"name": "MESSAGE"}]}]}, ""),
    ],
)
def test_template_must_not_change_reserved_fields(overlay, want):
    found = said(params={"message": "x"}, template={"spec": overlay})
    assert [error for error in found if want in error] if want else found == []


def test_new_checkup_gets_finalizer_and_loses_deprecated_names():
    made = default({"metadata": {}, "spec": {"timeout": 1}}, created=True)
    assert made == {"metadata": {"finalizers": [FINALIZER]}, "spec": {"timeoutSeconds": 1}}


def test_deprecated_name_set_again_is_rewritten_again():
    changed = default({"metadata": {}, "spec": {"timeoutSeconds": 1, "timeout": 1}}, created=False)
    assert changed == {"metadata": {}, "spec": {"timeoutSeconds": 1}}


def test_two_different_timeouts_are_left_to_validation():
    obj = {"metadata": {}, "spec": {"timeoutSeconds": 1, "timeout": 2}}
    assert default(obj, created=False) == obj


def test_started_checkup_keeps_its_deprecated_name():
    obj = {"metadata": {}, "spec": {"timeout": 1}, "status": {"startTime": "2026-01-01T00:00:00Z"}}
    assert default(obj, created=False) == obj
    assert alias_warnings(obj) == ()


def test_deprecated_names_give_warnings():
    assert "use spec.timeoutSeconds" in alias_warnings({"spec": {"timeout": 1}})[0]
    assert alias_warnings({"spec": {"timeoutSeconds": 1}}) == ()


def test_every_field_has_a_description_and_limits():
    assert problems(object_schema(CHECKUP)) == []


def test_crd_matches_the_design():
    spec = custom_resource_definition(CHECKUP)["spec"]
    assert spec["names"]["shortNames"] == ["ckup"]
    assert spec["names"]["categories"] == ["quintet"]
    columns = [
        column["name"]
        for column in spec["versions"][0]["additionalPrinterColumns"]
        if "priority" not in column
    ]
    assert columns == ["Verdict", "Reason", "Duration", "Age"]
