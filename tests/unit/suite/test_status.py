"""What an administrator reads in the status of the Quintet."""

from dataclasses import replace

import pytest

from quintet.apis.jsonserver import JSONSERVER
from quintet.apis.meta import ObjectKey, ObjectMeta
from quintet.apis.suite import ComponentStatus, Quintet, QuintetSpec, QuintetStatus
from quintet.controllers.suite.decide.installation import Installation, Part
from quintet.controllers.suite.decide.rollout import Rollout
from quintet.controllers.suite.decide.status import InstallationState, Problem, Reason, status_of, version_of
from quintet.controllers.suite.decide.user_objects import (
    UserObject,
    finishing_controllers,
    group_by_controller,
    with_controllers,
)
from unit.suite.test_rollout import a_part, a_rollout

PART = "quintet-checkup"


def said(seen, *, unknown=(), before=(), part=None):
    quintet = Quintet(
        metadata=ObjectMeta(name="quintet", generation=3), status=QuintetStatus(components=before)
    )
    made = Installation((), (), (part or a_part(),), unknown)
    return status_of(quintet, made, seen, "1.2.3")


def conditions(status):
    return {each.type: (each.status, each.reason) for each in status.conditions}


def test_healthy_installation_has_the_expected_status():
    status = said(InstallationState({PART: a_rollout()}))
    assert conditions(status) == {
        "Available": ("True", "AllControllersServe"),
        "Progressing": ("False", "Settled"),
        "Degraded": ("False", "AsWanted"),
    }
    assert (status.ready, status.version, status.observed_generation) == ("1/1", "1.2.3", 3)
    assert status.components == (ComponentStatus(name="checkup", ready=True, version="2", image="q:2"),)


def test_rolling_out_controller_is_available_and_progressing():
    status = said(
        InstallationState({PART: a_rollout(available=1)}),
        before=(ComponentStatus(name="checkup", image="q:1"),),
    )
    assert conditions(status)["Available"][0] == "True"
    assert conditions(status)["Progressing"] == ("True", "RollingOut")
    (component,) = status.components
    assert not component.ready
    assert component.image == "q:1", "the image to go back to is the one that served before"
    assert component.message == "rolling out: 2 of 2 pods are updated, 1 are available"


def test_controller_that_has_not_started_is_not_available():
    status = said(InstallationState())
    assert conditions(status)["Available"] == ("False", "ControllersNotServing")
    assert status.components[0].message == "not started yet"


def test_controller_without_registered_webhooks_is_not_available():
    status = said(InstallationState({PART: a_rollout()}, unregistered=frozenset({PART})))
    assert conditions(status)["Available"] == ("False", "ControllersNotServing")
    assert conditions(status)["Progressing"] == ("True", "WaitingForWebhooks")
    (component,) = status.components
    assert (component.ready, component.message) == (False, "its webhooks are not registered yet")


def test_controller_without_a_leader_is_not_available():
    seen = InstallationState({PART: a_rollout()}, leaderless={PART: "no pod holds the Lease quintet-checkup"})
    status = said(seen)
    assert conditions(status)["Available"] == ("False", "NoLeader")
    assert conditions(status)["Progressing"] == ("True", "WaitingForLeaders")
    (component,) = status.components
    assert (component.ready, component.message) == (False, "no pod holds the Lease quintet-checkup")
    assert status.conditions[0].message == "quintet-checkup: no pod holds the Lease quintet-checkup"


def test_pods_that_do_not_run_are_reported_at_once_with_their_cause():
    cause = "container quintet: ErrImagePull: not found"
    seen = InstallationState({PART: a_rollout(available=0, updated=1)}, causes={PART: cause})
    status = said(seen)
    assert conditions(status)["Degraded"] == ("True", "PodsFail")
    assert status.conditions[2].message == f"{PART}: {cause}"
    assert status.components[0].message == f"rolling out: 1 of 2 pods are updated, 0 are available; {cause}"


def test_failed_rollout_names_the_cause_of_its_pods():
    cause = "container quintet: ErrImagePull: not found"
    seen = InstallationState({PART: a_rollout(available=0, failed=True)}, causes={PART: cause})
    status = said(seen)
    assert conditions(status)["Degraded"] == ("True", "NotComingUp")
    assert status.conditions[2].message.endswith(cause)
    assert status.conditions[2].message.count(cause) == 1


def test_restarting_pods_degrade_an_installation_that_serves():
    seen = InstallationState({PART: a_rollout()}, restarts={PART: ["pod p restarted 1 time"]})
    status = said(seen)
    assert conditions(status)["Degraded"] == ("True", "PodsRestart")
    assert conditions(status)["Available"][0] == "True"
    assert status.components[0].ready


def test_deployment_replaces_pods_when_its_service_account_was_created_again():
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"serviceAccountName": "sa"}}
    part = Part(PART, ("checkup",), (), {"metadata": {"namespace": "ns"}, "spec": {"template": template}})
    first, second = (part.bind_account({ObjectKey("ns", "sa"): uid}) for uid in ("1", "2"))
    assert first["spec"]["template"]["metadata"]["annotations"] == {"quintet.dev/service-account-uid": "1"}
    assert second["spec"]["template"]["metadata"]["annotations"] == {"quintet.dev/service-account-uid": "2"}
    assert first["spec"]["template"]["metadata"]["labels"] == {"a": "b"}
    assert part.bind_account({}) == part.deployment


def test_controller_of_the_old_version_waits_to_roll_out():
    status = said(InstallationState({PART: a_rollout("q:1")}))
    assert status.components[0].message == "waiting to roll out q:2"
    assert conditions(status)["Progressing"] == ("True", "RollingOut")
    assert status.ready == "0/1"


