"""What people type for a kind or an object."""

import click
import pytest

from quintet.cli.kinds import kind_of, known, object_of, words


@pytest.mark.parametrize("kind", known(), ids=lambda kind: kind.resource.kind)
def test_a_kind_is_known_by_every_name_that_kubectl_knows_it_by(kind):
    resource = kind.resource
    names = (resource.kind, resource.kind.lower(), resource.plural, resource.qualified, *kind.short_names)
    assert {kind_of(name).resource.kind for name in (*names, *(each.upper() for each in names))} == {
        resource.kind
    }


def test_no_name_means_two_kinds():
    names = [name for kind in known() for name in words(kind)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("typed", "want"),
    [
        ("jsonserve", "there is no kind 'jsonserve' of ours: did you mean 'jsonserver'?"),
        ("Chekup", "there is no kind 'Chekup' of ours: did you mean 'checkup'?"),
        (
            "pod",
            "there is no kind 'pod' of ours: there are quintet, jsonserver, checkup, casconfig, "
            "statefulcluster, eventingbackend, subscription",
        ),
    ],
)
def test_an_unknown_kind_is_answered_with_the_nearest_or_with_all(typed, want):
    with pytest.raises(click.UsageError) as refused:
        kind_of(typed)
    assert refused.value.message == want


@pytest.mark.parametrize("typed", [("checkup", "hello"), ("checkup/hello",), ("ckup/hello",)])
def test_an_object_is_a_kind_and_a_name(typed):
    kind, name = object_of(typed)
    assert (kind.resource.kind, name) == ("Checkup", "hello")


@pytest.mark.parametrize(
    "typed", [(), ("checkup",), ("checkup/",), ("a", "b", "c"), ("a/b", "c"), ("a/b/c",)]
)
def test_what_names_no_object_is_answered_with_how_to_write_one(typed):
    with pytest.raises(click.UsageError, match="write KIND NAME or KIND/NAME"):
        object_of(typed)
