"""`quintet doctor --host`: what it finds about a machine, and the next steps."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from quintet.cli.main import quintet
from quintet.install.doctor import host as machine
from quintet.install.doctor.findings import FAILED, OK, WARNING
from quintet.install.doctor.host import GIB, Host, check_host, verdict

DEBIAN = Host(
    system="Linux",
    architecture="x86_64",
    memory=8 * GIB,
    disk=100 * GIB,
    go=Path("/usr/local/go/bin/go"),
    built=True,
    root=True,
    cgroups=True,
    missing=(),
    apt=True,
    containerd=(2, 0),
    runc=(1, 1),
    builder="buildah",
    network="",
    overlay=True,
    loop_devices=True,
    grows_in_use=True,
)
FEDORA = replace(DEBIAN, apt=False, builder="podman")


def problems(host: Host) -> dict[str, tuple[str, str]]:
    """Return status and next step of every check that is not ok."""
    return {each.check: (each.status, each.next) for each in check_host(host) if each.status != OK}


@pytest.mark.parametrize(
    "host",
    [
        DEBIAN,
        FEDORA,
        replace(DEBIAN, missing=("nftables",), containerd=None, runc=(1, 0)),
        replace(DEBIAN, built=False, go=None),
        replace(DEBIAN, built=True, disk=0),
        replace(FEDORA, containerd=(1, 7), runc=(1, 3)),
        replace(DEBIAN, grows_in_use=False),
    ],
    ids=[
        "Debian",
        "Fedora",
        "what apt has",
        "first build",
        "full disk, but built",
        "old containerd",
        "container",
    ],
)
def test_machine_on_which_everything_works_has_no_problem(host):
    assert problems(host) == {}
    assert verdict(check_host(host)) == "the embedded cluster can run here"


@pytest.mark.parametrize(
    ("host", "check", "status", "step"),
    [
        (replace(DEBIAN, architecture="aarch64"), "platform", WARNING, "try it"),
        (replace(DEBIAN, architecture="riscv64"), "platform", FAILED, "on x86_64 or arm64"),
        (replace(DEBIAN, memory=GIB), "memory", WARNING, "without --node works"),
        (replace(DEBIAN, built=False, disk=5 * GIB), "kubernetes", FAILED, "free 6 GiB"),
        (replace(DEBIAN, root=False), "root", FAILED, "as root"),
        (replace(DEBIAN, cgroups=False), "cgroups", FAILED, "privileged"),
        (replace(FEDORA, missing=("nftables", "e2fsprogs")), "tools", FAILED, "install nftables, e2fsprogs"),
        (replace(DEBIAN, network="Unknown device type"), "network", FAILED, "nf_tables"),
        (replace(FEDORA, runc=None), "runtime", FAILED, "install runc 1.1 or newer"),
        (replace(FEDORA, runc=(1, 0)), "runtime", FAILED, "install runc 1.1 or newer"),
        (replace(FEDORA, builder=None), "images", FAILED, "docker or podman"),
        (replace(DEBIAN, overlay=False), "overlayfs", WARNING, "module overlay"),
        (replace(DEBIAN, loop_devices=False), "volumes", WARNING, "module loop"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_problem_is_found_alone_and_has_a_next_step(host, check, status, step):
    found = problems(host)
    assert {each: state for each, (state, _) in found.items()} == {check: status}
    assert step in found[check][1]


def test_network_that_could_not_be_tried_is_not_reported():
    host = replace(DEBIAN, root=False, network=None)
    assert "network" not in {each.check for each in check_host(host)}


def test_macos_runs_clusters_without_nodes():
    host = replace(DEBIAN, system="Darwin", architecture="arm64")
    assert problems(host).keys() == {"platform"}
    (node,) = [each for each in check_host(host) if each.group == machine.NODE]
    assert node.next == "`quintet up` without --node works here"


@pytest.mark.parametrize(
    ("host", "want"),
    [
        (replace(DEBIAN, root=False), "the embedded cluster can run here, but not with nodes yet"),
        (replace(DEBIAN, built=False, disk=0), "the embedded cluster cannot run here yet"),
    ],
    ids=["no root", "full disk"],
)
def test_verdict_distinguishes_machine_and_nodes(host, want):
    assert verdict(check_host(host)) == want


def test_doctor_host_reports_this_machine_without_a_cluster(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    done = CliRunner().invoke(quintet, ["doctor", "--host", "-o", "json"])
    found = json.loads(done.stdout)
    assert {each["group"] for each in found["checks"]} == {"machine", "nodes"}
    assert done.exit_code == (1 if found["status"] == "failed" else 0)
    monkeypatch.setattr(machine, "read_host", lambda: replace(DEBIAN, root=False))
    done = CliRunner().invoke(quintet, ["doctor", "--host"])
    assert done.exit_code == 1
    assert "next: run --node as root" in done.stdout
    assert done.stdout.endswith("the embedded cluster can run here, but not with nodes yet\n")


def test_doctor_refuses_host_together_with_pre():
    done = CliRunner().invoke(quintet, ["doctor", "--host", "--pre"])
    assert done.exit_code == 2
    assert "choose --pre or --host" in done.stderr
