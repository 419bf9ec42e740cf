"""What people type for a kind or an object."""

import pytest

from quintet.inspect.kinds import UnknownKind, all_kinds, find_kind, kind_names, parse_object


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.resource.kind)
def test_find_kind_accepts_every_name_that_kubectl_accepts(kind):
    resource = kind.resource
    names = (resource.kind, resource.kind.lower(), resource.plural, resource.qualified, *kind.short_names)
    assert {find_kind(name).resource.kind for name in (*names, *(each.upper() for each in names))} == {
        resource.kind
    }


def test_kind_names_are_unique():
    names = [name for kind in all_kinds() for name in kind_names(kind)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("typed", "want"),
    [
        ("jsonserve", "unknown kind 'jsonserve': did you mean 'jsonserver'?"),
        ("Chekup", "unknown kind 'Chekup': did you mean 'checkup'?"),
        (
            "pod",
            "unknown kind 'pod': choose from quintet, jsonserver, checkup, casconfig, "
            "statefulcluster, eventingbackend, subscription",
        ),
    ],
)
def test_find_kind_suggests_similar_or_all_kinds(typed, want):
    with pytest.raises(UnknownKind) as refused:
        find_kind(typed)
    assert str(refused.value) == want


@pytest.mark.parametrize("typed", [("checkup", "hello"), ("checkup/hello",), ("ckup/hello",)])
def test_parse_object_returns_kind_and_name(typed):
    kind, name = parse_object(typed)
    assert (kind.resource.kind, name) == ("Checkup", "hello")


@pytest.mark.parametrize(
    "typed", [(), ("checkup",), ("checkup/",), ("a", "b", "c"), ("a/b", "c"), ("a/b/c",)]
)
def test_parse_object_rejects_invalid_text_with_an_example(typed):
    with pytest.raises(UnknownKind, match="write KIND NAME or KIND/NAME"):
        parse_object(typed)
