"""`quintet doctor` as a user runs it, on healthy and broken clusters."""

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kit.eventually import eventually
from quintet.local.cluster import Cluster
from quintet.local.controlplane.certificates import Authority, write_kubeconfig

PROGRAM = Path(sys.executable).with_name("quintet")


def run_doctor(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [PROGRAM, "doctor", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=kept | {"PYTHONWARNINGS": "error"} | environ,
    )


def find_failure(answer: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """Return the message of the one failed check and its next step."""
    shown = f"exit {answer.returncode}\n{answer.stdout}{answer.stderr}"
    assert answer.returncode == 1, shown
    assert "Traceback" not in shown, shown
    assert not answer.stderr, shown
    lines = answer.stdout.splitlines()
    failed = [number for number, line in enumerate(lines) if line.startswith("  ✗ failed")]
    assert len(failed) == 1, shown
    message, step = lines[failed[0]], lines[failed[0] + 1]
    assert step.startswith("    next: "), shown
    assert lines[failed[0] + 2 :] == ["the cluster cannot be used yet"], shown
    return message, step


def test_doctor_reports_ok_for_administrator_of_healthy_cluster(cluster: Cluster):
    answer = run_doctor("--kubeconfig", cluster.kubeconfig)

    findings = answer.stdout.splitlines()
    # test_cli_doctor covers installed components.
    findings = findings[: findings.index("installation")]
    groups = [line for line in findings if not line.startswith(" ")]
    assert groups == ["configuration", "server", "identity", "permissions"]
    checks = [line for line in findings if line.startswith(" ")]
    assert all(line.startswith("  ✓ ok ") for line in checks), answer.stdout
    assert any("you are" in line and "system:authenticated" in line for line in checks), answer.stdout
    assert "\x1b" not in answer.stdout


def test_doctor_json_output_has_same_checks(cluster: Cluster):
    answer = run_doctor("-o", "json", KUBECONFIG=str(cluster.kubeconfig))

    report = json.loads(answer.stdout)
    assert answer.returncode == (1 if report["status"] == "failed" else 0), report
    assert [(each["group"], each["check"]) for each in report["checks"]][:4] == [
        ("configuration", "kubeconfig"),
        ("configuration", "credentials"),
        ("server", "connection"),
        ("server", "version"),
    ]
    basics = [each for each in report["checks"] if each["group"] not in ("installation", "webhooks")]
    assert {each["status"] for each in basics} == {"ok"}, report


def test_doctor_output_without_unicode_shows_status_words(cluster: Cluster):
    answer = run_doctor("--kubeconfig", cluster.kubeconfig, PYTHONIOENCODING="ascii")

    assert not answer.stderr, answer.stdout + answer.stderr
    assert "  ok      connection: " in answer.stdout


def test_doctor_reports_unreadable_kubeconfig(tmp_path: Path):
    message, step = find_failure(run_doctor("--kubeconfig", tmp_path))

    assert f"cannot read kubeconfig {tmp_path} (Is a directory)" in message
    assert "check the path" in step


def test_doctor_lists_contexts_when_context_is_unknown(cluster: Cluster):
    message, step = find_failure(run_doctor("--kubeconfig", cluster.kubeconfig, "--context", "moon"))

    assert "there is no context 'moon'" in message
    assert "quintet" in step


def test_doctor_reports_expiry_of_client_certificate(cluster: Cluster):
    end = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)

    message, step = find_failure(run_doctor("--kubeconfig", cluster.client_kubeconfig("late", not_after=end)))

    assert "expired on 2026-01-02 03:04 UTC" in message
    assert "new credentials" in step


def test_doctor_reports_untrusted_server_certificate(cluster: Cluster, tmp_path: Path):
    Authority.create(tmp_path / "pki")
    stranger = tmp_path / "config"
    files = cluster.certificate("admin", ("system:masters",))
    write_kubeconfig(stranger, cluster.server, tmp_path / "pki" / "ca.crt", *files)

    message, step = find_failure(run_doctor("--kubeconfig", stranger))

    assert "does not trust the certificate of the server" in message
    assert "certificate-authority" in step


def test_doctor_warns_when_server_certificate_is_not_verified(cluster: Cluster, tmp_path: Path):
    content = json.loads(cluster.kubeconfig.read_text())
    content["clusters"][0]["cluster"] = {"server": cluster.server, "insecure-skip-tls-verify": True}
    path = tmp_path / "config"
    path.write_text(json.dumps(content))

    answer = run_doctor("--kubeconfig", path)

    assert not answer.stderr, answer.stdout + answer.stderr
    assert "  ! warning connection: " in answer.stdout


def test_doctor_fails_for_user_without_permissions(cluster: Cluster):
    message, step = find_failure(run_doctor("--kubeconfig", cluster.client_kubeconfig("alice")))

    assert "no permission: alice may neither install Quintet nor use it" in message
    assert "administrator" in step


@pytest.fixture
def bob(cluster: Cluster) -> Iterator[Path]:
    """The kubeconfig of a user who can create some objects of an installation."""
    role = f"doctor-{secrets.token_hex(3)}"
    for command in (
        ("clusterrole", role, "--verb=create", "--resource=deployments.apps,namespaces"),
        ("clusterrolebinding", role, f"--clusterrole={role}", "--user=bob"),
    ):
        done = cluster.kubectl("create", *command)
        assert done.returncode == 0, done.stderr
    yield cluster.client_kubeconfig("bob")
    cluster.kubectl("delete", "clusterrole,clusterrolebinding", role)


async def test_doctor_warns_user_with_some_permissions(bob: Path):
    def assert_warned() -> None:
        """A role takes a moment to reach the authorizer, also while the doctor is at work."""
        answer = run_doctor("--kubeconfig", bob)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        warning = next(line for line in answer.stdout.splitlines() if line.startswith("  ! warning"))
        assert "customresourcedefinitions.apiextensions.k8s.io" in warning
        assert "deployments" not in warning

    await eventually(assert_warned)


def test_doctor_reports_credentials_that_server_rejects(cluster: Cluster, tmp_path: Path):
    Authority.create(tmp_path / "pki")
    files = Authority.load(tmp_path / "pki").issue("me", "admin", ("system:masters",))
    path = tmp_path / "config"
    write_kubeconfig(path, cluster.server, cluster.ca, *files)

    message, step = find_failure(run_doctor("--kubeconfig", path))

    assert "the server rejected the credentials" in message
    assert "new credentials" in step


def test_doctor_reports_unreachable_server(cluster: Cluster, tmp_path: Path):
    with socket.socket() as held:  # bound but not listening, so that no other process takes the port
        held.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{held.getsockname()[1]}"
        path = tmp_path / "config"
        write_kubeconfig(path, server, cluster.ca, *cluster.certificate("admin"))

        message, step = find_failure(run_doctor("--kubeconfig", path))

    assert "cannot be reached" in message
    assert "connection refused" in message
    assert "check that it runs" in step


@pytest.mark.parametrize(
    "arguments", [("--no-such-option",), ("surplus",), ("-o", "xml"), ("--flavour", "x")]
)
def test_doctor_usage_error_exits_with_code_two(arguments: tuple[str, ...]):
    answer = run_doctor(*arguments)

    assert answer.returncode == 2, answer.stderr
    assert "Usage: quintet doctor" in answer.stderr
