"""Which fields of a child others changed, and who, from managedFields alone."""

import msgspec
import pytest

from quintet.runtime.drift import ChangedField, describe_changes, find_changed_fields
from quintet.runtime.ownership import ManagedFields

DESIRED = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "labels": {"app": "d"}, "annotations": {"quintet.dev/applied": "u/x"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"spec": {"containers": [{"name": "c", "image": "i", "args": ["a", "b"]}]}},
    },
}


def entry(manager: str, fields: dict, operation: str = "Apply") -> ManagedFields:
    return ManagedFields(manager, operation, "", msgspec.Raw(msgspec.json.encode(fields)))


def fields(
    *, replicas: bool = True, label: bool = True, image: bool = True, args: bool = True, item: bool = True
):
    """Return the record of our apply, without what others have taken over."""
    container = {".": {}, "f:name": {}}
    container |= ({"f:image": {}} if image else {}) | ({"f:args": {}} if args else {})
    spec = {"f:selector": {}}
    if item:
        spec["f:template"] = {"f:spec": {"f:containers": {'k:{"name":"c"}': container}}}
    if replicas:
        spec["f:replicas"] = {}
    return {**({"f:metadata": {"f:labels": {"f:app": {}}}} if label else {}), "f:spec": spec}


def container(**names):
    return {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"c"}': names}}}}}


@pytest.mark.parametrize(
    ("ours", "others", "want"),
    [
        pytest.param(fields(), [], [], id="nothing"),
        pytest.param(fields(replicas=False), [entry("kubectl-scale", {"f:spec": {"f:replicas": {}}}, "Update")],
                     [ChangedField("spec.replicas", ("kubectl-scale",))], id="a scalar"),
        pytest.param(fields(image=False), [entry("kubectl-edit", container(**{"f:image": {}}), "Update")],
                     [ChangedField("spec.template.spec.containers[c].image", ("kubectl-edit",))], id="in a list item"),
        pytest.param(fields(args=False), [entry("x", container(**{"f:args": {}}))],
                     [ChangedField("spec.template.spec.containers[c].args", ("x",))], id="an atomic list"),
        pytest.param(fields(label=False), [], [ChangedField("metadata.labels.app", ())], id="a removed label"),
        pytest.param(fields(item=False), [], [ChangedField("spec.template.spec.containers[c]", ())], id="a removed item"),
        pytest.param(fields(replicas=False, image=False),
                     [entry("a", {"f:spec": {"f:replicas": {}}}), entry("b", container(**{"f:image": {}}))],
                     [ChangedField("spec.replicas", ("a",)),
                      ChangedField("spec.template.spec.containers[c].image", ("b",))], id="two managers"),
    ],
)  # fmt: skip
def test_changed_fields_are_found_with_their_managers(ours, others, want):
    assert find_changed_fields((entry("us", ours), *others), DESIRED, "us") == want


def test_description_names_fields_and_managers():
    changes = [ChangedField("spec.replicas", ("kubectl-scale",)), ChangedField("metadata.labels.app", ())]
    assert describe_changes(changes) == (
        "restored spec.replicas (changed by kubectl-scale); restored metadata.labels.app (removed by another client)"
    )


def test_description_of_many_fields_is_short():
    changes = [ChangedField(f"f{number}", ("x",)) for number in range(40)]
    assert describe_changes(changes) == "restored f0, f1, f2, f3, f4 and 35 more (changed by x)"
