"""What is to be done to one object for one config, and what its status says of it. Pure functions."""

from dataclasses import replace

import msgspec
import pytest

from quintet.apis.casconfig import (
    CASConfig,
    CASConfigSpec,
    CASConfigStatus,
    PlannedChange,
    TargetState,
    layers,
)
from quintet.apis.casconfig.injection import desired_settings
from quintet.apis.casconfig.types import MOST_LISTED, Reach
from quintet.apis.jsonpatch import diff
from quintet.apis.meta import ObjectKey, ObjectMeta, Resource, find_condition
from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.managers import last_manager
from quintet.controllers.casconfig.decide.plan import FoundObject, Reason, ResolvedConfig, Step
from quintet.controllers.casconfig.decide.status import (
    Report,
    blocked_status,
    planned_change,
    status_of,
)
from quintet.controllers.casconfig.survey import is_too_large, reach_of, union_of
from quintet.controllers.casconfig.watches import WatchScope, to_cached_object
from quintet.kube.versions import Versions

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
POD = ("spec", "template", "spec")
KEY = ObjectKey("shop", "one")


def a_spec(include=None, **values):
    spec = {
        "policies": [
            {
                "name": "all",
                "include": include or {"kinds": ["Deployment"]},
                "values": values or {"envs": {"A": "1"}},
            }
        ]
    }
    return msgspec.convert(spec, CASConfigSpec)


def a_wish(**options):
    return ResolvedConfig(KEY, a_spec(**options), {}, "quintet-system")


def a_deployment(namespace="shop", **metadata):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace, "uid": "u", "resourceVersion": "7", **metadata},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "a:1"}]}}},
    }


def found(obj):
    return FoundObject(DEPLOYMENTS, POD, obj)


def changed(obj, wish):
    """The object as it is when the step was taken."""
    settings = desired_settings(wish.spec.policies, layers.beneath(obj, KEY), {}, POD).settings
    return layers.build_rewrite(obj, KEY, settings, POD).object


def a_config(status=None, generation=1, **options):
    return CASConfig(
        metadata=ObjectMeta(name="one", namespace="shop", generation=generation),
        spec=a_spec(**options),
        status=status or CASConfigStatus(),
    )


def test_target_is_changed_by_one_patch_with_resource_version():
    step = plan.decide_step(a_wish(), found(a_deployment()))
    assert (step.state, step.policies, step.held) == (TargetState.APPLIED, ("all",), False)
    assert step.patch[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert step.paths == ("containers/main/env/A",)


def test_up_to_date_target_needs_no_patch():
    wish = a_wish()
    step = plan.decide_step(wish, found(changed(a_deployment(), wish)))
    assert (step.state, step.patch, step.held) == (TargetState.APPLIED, (), True)


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(a_deployment("elsewhere"), None, id="out of scope"),
        pytest.param(a_deployment(labels={"x": "y"}, deletionTimestamp="now"), None, id="being deleted"),
        pytest.param(a_deployment("quintet-system"), None, id="the operator itself"),
    ],
)
def test_object_that_is_no_target_and_has_no_ledger_gets_no_step(obj, want):
    assert plan.decide_step(a_wish(), found(obj)) is want


def test_former_target_is_undone():
    obj = changed(a_deployment(), a_wish())
    step = plan.decide_step(a_wish(include={"names": ["other"]}), found(obj))
    assert (step.state, step.policies, bool(step.patch)) == (TargetState.ROLLED_BACK, (), True)


def test_terminating_target_with_ledger_is_skipped():
    obj = changed(a_deployment(), a_wish())
    obj["metadata"]["deletionTimestamp"] = "now"
    step = plan.decide_step(a_wish(), found(obj))
    assert (step.state, step.reason, step.patch) == (TargetState.SKIPPED, "Terminating", ())


def test_controlled_object_is_skipped_only_if_its_kind_is_named():
    owner = [{"kind": "Shop", "name": "s", "controller": True}]
    step = plan.decide_step(a_wish(), found(a_deployment(ownerReferences=owner)))
    assert (step.state, step.reason) == (TargetState.SKIPPED, "Controlled")
    assert not step.is_target
    wide = a_wish(include={"names": ["*"]})
    assert plan.decide_step(wide, found(a_deployment(ownerReferences=owner))) is None


def test_unreadable_ledger_fails_with_a_next_step():
    obj = a_deployment(annotations={"casconfig.openebs.io/one": "{}"})
    step = plan.decide_step(a_wish(), found(obj))
    assert (step.state, step.reason) == (TargetState.FAILED, Reason.LEDGER_UNREADABLE)
    assert "Correct the annotation, or remove it" in step.message
    assert step.policies == ("all",)
    assert not step.fails_batch


