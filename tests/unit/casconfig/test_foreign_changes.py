"""What a step says about changes of others in what a config does not set any more."""

from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.plan import FoundObject, ResolvedConfig
from unit.casconfig.objects import (
    DEPLOYMENTS,
    LOW,
    TEMPLATE,
    a_deployment,
    a_policy,
    a_spec,
    container,
    edited,
    given,
)


def decide(obj, **values):
    resolved = ResolvedConfig(LOW, a_spec(a_policy(**values)), {})
    return plan.decide_step(resolved, FoundObject(DEPLOYMENTS, TEMPLATE, obj))


def test_edit_of_a_config_keeps_and_reports_the_image_that_somebody_changed():
    values = {"mainContainer": {"name": "web", "image": "ours:1"}, "envs": {"A": "1"}}
    first = given(a_deployment(), LOW, **values).object
    theirs = edited(first, lambda obj: container(obj, "web").update(image="theirs:2"))
    assert container(given(theirs, LOW, envs={"A": "1"}).object, "web")["image"] == "theirs:2"
    step = decide(theirs, envs={"A": "1"})
    assert step.foreign == "not undone, because another manager changed it: containers/web/image"


def test_variable_that_somebody_added_to_an_injected_container_is_reported_when_it_goes():
    first = given(a_deployment(), LOW, sidecars=[{"name": "shipper", "image": "s:1"}]).object
    theirs = edited(first, lambda obj: container(obj, "shipper").update(env=[{"name": "X", "value": "1"}]))
    step = plan.undo_step(FoundObject(DEPLOYMENTS, TEMPLATE, theirs), LOW)
    assert container(given(theirs, LOW, labels={"a": "b"}).object, "shipper") is None
    assert "another manager added this" in step.message
    assert "containers/shipper/env" in step.message


def test_variable_that_somebody_added_is_reported_when_the_config_sets_it_too():
    first = given(a_deployment(), LOW, sidecars=[{"name": "shipper", "image": "s:1"}]).object
    theirs = edited(first, lambda obj: container(obj, "shipper").update(env=[{"name": "X", "value": "1"}]))
    sidecar = {"name": "shipper", "image": "s:1", "env": [{"name": "X", "value": "2"}]}
    assert "containers/shipper/env/X" in decide(theirs, sidecars=[sidecar]).foreign
