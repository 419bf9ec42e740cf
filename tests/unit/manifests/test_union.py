"""The shortest list of rules that grants the same as several lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.manifests.union import grants, union

words = st.sampled_from(["a", "b", "c"])
rules = st.lists(
    st.fixed_dictionaries(
        {
            "apiGroups": st.lists(words, min_size=1, max_size=2),
            "resources": st.lists(words, min_size=1, max_size=3),
            "verbs": st.lists(st.sampled_from(["get", "list", "use"]), min_size=1, max_size=3),
        },
        optional={"resourceNames": st.lists(words, min_size=1, max_size=2)},
    ),
    max_size=6,
)


def allowed(held):
    """What a list of rules lets one do, asked for every name that there is and for one that is not."""
    found = set()
    for group, resource, verb, name in grants(held):
        names = [name] if name else ["", "a", "b", "c", "other"]
        found |= {(group, resource, verb, each) for each in names}
    return found


@given(rules)
def test_union_grants_exactly_the_permissions_of_all_lists(held):
    assert allowed(union(held)) == allowed(held)


@given(rules)
def test_union_grants_nothing_twice(held):
    found = list(grants(union(held)))
    assert len(found) == len(set(found))


@given(rules)
def test_union_does_not_depend_on_order(held):
    assert union(held) == union(list(reversed(held)))


@pytest.mark.parametrize("field", ["apiGroups", "resources", "verbs"])
def test_wildcard_is_rejected(field):
    rule = {"apiGroups": ["a"], "resources": ["b"], "verbs": ["get"], field: ["*"]}
    with pytest.raises(ValueError, match="wildcard"):
        union([rule])
