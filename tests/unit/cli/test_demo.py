"""The demo, as far as it can be told without a cluster: its words, its choices, and what it does about failures."""

import asyncio
import json
import os
import signal
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kit.clock import VirtualClock
from kit.eventually import eventually
from quintet.apis.suite import CONTROLLERS, Quintet
from quintet.cli import install
from quintet.cli.demo import course, report
from quintet.cli.demo.play import Teller, interruptible, play, refuse_failures
from quintet.cli.demo.report import Row
from quintet.cli.demo.samples import NAMESPACE, SAMPLES, Sample
from quintet.cli.demo.suite import Found, wanted
from quintet.cli.main import quintet
from quintet.components import COMPONENTS
from quintet.local.errors import LocalError
from quintet.local.kubectl import Kubectl, describe_condition, find_failed_condition, find_waiting_reason
from quintet.manifests.installation import FLAVOURS

ROOT = Path(__file__).parents[3]
NOWHERE = Kubectl(Path(sys.executable), {}, NAMESPACE)


def a_sample(kind: str, outcome: str | LocalError) -> Sample:
    async def prove(scene):
        scene.note(f"$ kubectl get {kind}", "there")
        if isinstance(outcome, LocalError):
            raise outcome
        return outcome

    return Sample(kind, kind, "it", "about it", prove, prove, ())


def test_every_controller_has_a_sample():
    assert sorted(sample.controller for sample in SAMPLES) == sorted(COMPONENTS)


def test_the_names_that_options_take_are_those_of_controllers_and_flavours():
    assert sorted(install.CONTROLLERS) == sorted(COMPONENTS)
    assert tuple(FLAVOURS) == install.FLAVOURS


def test_a_name_that_is_none_is_said_together_with_those_that_are():
    answer = CliRunner().invoke(quintet, ["demo", "--only", "jsonserver,nonsense"])
    assert answer.exit_code == 2
    assert "there is no 'nonsense'; there are: jsonserver, eventing" in answer.output


def test_the_sink_of_the_example_is_in_the_namespace_of_the_demo():
    documents = list(yaml.safe_load_all((ROOT / "examples/02-eventingbackend/orders.yaml").read_text()))
    sink = next(each for each in documents if each["kind"] == "Subscription")["spec"]["sink"]
    services = [each["metadata"]["name"] for each in documents if each["kind"] == "Service"]
    assert sink == f"http://{services[0]}.{NAMESPACE}.svc.cluster.local"


def test_the_event_of_the_example_has_no_mistake():
    answer = CliRunner().invoke(
        quintet, ["validate", "-f", str(ROOT / "examples/02-eventingbackend/orders.yaml")]
    )
    assert answer.exit_code == 0, answer.output


def test_an_installed_package_has_every_example_that_the_demo_applies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert "examples" in included


def test_the_table_has_a_line_for_each_object_and_the_time_of_everything():
    rows = [
        Row("JsonServer", "app-my-server", "2 pods serve", 8.7),
        Row("Checkup", "basics", "nobody answers", 12.2, next_step="look"),
    ]
    assert report.table(rows, 61.5).splitlines() == [
        "KIND         OBJECT          WHAT WAS SEEN                        SECONDS",
        "JsonServer   app-my-server   2 pods serve                               9",
        "Checkup      basics          FAILED: nobody answers                    12",
        "                             everything, from the first line on        62",
    ]


def test_hints_are_short_because_they_share_an_alias():
    lines = report.looks("kubectl -n x", [("all objects", "get quintet")], "kubectl delete namespace x")
    assert lines.splitlines() == [
        "in this shell   alias k='kubectl -n x'",
        "all objects     k get quintet",
        "stop it         kubectl delete namespace x",
    ]


@pytest.mark.parametrize(
    ("kept", "want"),
    [
        (True, "quintet kubectl --name demo -- describe js x"),
        (
            False,
            "run it again with --keep, which leaves everything there, then: "
            "quintet kubectl --name demo -- describe js x",
        ),
    ],
    ids=["a cluster that is still there", "a cluster that is gone"],
)
def test_the_next_step_can_be_taken(kept, want):
    assert report.next_step("kubectl describe js x", "quintet kubectl --name demo --", kept=kept) == want


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ([], ""),
        ([{"type": "Ready", "status": "True", "message": "all is well"}], ""),
        ([{"type": "Ready", "status": "False", "message": "no pod yet"}], "no pod yet"),
        ([{"type": "Failed", "status": "False", "message": "it did not fail"}], ""),
        ([{"type": "Failed", "status": "True", "message": "nobody answered"}], "nobody answered"),
    ],
    ids=["no condition", "all is well", "not ready", "not failed", "failed"],
)
def test_the_cause_is_what_the_object_says_of_itself(conditions, want):
    assert find_failed_condition({"status": {"conditions": conditions}}) == want


@pytest.mark.parametrize(
    ("state", "want"),
    [
        ("condition=Ready", "is Ready"),
        ("jsonpath={.status.replicas}=1", "has status.replicas=1"),
        ("create", "exists"),
        ("delete", "is deleted"),
    ],
)
def test_a_state_is_said_in_words(state, want):
    assert describe_condition(state) == want


async def test_a_wait_in_vain_names_the_object_its_cause_and_the_next_step(tmp_path):
    program = tmp_path / "kubectl"
    told = {
        "items": [],
        "status": {"conditions": [{"type": "Ready", "status": "False", "message": "no pod serves"}]},
    }
    program.write_text(f"#!/bin/sh\n[ $2 = get ] && echo '{json.dumps(told)}'\n")
    program.chmod(0o755)
    with pytest.raises(LocalError) as caught:
        await Kubectl(program, dict(os.environ), "shop").wait("jsonserver/app-x", "condition=Ready")
    assert caught.value.message == "timed out waiting until jsonserver/app-x is Ready: no pod serves"
    assert caught.value.next_step == "kubectl --namespace shop describe jsonserver/app-x"


