"""When a Deployment has come up, has failed, and where an upgrade goes back to."""

import pytest

from quintet.apis.meta import Condition, ObjectMeta
from quintet.apis.suite import ComponentStatus, Quintet, QuintetStatus
from quintet.controllers.suite.decide.installation import Part
from quintet.controllers.suite.decide.rollout import DeploymentStatus, Rollout, fallbacks

EXCEEDED = Condition("Progressing", "False", "ProgressDeadlineExceeded")


def a_part(image="q:2", name="quintet-checkup", controllers=("checkup",)):
    template = {"spec": {"containers": [{"image": image}]}}
    return Part(name, controllers, (), {"spec": {"replicas": 2, "template": template}})


def a_rollout(image="q:2", *, available=2, updated=2, observed=1, generation=1, failed=False):
    status = DeploymentStatus(observed, 2, updated, available, (EXCEEDED,) if failed else ())
    return Rollout(generation, image, 2, status)


def a_quintet(*, image="q:1", failed_image="", generation=1, observed=1):
    component = ComponentStatus(name="checkup", image=image, failed_image=failed_image)
    return Quintet(
        metadata=ObjectMeta(name="quintet", generation=generation),
        status=QuintetStatus(observed_generation=observed, components=(component,)),
    )


def test_rollout_with_all_pods_updated_and_available_is_complete():
    assert a_rollout().complete
    assert not a_rollout().moving


@pytest.mark.parametrize(
    "rollout",
    [
        pytest.param(a_rollout(available=1), id="a pod does not serve"),
        pytest.param(a_rollout(updated=1), id="a pod is old"),
        pytest.param(a_rollout(generation=2), id="the status speaks of what was asked for before"),
        pytest.param(Rollout(), id="there is none"),
    ],
)
def test_incomplete_rollout_is_moving(rollout):
    assert rollout.moving
    assert not rollout.complete
    assert not rollout.has_failed


def test_rollout_with_exceeded_progress_deadline_has_failed():
    rollout = a_rollout(available=1, failed=True)
    assert rollout.has_failed
    assert not rollout.moving


def test_failure_of_an_older_generation_is_ignored():
    assert not a_rollout(available=1, failed=True, generation=2).has_failed


def test_rollout_that_completes_late_has_not_failed():
    assert not a_rollout(failed=True).has_failed


FAILED = {"quintet-checkup": a_rollout(available=1, failed=True)}
BACK = {"quintet-checkup": a_rollout("q:1")}


def test_failed_image_falls_back_to_the_last_working_image():
    assert fallbacks(a_quintet(), [a_part()], FAILED) == {"checkup": "q:1"}


def test_fallback_is_kept_after_the_old_image_is_back():
    assert fallbacks(a_quintet(failed_image="q:2"), [a_part()], BACK) == {"checkup": "q:1"}


@pytest.mark.parametrize(
    ("quintet", "part", "rollouts"),
    [
        pytest.param(a_quintet(), a_part(), BACK, id="nothing has failed"),
        pytest.param(a_quintet(image=""), a_part(), FAILED, id="nothing has ever come up"),
        pytest.param(a_quintet(image="q:2"), a_part(), FAILED, id="the same image served before"),
        pytest.param(a_quintet(failed_image="q:2", generation=2), a_part(), BACK, id="the spec was changed"),
        pytest.param(a_quintet(failed_image="q:2"), a_part("q:3"), BACK, id="another image is wanted"),
    ],
)
def test_first_installation_has_no_fallback(quintet, part, rollouts):
    assert fallbacks(quintet, [part], rollouts) == {}
