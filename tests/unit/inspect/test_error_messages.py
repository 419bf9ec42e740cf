"""Every error of the cluster has words and a next step."""

import click
import pytest

from quintet.cli import main
from quintet.inspect.error_messages import describe_error
from quintet.install.doctor.examination import check_version
from quintet.install.doctor.findings import FAILED, OK, WARNING
from quintet.kube import errors


def family(kind: type) -> list[type]:
    """The class and all below it, of those that the client raises."""
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [kind, *(each for child in children for each in family(child))]


def an_error(kind: type[errors.KubeError]) -> errors.KubeError:
    if issubclass(kind, errors.ApiError):
        return kind("GET /x", errors.Status("line one\nline two", "Reason", 499))
    return kind("line one\nline two", "do this") if kind is errors.ConfigError else kind("line one\nline two")


@pytest.mark.parametrize("kind", family(errors.KubeError))
def test_describe_error_returns_one_line_and_a_next_step(kind):
    message, next_step = describe_error(an_error(kind))

    assert message.strip()
    assert next_step.strip()
    assert "\n" not in message + next_step
    if kind is not errors.Unauthorized:
        assert "line one line two" in message


def test_describe_error_names_the_expiry_of_rejected_credentials():
    error = errors.Unauthorized("GET /x", errors.Status(code=401))
    error.expiry = "the client certificate in here expired on 2025-03-01 12:30 UTC"

    assert "expired on 2025-03-01" in describe_error(error)[0]


def test_describe_error_distinguishes_terminating_namespace_from_missing_permission():
    details = errors.StatusDetails(causes=(errors.Cause("NamespaceTerminating"),))
    error = errors.Forbidden("POST /x", errors.Status("no", "Forbidden", 403, details))

    assert "being deleted" in describe_error(error)[0]


def test_api_error_ends_a_verb_with_two_lines(monkeypatch, capsys):
    def fail() -> None:
        raise errors.Unreachable("GET /x: here: connection refused")

    monkeypatch.setattr(main, "quintet", click.Command("quintet", callback=fail))
    monkeypatch.setattr("sys.argv", ["quintet"])

    with pytest.raises(SystemExit) as stopped:
        main.main()

    first, second = capsys.readouterr().err.splitlines()
    assert stopped.value.code == 1
    assert first == "error: the server cannot be reached (GET /x: here: connection refused)"
    assert second.startswith("  next: ")


VERSIONS = [
    ("v1.31.9", FAILED),
    ("v1.32.0", WARNING),
    ("v1.34.7+k3s1", WARNING),
    ("v1.35.0", OK),
    ("v1.37.2-gke.1", OK),
    ("v1.38.0-alpha.1", WARNING),
    ("v2.0.0", WARNING),
    ("", FAILED),
    ("unknown", FAILED),
]


@pytest.mark.parametrize(("version", "want"), VERSIONS)
def test_check_version_rates_kubernetes_versions(version, want):
    status, message, next_step = check_version(version)

    assert status == want
    assert version in message
    assert bool(next_step) == (want != OK)
