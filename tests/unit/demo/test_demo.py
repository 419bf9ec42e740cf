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
from quintet.cli import output
from quintet.cli.main import quintet
from quintet.cli.verbs.install import options as install
from quintet.components import COMPONENTS
from quintet.demo import plan, report
from quintet.demo.installation import ExistingInstallation, quintet_spec
from quintet.demo.report import Row
from quintet.demo.run import Progress, interruptible, raise_failures, run_samples
from quintet.demo.samples import NAMESPACE, Sample, all_samples
from quintet.local.errors import LocalError
from quintet.local.kubectl import Kubectl, describe_condition, find_failed_condition, find_waiting_reason
from quintet.manifests.installation import FLAVOURS

ROOT = Path(__file__).parents[3]


def ignore(text: str) -> None:
    pass


NOWHERE = Kubectl(Path(sys.executable), {}, NAMESPACE)


def a_sample(kind: str, outcome: str | LocalError) -> Sample:
    async def run_sample(run):
        run.add_output(f"$ kubectl get {kind}", "there")
        if isinstance(outcome, LocalError):
            raise outcome
        return outcome

    return Sample(kind, kind, "it", "about it", run_sample, run_sample, ())


def test_every_controller_has_a_sample():
    assert sorted(sample.controller for sample in all_samples()) == sorted(COMPONENTS)


def test_install_options_list_all_controllers_and_flavours():
    assert sorted(install.CONTROLLERS) == sorted(COMPONENTS)
    assert tuple(FLAVOURS) == install.FLAVOURS


def test_demo_with_unknown_controller_lists_the_valid_names():
    answer = CliRunner().invoke(quintet, ["demo", "--only", "jsonserver,nonsense"])
    assert answer.exit_code == 2
    assert "unknown controller 'nonsense'; choose from: jsonserver, checkup" in answer.output


def test_eventing_example_has_its_sink_in_the_demo_namespace():
    documents = list(yaml.safe_load_all((ROOT / "examples/02-eventingbackend/orders.yaml").read_text()))
    sink = next(each for each in documents if each["kind"] == "Subscription")["spec"]["sink"]
    services = [each["metadata"]["name"] for each in documents if each["kind"] == "Service"]
    assert sink == f"http://{services[0]}.{NAMESPACE}.svc.cluster.local"


def test_eventing_example_is_valid():
    answer = CliRunner().invoke(
        quintet, ["validate", "-f", str(ROOT / "examples/02-eventingbackend/orders.yaml")]
    )
    assert answer.exit_code == 0, answer.output


def test_wheel_includes_every_example_that_the_demo_applies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert "examples" in included


def test_demo_table_has_a_line_per_object_and_the_total_time():
    rows = [
        Row("JsonServer", "app-my-server", "2 pods serve", 8.7),
        Row("Checkup", "basics", "nobody answers", 12.2, next_step="look"),
    ]
    assert report.render_table(rows, 61.5).splitlines() == [
        "KIND         OBJECT          RESULT                   SECONDS",
        "JsonServer   app-my-server   2 pods serve                   9",
        "Checkup      basics          FAILED: nobody answers        12",
        "                             total                         62",
    ]


def test_demo_hints_share_a_kubectl_alias():
    lines = report.render_hints(
        "kubectl -n x", [("all objects", "get quintet")], "kubectl delete namespace x"
    )
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
            "run the demo again with --keep, then: quintet kubectl --name demo -- describe js x",
        ),
    ],
    ids=["a cluster that is still there", "a cluster that is gone"],
)
def test_next_step_of_a_demo_failure_is_possible(kept, want):
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
def test_failure_cause_is_the_message_of_the_bad_condition(conditions, want):
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
def test_wait_state_is_described_in_words(state, want):
    assert describe_condition(state) == want


async def test_timed_out_wait_names_object_cause_and_next_step(tmp_path):
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


def test_failure_cause_is_the_first_waiting_pod():
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
def test_demo_keeps_controllers_of_an_earlier_demo(running, needed, want):
    assert quintet_spec(running, needed) == want


@pytest.mark.parametrize(
    ("found", "ours", "untouched"),
    [
        (ExistingInstallation(), True, True),
        (ExistingInstallation(has_crds=True), True, False),
        (ExistingInstallation(namespace=True), True, False),
        (ExistingInstallation(quintet=Quintet()), False, False),
        (ExistingInstallation(is_manual=True), False, False),
    ],
    ids=["nothing", "definitions that may hold objects", "a namespace", "an installation", "config/default"],
)
def test_demo_removes_only_what_did_not_exist_before(found, ours, untouched):
    assert (found.is_ours, found.is_empty) == (ours, untouched)


async def test_failing_sample_does_not_stop_the_others(capsys):
    clock = VirtualClock()
    broken = a_sample("Broken", LocalError("it is broken", "mend it"))
    rows = await run_samples(
        [broken, a_sample("Whole", "it works")],
        NOWHERE,
        Progress(clock, output.progress, output.result),
        pods=True,
    )
    assert [(row.kind, row.seen, row.failed) for row in rows] == [
        ("Broken", "it is broken", True), ("Whole", "it works", False),
    ]  # fmt: skip
    shown = capsys.readouterr()
    assert "Whole it: about it\n  $ kubectl get Whole\n  there" in shown.out
    assert "Broken it:" not in shown.out
    assert "0 s  Broken: it is broken" in shown.err
    with pytest.raises(LocalError) as caught:
        raise_failures(rows)
    assert (caught.value.message, caught.value.next_step) == (
        "the demo failed: Broken it: it is broken", "mend it",
    )  # fmt: skip


def test_raise_failures_accepts_successful_rows():
    raise_failures([Row("Whole", "it", "it works", 1)])


async def test_progress_reports_repeated_text_once_with_elapsed_seconds(capsys):
    clock = VirtualClock()
    teller = Progress(clock, output.progress, output.result)
    teller.report("waiting")
    await clock.advance(12)
    teller.report("waiting")
    teller.report("done")
    assert capsys.readouterr().err == "   0 s  waiting\n  12 s  done\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_demo_handles_signal_like_ctrl_c(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012 - the signal may come a moment later
        os.kill(os.getpid(), number)
        signal.pause()
    assert signal.getsignal(number) is before


async def test_cancelled_kubectl_call_ends_its_process(tmp_path):
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


async def test_failed_kubectl_call_reports_its_last_line(tmp_path):
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
def test_demo_keeps_the_log_when_its_cluster_does_not_start(tmp_path, monkeypatch, error, want_stopped):
    def up(*_, **__):
        raise error

    stopped = []
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(plan.cluster, "up", up)
    monkeypatch.setattr(plan.cluster, "down", stopped.append)
    with pytest.raises(type(error)):
        plan.run(["jsonserver"], ignore, ignore, keep=False)
    assert stopped == want_stopped


def test_demo_stops_its_cluster_when_only_old_logs_exist(tmp_path, monkeypatch):
    (tmp_path / "quintet/clusters/demo/processes").mkdir(parents=True)
    stopped = []
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(plan.cluster, "up", lambda *_, **__: None)
    monkeypatch.setattr(plan.cluster, "down", stopped.append)
    monkeypatch.setattr(plan, "_run_samples", lambda *_, **__: None)
    plan.run(["jsonserver"], ignore, ignore, keep=False)
    assert stopped == ["demo"]
