"""Which namespaces the controllers watch."""

import msgspec
import pytest

from quintet.apis.meta import ObjectKey
from quintet.apis.suite import QuintetSpec
from quintet.controllers.suite.decide.installation import ALL_NAMESPACES, Scope
from quintet.controllers.suite.decide.scope import NamespaceInfo, find_scope


def a_namespace(name, *, deleting=False, **labels):
    return NamespaceInfo(ObjectKey("", name), 1, labels, deleting)


THERE = (a_namespace("shop", team="a"), a_namespace("bank", team="b"), a_namespace("lab"))


def scope_of(*there, **spec):
    return find_scope(msgspec.convert(spec, QuintetSpec), there or THERE)


def test_spec_without_namespaces_means_all():
    assert scope_of() == ALL_NAMESPACES


def test_listed_namespace_that_does_not_exist_is_missing():
    assert scope_of(namespaces=["shop", "later"]) == Scope(False, ("later", "shop"), ("later",))


def test_namespace_that_is_being_deleted_is_missing():
    there = a_namespace("shop", deleting=True)
    assert scope_of(there, namespaces=["shop"]) == Scope(False, ("shop",), ("shop",))


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ({"matchLabels": {"team": "a"}}, ("shop",)),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, ("bank", "shop")),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, ("bank", "lab")),
        ({"matchLabels": {"team": "c"}}, ()),
    ],
    ids=["label", "exists", "not in", "none"],
)
def test_selector_selects_namespaces_by_label(selector, want):
    found = scope_of(namespaceSelector=selector)
    assert (found.everywhere, found.namespaces) == (False, want)


def test_selected_and_listed_namespaces_are_joined():
    found = scope_of(namespaces=["lab"], namespaceSelector={"matchLabels": {"team": "a"}})
    assert found.namespaces == ("lab", "shop")