def test_the_cause_is_what_the_first_pod_waits_for():
    running = {"metadata": {"name": "a"}, "status": {"containerStatuses": [{"state": {"running": {}}}]}}
    state = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    stuck = {"metadata": {"name": "b"}, "status": {"containerStatuses": [{"state": state}]}}
    unplaced = {
        "metadata": {"name": "c"},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]},
    }
    assert find_waiting_reason([running]) == ""
    assert find_waiting_reason([running, stuck, unplaced]) == "pod b: ErrImagePull: no such image"
    assert find_waiting_reason([unplaced]) == "pod c: no node"


@pytest.mark.parametrize(
    ("running", "needed", "want"),
    [
        (["checkup"], ["checkup"], {"replicas": 1, "controllers": ["checkup"]}),
        (["checkup"], ["jsonserver"], {"replicas": 1, "controllers": ["checkup", "jsonserver"]}),
        ([], ["jsonserver"], {"replicas": 1}),
        (list(CONTROLLERS), list(CONTROLLERS), {"replicas": 1}),
    ],
    ids=["what is needed", "what ran goes on", "none listed means all", "all need not be listed"],
)
def test_a_demo_stops_no_controller_of_an_earlier_one(running, needed, want):
    assert wanted(running, needed) == want


@pytest.mark.parametrize(
    ("found", "ours", "untouched"),
    [
        (Found(), True, True),
        (Found(definitions=True), True, False),
        (Found(namespace=True), True, False),
        (Found(quintet=Quintet()), False, False),
        (Found(by_hand=True), False, False),
    ],
    ids=["nothing", "definitions that may hold objects", "a namespace", "an installation", "config/default"],
)
def test_only_what_was_not_there_before_is_taken_away(found, ours, untouched):
    assert (found.ours, found.untouched) == (ours, untouched)


async def test_a_sample_that_fails_does_not_stop_the_others(capsys):
    clock = VirtualClock()
    broken = a_sample("Broken", LocalError("it is broken", "mend it"))
    rows = await play([broken, a_sample("Whole", "it works")], NOWHERE, Teller(clock), pods=True)
    assert [(row.kind, row.seen, row.failed) for row in rows] == [
        ("Broken", "it is broken", True), ("Whole", "it works", False),
    ]  # fmt: skip
    shown = capsys.readouterr()
    assert "Whole it: about it\n  $ kubectl get Whole\n  there" in shown.out
    assert "Broken it:" not in shown.out
    assert "0 s  Broken: it is broken" in shown.err
    with pytest.raises(LocalError) as caught:
        refuse_failures(rows)
    assert (caught.value.message, caught.value.next_step) == (
        "the demo did not work: Broken it: it is broken", "mend it",
    )  # fmt: skip


def test_where_all_works_nothing_is_refused():
    refuse_failures([Row("Whole", "it", "it works", 1)])


async def test_what_is_said_twice_is_shown_once_with_the_seconds_in_front(capsys):
    clock = VirtualClock()
    teller = Teller(clock)
    teller.say("waiting")
    await clock.advance(12)
    teller.say("waiting")
    teller.say("done")
    assert capsys.readouterr().err == "   0 s  waiting\n  12 s  done\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_taken_like_ctrl_c(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012 - the signal may come a moment later
        os.kill(os.getpid(), number)
        signal.pause()
    assert signal.getsignal(number) is before


async def test_kubectl_that_is_given_up_does_not_run_on(tmp_path):
    record = tmp_path / "pid"
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\necho $$ >{record}.new; mv {record}.new {record}\nexec sleep 600\n")
    program.chmod(0o755)
    calling = asyncio.create_task(Kubectl(program, dict(os.environ), NAMESPACE).call("get", "pods"))
    await eventually(lambda: record.read_text(), within=60)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    with pytest.raises(ProcessLookupError):
        os.kill(int(record.read_text()), 0)


async def test_what_kubectl_says_last_is_the_error(tmp_path):
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho noise >&2\necho 'no such thing' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(LocalError, match=r"kubectl get pods: no such thing"):
        await Kubectl(program, dict(os.environ), NAMESPACE).call("get", "pods", "-A")


@pytest.mark.parametrize(
    ("error", "want_stopped"),
    [(LocalError("etcd ended", "look at etcd.log"), []), (KeyboardInterrupt(), ["demo"])],
    ids=["a start that failed", "Ctrl-C"],
)
def test_a_demo_whose_cluster_does_not_start_keeps_the_log_that_its_error_names(
    tmp_path, monkeypatch, error, want_stopped
):
    def up(*_, **__):
        raise error

    stopped = []
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(course.cluster, "up", up)
    monkeypatch.setattr(course.cluster, "down", stopped.append)
    with pytest.raises(type(error)):
        course.run(["jsonserver"], keep=False)
    assert stopped == want_stopped


def test_logs_of_a_demo_that_failed_are_not_taken_for_a_cluster_to_be_kept(tmp_path, monkeypatch):
    (tmp_path / "quintet/clusters/demo/processes").mkdir(parents=True)
    stopped = []
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(course.cluster, "up", lambda *_, **__: None)
    monkeypatch.setattr(course.cluster, "down", stopped.append)
    monkeypatch.setattr(course, "_show", lambda *_, **__: None)
    course.run(["jsonserver"], keep=False)
    assert stopped == ["demo"]
