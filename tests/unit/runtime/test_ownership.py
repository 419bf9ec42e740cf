"""Drift is told from a digest and the server's field records. Recorded shapes are the API server's own;
that it behaves so is shown on the real one in tests/integration/test_apply.py.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.meta import Object, ObjectMeta, OwnerReference, Resource
from quintet.runtime.ownership import (
    APPLIED,
    ManagedFields,
    ManagedMeta,
    View,
    belongs_to,
    covers,
    digest,
    is_unchanged,
    project,
    with_ownership,
)

OWNER_TYPE = Resource("test.quintet.dev", "v1", "Widget", "widgets")
OWNER = Object(ObjectMeta(name="w", namespace="ns", uid="0000-1111"))
WANTED = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "w", "namespace": "ns", "labels": {"app": "w"}},
    "spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "http"}], "selector": {"app": "w"}},
}
RECORD = {
    "f:metadata": {
        "f:annotations": {".": {}, f"f:{APPLIED}": {}},
        "f:labels": {".": {}, "f:app": {}},
        "f:ownerReferences": {".": {}, 'k:{"uid":"0000-1111"}': {}},
    },
    "f:spec": {
        "f:ports": {
            ".": {},
            'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:protocol": {}, "f:name": {}},
        },
        "f:selector": {},
    },
}

APPLY, POST = True, False


def a_child(record=RECORD, manager="us", operation="Apply", subresource="", owner_uid="0000-1111"):
    body = with_ownership(WANTED, OWNER, OWNER_TYPE)
    entries = (
        ManagedFields("somebody", "Update", "", b'{"f:spec":{}}'),
        ManagedFields(manager, operation, subresource, json.dumps(record).encode()),
    )
    reference = OwnerReference(OWNER_TYPE.api_version, "Widget", "w", owner_uid, controller=True)
    meta = ManagedMeta(
        name="w", namespace="ns", uid="u", resource_version="7", annotations=body["metadata"]["annotations"],
        owner_references=(reference,) if owner_uid else (), managed_fields=entries,
    )  # fmt: skip
    return project(OWNER_TYPE, "us", lambda view: None)(View(meta)), body


def test_child_is_unchanged_after_apply():
    child, body = a_child()
    assert is_unchanged(child, body)


def _paths(record, prefix=()):
    for name, below in record.items():
        yield (*prefix, name)
        yield from _paths(below, (*prefix, name))


OWNED = [path for path in _paths(RECORD) if path[-1] != "."]


@pytest.mark.parametrize("path", OWNED, ids="/".join)
def test_child_is_changed_when_another_manager_sets_any_field(path):
    record = json.loads(json.dumps(RECORD))
    parent = record
    for name in path[:-1]:
        parent = parent[name]
    del parent[path[-1]]
    child, body = a_child(record)
    assert not is_unchanged(child, body)


def test_child_is_changed_when_the_desired_object_differs():
    child, _ = a_child()
    changed = with_ownership({**WANTED, "spec": {"type": "ClusterIP"}}, OWNER, OWNER_TYPE)
    assert not is_unchanged(child, changed)


def test_child_without_own_managed_fields_is_changed():
    child, body = a_child(manager="somebody-else")
    assert not is_unchanged(child, body)


def test_managed_fields_of_the_status_subresource_are_ignored():
    child, body = a_child(subresource="status")
    assert not is_unchanged(child, body)


def test_child_belongs_to_its_controller_owner():
    assert belongs_to(a_child()[0], OWNER)
    assert not belongs_to(a_child(owner_uid="9999")[0], OWNER)


def test_child_without_owner_reference_belongs_to_the_annotated_owner():
    assert belongs_to(a_child(owner_uid="")[0], OWNER)


def test_object_with_copied_annotation_does_not_belong_to_the_owner():
    # Recorded under another manager's name: somebody else wrote it.
    assert not belongs_to(a_child(owner_uid="", manager="somebody-else")[0], OWNER)


def test_similar_children_share_their_field_record():
    first, _ = a_child()
    second, _ = a_child()
    assert first.fields is second.fields


def test_created_entry_is_set_only_for_the_record_of_a_post():
    assert a_child(operation="Update")[0].created_entry == 1
    assert a_child(operation="Apply")[0].created_entry is None


def test_owner_of_another_kind_sets_owner_uid_but_not_owner_name():
    reference = OwnerReference("apps/v1", "Widget", "w", "9", controller=True)
    view = View(ManagedMeta(name="w", resource_version="1", owner_references=(reference,)))
    child = project(OWNER_TYPE, "us", lambda view: None)(view)
    assert (child.owner_name, child.owner_uid) == ("", "9")


def test_digest_does_not_depend_on_the_order_of_fields():
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_child_changed_by_an_admission_webhook_is_unchanged():
    # Recorded under our name, but as an update: without this we would apply for ever.
    apply = ({"f:spec": {"f:a": {}}}, APPLY)
    update = ({"f:spec": {"f:b": {}}}, POST)
    assert covers([apply, update], {"spec": {"a": 1, "b": 2}})
    assert not covers([apply], {"spec": {"a": 1, "b": 2}})


def test_empty_record_of_a_post_does_not_cover_a_map():
    # What a POST of {"data": {"text": …}} leaves once somebody else has changed its only key.
    emptied = ({"f:data": {}}, POST)
    assert not covers([emptied], {"data": {"text": "hello"}})
    assert covers([emptied], {"data": "a scalar"})


def test_empty_record_covers_an_atomic_map():
    assert covers([({"f:selector": {}}, POST)], {"selector": {"app": "w"}})
    assert covers([({"f:anything": {}}, APPLY)], {"anything": {"app": "w"}})


json_values = st.recursive(
    st.integers() | st.text(max_size=5) | st.booleans(),
    lambda below: st.dictionaries(st.text(min_size=1, max_size=5), below, min_size=1, max_size=4),
    max_leaves=12,
)


def _record_of(value):
    return {f"f:{name}": _record_of(item) for name, item in value.items()} if isinstance(value, dict) else {}


@given(st.dictionaries(st.text(min_size=1, max_size=5), json_values, min_size=1, max_size=4))
def test_record_of_all_fields_covers_the_object(value):
    assert covers([(_record_of(value), APPLY)], value)
