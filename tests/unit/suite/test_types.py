"""The kind Quintet: what its schema says, and that code and schema speak of the same controllers."""

import msgspec
import pytest

from quintet.apis.lint import problems
from quintet.apis.suite import CONTROLLERS, QUINTET, ControllerSettings, Quintet, QuintetSpec
from quintet.components import COMPONENTS
from quintet.manifests.crd import custom_resource_definition, object_schema


def test_every_field_has_a_description_and_limits():
    of_kubernetes = tuple(path.replace("[]", "[*]") + "." for path, _ in QUINTET.parts_from)
    found = problems(object_schema(QUINTET))
    assert [each for each in found if not each.startswith(of_kubernetes)] == []


def test_quintet_is_a_cluster_scoped_singleton():
    spec = custom_resource_definition(QUINTET)["spec"]
    assert spec["scope"] == "Cluster"
    (rule,) = object_schema(QUINTET)["x-kubernetes-validations"]
    assert rule["rule"] == "self.metadata.name == 'quintet'"


def test_every_controller_can_be_selected_and_configured():
    assert set(COMPONENTS) == set(CONTROLLERS)
    assert set(ControllerSettings.__struct_fields__) == set(CONTROLLERS)


def test_empty_spec_installs_everything_separately():
    quintet = msgspec.convert({"metadata": {"name": "quintet"}}, Quintet)
    assert quintet.spec == QuintetSpec()
    assert (quintet.spec.topology, quintet.spec.replicas) == ("Separate", 2)


@pytest.mark.parametrize(
    "spec",
    [
        {"controllers": ["unheard-of"]},
        {"pods": {"imagePullPolicy": "Sometimes"}},
        {"pods": {"args": ["workers"]}},
        {"replicas": 0},
        {"replicas": 6},
        {"topology": "Scattered"},
        {"resources": {"limits": {"memory": "much"}}},
        {"settings": {"checkup": {"workers": 0}}},
    ],
    ids=str,
)
def test_invalid_spec_does_not_decode(spec):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(spec, QuintetSpec)
