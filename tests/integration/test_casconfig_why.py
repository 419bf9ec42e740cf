"""`quintet why` reports the same selection as the controller."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.kinds.casconfigs import DEPLOYMENTS, a_deployment, a_policy, create
from quintet.apis.meta import Object

COMMAND = Path(sys.executable).parent / "quintet"


@pytest.fixture
async def asked(casconfigs, cluster, namespace):
    """A CASConfig, two Deployments and the command."""
    for name, team in (("books", "shop"), ("orders", "billing")):
        body = a_deployment(name, labels={"team": team})
        await casconfigs.create(DEPLOYMENTS, body, Object, namespace=namespace)
    policy = a_policy(
        "shipper", include={"kinds": ["Deployment"], "labels": {"team": "shop"}}, labels={"x": "y"}
    )
    await create(casconfigs, namespace, "logging", policy)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [COMMAND, "why", "--kubeconfig", str(cluster.kubeconfig), "-n", namespace, *arguments]
        return subprocess.run(argv, capture_output=True, text=True)

    return run


async def test_why_names_policy_that_selects_target(asked, namespace):
    answer = asked("logging", "Deployment/books")
    assert answer.stdout == (
        f"Deployment {namespace}/books is a target of CASConfig {namespace}/logging\n  policy shipper: matches\n"
    )
    assert answer.returncode == 0


@pytest.mark.parametrize(
    "typed",
    [("deployment/books",), ("deploy", "books"), ("Deployment", "books"), ("deployments.apps/books",)],
    ids=" ".join,
)
async def test_why_accepts_names_of_kinds_as_kubectl_does(asked, typed):
    answer = asked("casconfig/logging", *typed)
    assert (answer.returncode, "is a target of CASConfig" in answer.stdout) == (0, True), answer.stderr


async def test_why_names_criterion_that_excludes_object(asked, namespace):
    answer = asked("logging", "apps/v1/Deployment/orders")
    assert "is not a target of" in answer.stdout
    assert "  policy shipper: its label team is 'billing', not 'shop'\n" in answer.stdout
    assert answer.returncode == 1
    found = json.loads(asked("logging", "Deployment/orders", "-o", "json").stdout)
    assert (found["policies"], found["changed"]) == ([], False)
    assert found["misses"][0]["reason"] == "labels"


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("logging", "books"), "'books' names no object: write KIND NAME or KIND/NAME"),
        (("logging", "Nothing/books"), "the API server has no kind 'Nothing'"),
        (("logging", "Deployment/nobody"), "nobody"),
        (("nothing", "Deployment/books"), "nothing"),
    ],
    ids=["no kind", "an unknown kind", "no such object", "no such CASConfig"],
)
async def test_why_with_unknown_argument_reports_error_and_next_step(asked, arguments, want):
    answer = asked(*arguments)
    assert answer.returncode in (1, 2)
    assert want in answer.stderr, answer.stderr
    assert "Traceback" not in answer.stderr
