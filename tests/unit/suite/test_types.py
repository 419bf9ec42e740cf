"""The kind Quintet: what its schema says, and that code and schema speak of the same controllers."""

import msgspec
import pytest

from quintet.apis.lint import problems
from quintet.apis.suite import CONTROLLERS, QUINTET, Quintet, QuintetSpec, Settings
from quintet.components import COMPONENTS
from quintet.manifests.crd import definition, object_schema


def test_every_field_is_described_and_bounded():
    assert problems(object_schema(QUINTET)) == []


def test_there_is_one_object_and_it_belongs_to_no_namespace():
    spec = definition(QUINTET)["spec"]
    assert spec["scope"] == "Cluster"
    (rule,) = object_schema(QUINTET)["x-kubernetes-validations"]
    assert rule["rule"] == "self.metadata.name == 'quintet'"


def test_every_controller_that_there_is_can_be_chosen_and_set():
    assert set(COMPONENTS) <= {str(name) for name in CONTROLLERS}
    assert set(Settings.__struct_fields__) == {str(name) for name in CONTROLLERS}


def test_an_empty_object_asks_for_everything_apart():
    quintet = msgspec.convert({"metadata": {"name": "quintet"}}, Quintet)
    assert quintet.spec == QuintetSpec()
    assert (quintet.spec.topology, quintet.spec.replicas) == ("Separate", 2)


@pytest.mark.parametrize(
    "spec",
    [
        {"controllers": ["unheard-of"]},
        {"replicas": 0},
        {"replicas": 6},
        {"topology": "Scattered"},
        {"resources": {"limits": {"memory": "much"}}},
        {"settings": {"checkup": {"workers": 0}}},
    ],
    ids=str,
)
def test_what_makes_no_sense_does_not_decode(spec):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(spec, QuintetSpec)
