"""The objects of a run."""

from datetime import UTC, datetime, timedelta

import pytest

from quintet.apis.checkup import CheckupTemplate, CheckupTemplateMetadata
from quintet.controllers.checkup.decide import desired, timing
from unit.checkup.observations import a_checkup

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod_of(**spec):
    return desired.job(a_checkup(**spec), "name", 1)["spec"]["template"]


def test_params_reach_the_checkup_unchanged():
    params = {"a": "x=y=z", "b": "$(HOME) $$ $", "c": ""}
    (container,) = pod_of(params=params)["spec"]["containers"]
    env = {item["name"]: item["value"] for item in container["env"] if "value" in item}
    assert (env["A"], env["B"], env["C"]) == ("x=y=z", "$$(HOME) $$$$ $$", "")
    data = desired.config_map(a_checkup(params=params), "name")["data"]
    assert data == {
        "spec.timeout": "60s",
        "spec.param.a": "x=y=z",
        "spec.param.b": "$(HOME) $$ $",
        "spec.param.c": "",
    }


def test_pod_meets_the_restricted_profile():
    spec = pod_of()["spec"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_template_is_merged_and_cannot_remove_pod_labels():
    custom = CheckupTemplate(
        metadata=CheckupTemplateMetadata(labels={"team": "a", "app.kubernetes.io/name": "mine"}),
        spec={
            "nodeSelector": {"a": "b"},
            "containers": [{"name": "checkup", "env": [{"name": "X", "value": "y"}]}],
        },
    )
    made = pod_of(template=custom)
    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["labels"]["app.kubernetes.io/name"] == "checkup"
    assert made["spec"]["nodeSelector"] == {"a": "b"}
    assert [item["name"] for item in made["spec"]["containers"][0]["env"]][-2:] == ["POD_UID", "X"]


@pytest.mark.parametrize("seconds", [1, 5, 30, 60, 3600, 86400])
def test_each_deadline_is_later_than_the_one_before(seconds):
    limits = timing.TimeLimits()
    ours = timing.run_deadline(timing.start_deadline(NOW, seconds, limits), seconds, limits)
    assert NOW + timedelta(seconds=timing.pod_deadline(seconds)) > ours
    assert timing.job_deadline(seconds) > timing.pod_deadline(seconds) + max(seconds, limits.start)


def test_short_timeout_leaves_time_to_start():
    assert timing.start_deadline(NOW, 1, timing.TimeLimits()) == NOW + timedelta(seconds=30)
    assert timing.start_deadline(NOW, 600, timing.TimeLimits()) == NOW + timedelta(seconds=600)


@pytest.mark.parametrize(
    ("seconds", "want"), [(0, "0s"), (59, "59s"), (60, "1m0s"), (3599, "59m59s"), (7800, "2h10m"), (-5, "0s")]
)
def test_durations_are_formatted_like_kubectl(seconds, want):
    assert timing.duration(NOW, NOW + timedelta(seconds=seconds)) == want
