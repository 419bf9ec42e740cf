"""Values from other objects: how they are found, what they may become, and what is waited for."""

import msgspec
import pytest

from quintet.apis.casconfig import FromOperation
from quintet.apis.casconfig.jsonpath import JsonPathError, parse_path, value_at
from quintet.apis.casconfig.places import ABSENT
from quintet.apis.casconfig.sources import SecretKey, fault, key_of, resolve_sources
from quintet.apis.meta import ObjectKey

OBJECT = {
    "metadata": {"annotations": {"a.b/c": "dotted"}, "labels": {"x.y": "escaped"}},
    "data": {"level": "info", "it's": "quoted", "empty": ""},
    "spec": {
        "ports": [{"name": "http", "port": 80}, {"name": "admin", "port": 81}],
        "on": True,
        "ratio": 0.5,
    },
    "nothing": None,
}


def a_source(**changes):
    base = {"kind": "ConfigMap", "name": "c", "path": ".data.level", "toType": "env", "toKey": "LEVEL"}
    return msgspec.convert({**base, **changes}, FromOperation)


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".data.level", "info"),
        ("data.level", "info"),
        ("$.data.level", "info"),
        ("{.data.level}", "info"),
        ("{ $.data['level'] }", "info"),
        (".metadata.annotations['a.b/c']", "dotted"),
        ('.metadata.annotations["a.b/c"]', "dotted"),
        (r".metadata.labels.x\.y", "escaped"),
        ('.data["it\'s"]', "quoted"),
        (".spec.ports[0].port", 80),
        (".spec.ports[-1].port", 81),
        ('.spec.ports[?(@.name=="admin")].port', 81),
        (".spec.ports[?( @.name == 'admin' )].port", 81),
        (".spec.ports[2].port", ABSENT),
        (".spec.ports[?(@.name=='none')].port", ABSENT),
        (".spec.ports.port", ABSENT),
        (".data.level.more", ABSENT),
        (".nothing", None),
    ],
)
def test_path_selects_one_value(path, want):
    assert value_at(OBJECT, parse_path(path)) == want


@pytest.mark.parametrize(
    "path", ["", "$", "{}", ".a[*]", "..a", ".a[0:1]", ".a[?(@.b>1)]", ".a.", ".a b", ".a['b]"]
)
def test_ambiguous_or_empty_path_is_refused(path):
    with pytest.raises(JsonPathError):
        parse_path(path)


@pytest.mark.parametrize(
    ("source", "want"),
    [
        (a_source(), "info"),
        (a_source(path=".spec.on"), "true"),
        (a_source(path=".spec.ratio"), "0.5"),
        (a_source(path=".spec.ports[0].port"), "80"),
        (a_source(path=".data.empty"), ""),
    ],
)
def test_strings_numbers_and_booleans_become_text(source, want):
    assert resolve_sources([source], "shop", lambda each: OBJECT).values == {source: want}


@pytest.mark.parametrize(
    ("source", "obj", "want"),
    [
        (a_source(), None, "SourceMissing"),
        (a_source(path=".data.none"), OBJECT, "PathMissing"),
        (a_source(path=".nothing"), OBJECT, "PathMissing"),
        (a_source(path=".data"), OBJECT, "NotAScalar"),
        (a_source(path=".spec.ports"), OBJECT, "NotAScalar"),
        (
            a_source(path=".metadata.annotations['a.b/c']", toType="label"),
            {"metadata": {"annotations": {"a.b/c": "no label!"}}},
            "NotALabel",
        ),
        (a_source(), {"data": {"level": "x" * 40_000}}, "TooLong"),
    ],
)
def test_missing_value_is_awaited_and_names_its_object(source, obj, want):
    found = resolve_sources([source], "shop", lambda each: obj)
    assert found.values == {}
    assert [each.reason for each in found.waiting] == [want]
    assert "ConfigMap shop/c" in found.waiting[0].message


def test_source_defaults_to_the_namespace_of_the_config():
    assert key_of(a_source(), "shop") == ObjectKey("shop", "c")
    assert key_of(a_source(namespace="other"), "shop") == ObjectKey("other", "c")


@pytest.mark.parametrize("kind", ["Secret", "v1/Secret"])
def test_secret_gives_a_reference_from_metadata_only(kind):
    source = a_source(kind=kind, path=".data['tls.key']")
    found = resolve_sources([source], "shop", lambda each: {"metadata": {"name": "c"}})
    assert found.values == {source: SecretKey("c", "tls.key", "shop")}


def test_missing_secret_is_awaited():
    assert (
        resolve_sources([a_source(kind="Secret")], "shop", lambda each: None).waiting[0].reason
        == "SourceMissing"
    )


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, None),
        ({"kind": "Secret"}, None),
        ({"kind": "Secret", "path": ".stringData.a"}, None),
        ({"kind": "Secret", "toType": "label"}, "toType"),
        ({"kind": "v1/Secret", "toType": "annotation"}, "toType"),
        ({"kind": "Secret", "path": ".metadata.name"}, "path"),
        ({"kind": "Secret", "path": ".data"}, "path"),
        ({"kind": "other.io/v1/Secret", "toType": "label"}, None),
        ({"path": ".data[*]"}, "path"),
    ],
)
def test_invalid_source_is_detected_before_reading(changes, want):
    found = fault(a_source(**changes))
    assert (found.field if found else None) == want