PRIVILEGED = {"securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"mainContainer": {"name": "main", "image": "b:1"}}, id="main container"),
        pytest.param({"containers": [{"name": "other", "image": "b:1"}]}, id="all containers"),
        pytest.param({"sidecars": [{"name": "main", "securityContext": {"privileged": False}}]}, id="field"),
    ],
)
def test_container_that_an_undo_could_not_restore_is_not_replaced(values):
    obj = a_deployment()
    obj["spec"]["template"]["spec"]["containers"][0] |= PRIVILEGED
    step = plan.decide_step(a_wish(labels={"a": "b"}, **values), found(obj))
    assert (step.state, step.reason, step.patch) == (TargetState.SKIPPED, "NotRestorable", ())
    assert "securityContext.privileged: a privileged container owns the node" in step.message
    assert plan.decide_step(a_wish(envs={"A": "1"}), found(obj)).state is TargetState.APPLIED


def test_unreadable_ledger_of_another_config_does_not_prevent_injection():
    obj = a_deployment(annotations={"casconfig.openebs.io/x": "y"})
    step = plan.decide_step(a_wish(), found(obj))
    assert (step.state, bool(step.patch)) == (TargetState.APPLIED, True)


def test_unreadable_ledger_makes_ready_false_and_names_the_target():
    unreadable = plan.decide_step(
        a_wish(), found(a_deployment(annotations={"casconfig.openebs.io/one": "{}"}))
    )
    other = plan.decide_step(a_wish(), found(a_deployment(name="other")))
    status = status_of(a_config(), Report((other, unreadable)))
    ready = find_condition(status.conditions, "Ready")
    assert (ready.status, ready.reason, status.summary) == ("False", "LedgerUnreadable", "1/2")
    assert ready.message.startswith("1 object cannot be changed. Deployment shop/web: metadata.annotations")


def test_rollback_step_restores_previous_values_of_the_config():
    first = changed(a_deployment(), a_wish(envs={"A": "1"}))
    edited = plan.decide_step(a_wish(envs={"A": "2", "B": "2"}), found(first))
    second = changed(first, a_wish(envs={"A": "2", "B": "2"}))
    back = plan.rollback_step(found(second), KEY, edited.before)
    result = layers.restore_layer(second, KEY, edited.before, POD).object
    assert back.patch
    assert diff(first, result) == []


def test_more_targets_than_max_targets_block_the_config():
    spec = msgspec.structs.replace(a_spec(), max_targets=1)
    step = plan.decide_step(a_wish(), found(a_deployment()))
    assert plan.blocking_reason(spec, [step]) is None
    reason, message = plan.blocking_reason(spec, [step, step])
    assert reason is Reason.TOO_MANY
    assert "2 objects match" in message


def with_rounds(config, step):
    """The config, with what its status says after a step."""
    status = status_of(config, Report([step]))
    return msgspec.structs.replace(config, status=status)


def a_manager(name, time, fields, **more):
    return {"manager": name, "time": time, "fieldsV1": fields, **more}


@pytest.mark.parametrize(
    ("entries_", "want"),
    [
        pytest.param(
            [
                a_manager("kubectl", "2", {"f:metadata": {"f:labels": {"f:other": {}}}}),
                a_manager("rival", "1", {"f:spec": {"f:template": {"f:spec": {"f:containers": {
                    'k:{"name":"main"}': {"f:env": {'k:{"name":"A"}': {"f:value": {}}}}}}}}}),
            ],
            "rival",
            id="the one that owns it",
        ),
        pytest.param(
            [a_manager("old", "1", {}), a_manager("new", "2", {}), a_manager("quintet-casconfig", "3", {})],
            "new",
            id="nobody owns it: the last that wrote",
        ),
        pytest.param(
            [a_manager("controller-manager", "9", {}, subresource="status"), a_manager("editor", "1", {})],
            "editor",
            id="a writer of status is nobody",
        ),
        pytest.param([], "", id="nothing is known"),
    ],
)  # fmt: skip
def test_contested_step_names_the_other_manager(entries_, want):
    obj = {"metadata": {"managedFields": entries_}}
    assert last_manager(obj, ["containers/main/env/A"], POD, "quintet-casconfig") == want


def a_step(number, state=TargetState.APPLIED):
    return Step(DEPLOYMENTS, ObjectKey("shop", f"web-{number:04}"), "u", state, policies=("all",))


def test_status_lists_problem_targets_first_and_counts_the_rest():
    steps = [*(a_step(number) for number in range(MOST_LISTED + 10)), a_step(9999, TargetState.FAILED)]
    status = status_of(a_config(), Report(steps, failure="web-9999: no"))
    assert (len(status.targets), status.targets_not_listed) == (MOST_LISTED, 11)
    assert (status.targets[0].name, status.targets[0].state) == ("web-9999", TargetState.FAILED)
    assert (status.matched, status.applied, status.failed, status.summary) == (511, 510, 1, "510/511")