def test_fallback_is_reported_with_both_images():
    seen = InstallationState(
        {PART: a_rollout("q:1")}, fallbacks={"checkup": "q:1"}, failed_images={"checkup": "q:2"}
    )
    status = said(seen, part=a_part("q:1"))
    assert conditions(status)["Degraded"] == ("True", "WentBack")
    assert conditions(status)["Available"][0] == "True"
    (component,) = status.components
    assert component.failed_image == "q:2"
    assert component.message.startswith("q:2 failed to roll out, so it was rolled back to q:1")


def test_failed_first_installation_has_no_fallback():
    status = said(InstallationState({PART: a_rollout(available=0, updated=1, failed=True)}))
    assert conditions(status)["Degraded"] == ("True", "NotComingUp")
    assert conditions(status)["Progressing"][0] == "False"
    assert f"check the pods of {PART}" in status.components[0].message


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        (
            InstallationState({PART: a_rollout()}, waiting=("checkups.kiagnose.io",)),
            ("True", "WaitingForDefinitions"),
        ),
        (InstallationState({PART: a_rollout()}, removing=("Deployment x/y",)), ("True", "Removing")),
    ],
)
def test_waiting_sets_progressing(seen, want):
    assert conditions(said(seen))["Progressing"] == want


def test_problem_of_a_blocked_part_sets_degraded_and_not_progressing():
    problem = Problem(Reason.UNSAFE_DEFINITION, "the definition is not changed")
    seen = InstallationState({PART: a_rollout("q:1")}, problems=(problem,), blocked=frozenset({PART}))
    status = said(seen)
    assert conditions(status)["Progressing"][0] == "False"
    assert conditions(status)["Degraded"] == ("True", "UnsafeDefinition")
    assert status.conditions[2].message == "the definition is not changed"


def test_part_is_blocked_only_if_none_of_its_controllers_could_work():
    needs = {"a": frozenset({"crd-a", "policy-a"}), "b": frozenset({"crd-b"})}
    part = replace(a_part(), requirements=needs)
    assert not part.is_blocked(set())
    assert not part.is_blocked({"policy-a"})
    assert part.is_blocked({"policy-a", "crd-b"})
    assert not a_part().is_blocked({"crd-a"})


def test_crds_of_a_later_version_are_listed_without_degrading():
    status = said(InstallationState({PART: a_rollout()}, wider=("x.y (this version ignores spec.z)",)))
    assert conditions(status)["Degraded"] == ("False", "NewerDefinitions")
    assert "spec.z" in status.conditions[2].message


def test_long_list_of_problems_is_cut():
    problems = tuple(Problem(Reason.APPLY_FAILED, "x" * 400) for _ in range(9))
    assert len(said(InstallationState({PART: Rollout()}, problems=problems)).conditions[2].message) == 1001


def test_unknown_controller_is_reported():
    status = said(InstallationState({PART: a_rollout()}), unknown=("casconfig",))
    assert status.ready == "1/2"
    assert conditions(status)["Degraded"] == ("True", "UnknownController")
    assert status.components[1].message == "this installation has no such controller"


@pytest.mark.parametrize(
    ("image", "want"),
    [
        ("registry:5000/quintet:1.2.3", "1.2.3"),
        ("registry:5000/quintet:1.2.3@sha256:abc", "1.2.3"),
        ("registry/quintet@sha256:abc", "sha256:abc"),
        ("quintet", ""),
    ],
)
def test_version_is_taken_from_the_image(image, want):
    assert version_of(image) == want


def a_deleted(name: str = "books") -> UserObject:
    meta = ObjectMeta(
        name=name,
        namespace="shop",
        finalizers=(JSONSERVER.finalizer,),
        deletion_timestamp="2026-05-01T11:00:00Z",
    )
    return UserObject(JSONSERVER, meta)


def test_deletions_of_a_removed_controller_keep_it_running():
    waiting = group_by_controller({"jsonserver": [a_deleted()]})
    status = said(InstallationState({PART: a_rollout()}, waiting_objects=waiting, finishing=("jsonserver",)))
    found = conditions(status)
    assert found["Progressing"] == ("True", "FinishingDeletions")
    assert found["Degraded"] == ("False", "AsWanted")
    assert any("JsonServer shop/books" in each.message for each in status.conditions)


def test_deletions_without_a_controller_degrade_the_installation():
    waiting = group_by_controller({"jsonserver": [a_deleted()], "casconfig": []})
    status = said(InstallationState({PART: a_rollout()}, waiting_objects=waiting))
    assert conditions(status)["Degraded"] == ("True", "DeletionsWithoutController")
    (available,) = [each for each in status.conditions if each.type == "Available"]
    assert available.status == "True"
    assert "jsonserver does not run, and 1 objects have its finalizer" in available.message


@pytest.mark.parametrize(
    ("ran", "want"),
    [
        pytest.param(
            ("jsonserver", "checkup"), ("jsonserver",), id="it runs until its deletions are finished"
        ),
        pytest.param(("checkup",), (), id="one that does not run is not started again"),
    ],
)
def test_only_running_controllers_finish_deletions(ran, want):
    status = QuintetStatus(components=tuple(ComponentStatus(name=name) for name in ran))
    quintet = Quintet(metadata=ObjectMeta(name="quintet"), status=status)
    waiting = group_by_controller({"jsonserver": [a_deleted()], "eventing": []})
    assert finishing_controllers(quintet, waiting) == want


def test_finishing_controllers_run_besides_those_of_the_spec():
    assert with_controllers(QuintetSpec(controllers=("checkup",)), ("jsonserver",)).controllers == (
        "checkup",
        "jsonserver",
    )
    assert with_controllers(QuintetSpec(), ("jsonserver",)).controllers is None
