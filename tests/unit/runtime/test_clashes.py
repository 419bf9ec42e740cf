"""Tests of the search for the list that a validation error names."""

import pytest

from quintet.runtime.clashes import Clash, find_clash

PORTS = [{"name": "http", "port": 3000}]
CONTAINERS = [{"name": "main", "ports": PORTS}]
WANTED = {"spec": {"ports": PORTS, "template": {"spec": {"containers": CONTAINERS}}, "replicas": 1}}
LIVE = {
    "spec": {
        "ports": [{"name": "http", "port": 3001}],
        "template": {"spec": {"containers": [{"name": "sidecar"}, {"name": "main", "ports": [{"port": 1}]}]}},
    }
}


@pytest.mark.parametrize(
    ("field", "want"),
    [
        pytest.param("spec.ports[1].name", Clash("/spec/ports", PORTS), id="an item of a list of ours"),
        pytest.param(
            "spec.template.spec.containers[1].ports[1].name",
            Clash("/spec/template/spec/containers/1/ports", PORTS),
            id="the innermost of nested lists, beside a sidecar of somebody else",
        ),
        pytest.param(
            "spec.template.spec.containers[0].image",
            Clash("/spec/template/spec/containers", CONTAINERS),
            id="an item that is not ours in a list of ours",
        ),
        pytest.param("spec.replicas", None, id="no list at all"),
        pytest.param("spec.externalIPs[0]", None, id="a list that is not in the desired object"),
        pytest.param("", None, id="nothing named"),
    ],
)
def test_find_clash_returns_the_innermost_list_around_the_field(field, want):
    assert find_clash(field, LIVE, WANTED) == want