def test_status_of_many_large_targets_stays_far_below_the_limit_of_etcd():
    paths = tuple(f"containers/web/env/{'V' * 490}{number:03}" for number in range(70))
    steps = [replace(a_step(number), paths=paths) for number in range(MOST_LISTED)]
    changes = tuple(PlannedChange(f"Deployment shop/web-{number}", "+" * 8192) for number in range(50))
    status = status_of(a_config(), Report(steps, plan=changes))
    assert len(msgspec.json.encode(status)) < 1024 * 1024
    assert len(status.targets) >= 10
    assert len(status.targets) + status.targets_not_listed == MOST_LISTED
    assert len(status.plan) >= 40


@pytest.mark.parametrize(
    ("kinds", "namespaces", "length", "expected"),
    [(1, 256, 63, False), (1, 257, 3, True), (256, 1, 3, False), (257, 1, 3, True), (40, 250, 63, True)],
)
def test_reach_that_a_status_cannot_hold_is_too_large(kinds, namespaces, length, expected):
    names = tuple(f"{number:0{length}}" for number in range(namespaces))
    assert is_too_large([Reach(f"v1/Kind{number}", names) for number in range(kinds)]) is expected


def test_union_of_reaches_has_all_namespaces():
    one, other = Reach("v1/A", ("b",)), Reach("v1/A", ("a", "c"))
    assert union_of([one], [other, Reach("v1/B", ("x", "*"))]) == (
        Reach("v1/A", ("a", "b", "c")),
        Reach("v1/B", ("*",)),
    )


def test_generation_is_kept_of_sources_only():
    for name, kept in (("web", True), ("", False)):
        place = WatchScope(ObjectKey("shop", "casconfig"), DEPLOYMENTS, "shop", True, name)
        obj = to_cached_object(place, a_deployment(generation=3), Versions()).decode()
        assert ("generation" in obj["metadata"]) is kept


def test_blocked_status_keeps_the_known_targets():
    config = with_rounds(a_config(), a_step(1))
    status = blocked_status(config, Reason.WAITING, "no source")
    assert status.targets == config.status.targets
    assert [(each.type, each.status, each.reason) for each in status.conditions] == [
        ("Ready", "False", "WaitingForSource"),
        ("Applied", "False", "WaitingForSource"),
    ]


def test_planned_change_shows_lines_without_ledger():
    wish, before = a_wish(), a_deployment()
    change = planned_change(plan.decide_step(wish, found(before)), before, changed(before, wish))
    assert change.target == "apps/v1/Deployment shop/web"
    assert change.diff == '+ /spec/template/spec/containers/0/env: [{"name": "A", "value": "1"}]'


def test_reach_is_summarised_by_kind_and_namespace():
    account = ObjectKey("shop", "casconfig")
    places = [WatchScope(account, DEPLOYMENTS, where, True) for where in ("b", "a", "a")]
    assert reach_of(places) == (Reach("apps/v1/Deployment", ("a", "b")),)
    assert reach_of([*places, WatchScope(account, DEPLOYMENTS, "", True)]) == (
        Reach("apps/v1/Deployment", ("*",)),
    )


@pytest.mark.parametrize(
    ("whole", "name", "want"),
    [
        pytest.param(True, "", {"spec"}, id="a target without its status"),
        pytest.param(False, "", set(), id="only metadata"),
        pytest.param(True, "web", {"spec", "status"}, id="a source with everything"),
        pytest.param(False, "web", set(), id="a Secret as a source: its data is not kept, whatever came"),
    ],
)
def test_cached_object_keeps_only_relevant_fields(whole, name, want):
    place = WatchScope(ObjectKey("shop", "casconfig"), DEPLOYMENTS, "shop", whole, name)
    obj = {**a_deployment(managedFields=[{"manager": "x"}]), "status": {"replicas": 1}}
    kept = to_cached_object(place, obj, Versions()).decode()
    assert set(kept) - {"apiVersion", "kind", "metadata"} == want
    assert "managedFields" not in kept["metadata"]
    assert kept["metadata"]["resourceVersion"] == "7"


def test_status_change_alone_does_not_change_the_cached_object():
    place = WatchScope(ObjectKey("shop", "casconfig"), DEPLOYMENTS, "shop", True)
    before = to_cached_object(place, {**a_deployment(), "status": {"replicas": 1}}, Versions())
    after = to_cached_object(
        place, {**a_deployment(resourceVersion="8"), "status": {"replicas": 2}}, Versions()
    )
    assert before.body == after.body
    assert (before.version, after.version) == (7, 8)
