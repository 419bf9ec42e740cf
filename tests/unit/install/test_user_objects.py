"""Which objects of users need a controller to be deleted, and the spec that starts it: by value."""

from datetime import UTC, datetime

import msgspec
import pytest

from quintet import kinds
from quintet.apis.meta import ObjectKey, ObjectMeta
from quintet.apis.suite import Quintet
from quintet.components import CUSTOM_RESOURCES
from quintet.controllers.suite.decide.scope import NamespaceInfo
from quintet.controllers.suite.decide.user_objects import UserObject
from quintet.install.doctor import health
from quintet.install.doctor.findings import FAILED, OK, WARNING
from quintet.install.user_objects import (
    describe_remaining,
    spec_for_deletion,
    without_controller,
    without_finalizer,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BY_KIND = {kind.resource.kind: kind for kind in CUSTOM_RESOURCES}


def an_object(
    kind: str = "JsonServer", namespace: str = "shop", *finalizers: str, deleted: str | None = None
) -> UserObject:
    found = BY_KIND[kind]
    names = finalizers or (found.finalizer,)
    meta = ObjectMeta(
        name="app-books", namespace=namespace, uid="u", resource_version="7", finalizers=names,
        deletion_timestamp=deleted,
    )  # fmt: skip
    return UserObject(found, meta)


def a_quintet(**spec: object) -> Quintet:
    return msgspec.convert({"metadata": {"name": "quintet"}, "spec": spec}, Quintet)


def a_namespace(name: str, **labels: str) -> NamespaceInfo:
    return NamespaceInfo(ObjectKey("", name), 1, labels, False)


def test_finalizer_of_a_kind_is_that_of_its_controller():
    declared = {}
    for kind in kinds.all_kinds():
        if kind.component and (start := kind.rbac.rpartition(".")[0]):
            module = kinds.load(f"{start}.controller")
            found = [
                value.finalizer
                for value in vars(module).values()
                if isinstance(getattr(value, "finalizer", None), str)
            ]
            declared[kind.name] = {each for each in found if each}
    assert declared["JsonServer"] == {"example.com/jsonserver"}
    for name, finalizers in declared.items():
        assert finalizers <= {BY_KIND[name].finalizer}, name


@pytest.mark.parametrize(
    ("spec", "namespace", "want"),
    [
        pytest.param({}, "shop", False, id="all controllers run everywhere"),
        pytest.param({"controllers": ["jsonserver"]}, "shop", False, id="its controller runs"),
        pytest.param({"controllers": ["checkup"]}, "shop", True, id="another controller runs"),
        pytest.param({"controllers": []}, "shop", True, id="none runs"),
        pytest.param({"namespaces": ["shop"]}, "shop", False, id="its namespace is watched"),
        pytest.param({"namespaces": ["other"]}, "shop", True, id="another namespace is watched"),
        pytest.param({"namespaceSelector": {"matchLabels": {"q": "y"}}}, "shop", False, id="selected"),
        pytest.param({"namespaceSelector": {"matchLabels": {"q": "n"}}}, "shop", True, id="not selected"),
    ],
)
def test_object_without_controller_is_found(spec, namespace, want):
    found = without_controller(
        [an_object("JsonServer", namespace)], a_quintet(**spec), [a_namespace("shop", q="y")]
    )
    assert bool(found) is want


def test_without_a_quintet_no_controller_runs():
    assert without_controller([an_object()], None)


def test_object_without_our_finalizer_needs_no_controller():
    assert not without_controller([an_object("JsonServer", "shop", "example.com/other")], None)
    assert not without_controller([an_object("StatefulCluster", "shop", "foregroundDeletion")], None)


def test_spec_for_deletion_adds_needed_controllers_and_all_namespaces():
    objects = [an_object(), an_object("Subscription")]
    assert spec_for_deletion(None, objects) == {"controllers": ["eventing", "jsonserver"], "replicas": 1}
    found = spec_for_deletion(a_quintet(controllers=["checkup"], namespaces=["x"]), objects)
    assert found == {
        "controllers": ["checkup", "eventing", "jsonserver"],
        "namespaces": None,
        "namespaceSelector": None,
    }
    assert spec_for_deletion(a_quintet(namespaces=["x"]), objects)["controllers"] is None


def test_only_our_finalizer_is_removed():
    patch = without_finalizer(an_object("JsonServer", "shop", "example.com/jsonserver", "other.io/keep"))
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "7", "finalizers": ["other.io/keep"]}


def test_remaining_objects_are_named_with_their_finalizers():
    message, step = describe_remaining([an_object()], 300)
    assert "JsonServer shop/app-books (finalizers example.com/jsonserver)" in message
    assert "quintet explain jsonserver app-books -n shop" in step


@pytest.mark.parametrize(
    ("age_minutes", "unserved", "want"),
    [
        pytest.param(1, False, OK, id="recently deleted"),
        pytest.param(11, False, WARNING, id="its controller takes long"),
        pytest.param(1, True, FAILED, id="no controller runs"),
    ],
)
def test_doctor_rates_a_deletion(age_minutes, unserved, want):
    deleted = an_object(deleted=f"2026-05-01T11:{60 - age_minutes:02}:00Z")
    (found,) = health.check_deletions([deleted], [deleted] if unserved else [], NOW)
    assert found.status == want
    assert want == OK or "JsonServer shop/app-books" in found.message
    assert want == OK or found.next
