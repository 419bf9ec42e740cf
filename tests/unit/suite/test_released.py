"""The definitions of this version may take the place of those that were released."""

import pytest

from kit.manifests.released_crds import current_crds, released_crds
from quintet.controllers.suite.decide.safety import unsafe_changes
from unit.suite.test_safety import a_definition

RELEASED = [
    (version, name, body) for version, kinds in released_crds().items() for name, body in kinds.items()
]


def test_there_is_a_record_of_every_kind():
    assert released_crds(), "nothing was recorded: run `make record`"
    newest = list(released_crds().values())[-1]
    assert sorted(newest) == sorted(current_crds())


@pytest.mark.parametrize(("version", "name", "body"), RELEASED, ids=[f"{name} of {version}" for version, name, _ in RELEASED])  # fmt: skip
def test_objects_of_a_released_definition_are_safe_with_the_present_one(version, name, body):
    assert name in current_crds(), f"{name} was there in {version}, and a kind is never taken away"
    found = unsafe_changes(body, current_crds()[name])
    assert found == [], (
        f"whoever upgrades from {version} would be refused. Undo the change, make it a new version of the kind, or, "
        f"if {version} is not out yet, run `make record`"
    )


def test_a_record_keeps_fields_that_are_called_description():
    from kit.manifests.released_crds import _without_descriptions

    schema = {
        "description": "Words.",
        "properties": {"description": {"type": "string", "description": "Words."}},
    }
    assert _without_descriptions(schema) == {"properties": {"description": {"type": "string"}}}
    with_default = a_definition(properties={"a": {"type": "string", "default": "x"}})
    assert _without_descriptions(with_default) == with_default
