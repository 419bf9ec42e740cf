"""What the documents say about backends is what the code says."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from quintet.admission.eventingbackend import NAMESPACE_LABEL
from quintet.apis.eventingbackend import CATALOG, FaultType
from quintet.apis.eventingbackend.discovery import DiscoveryRequest, respond
from quintet.apis.eventingbackend.readiness import INVALID_CONFIG, REASONS
from quintet.cli.main import quintet
from quintet.controllers.eventingbackend.decide.probe_result import Reason
from quintet.controllers.eventingbackend.drivers.secrets import ROLE
from quintet.eventing.discovery import GET_RATE, WHAT_IF_RATE
from quintet.manifests.catalog import catalog_page

ROOT = Path(__file__).parent.parent.parent.parent
GUIDE = (ROOT / "docs/eventingbackend.md").read_text()
EXAMPLE = ROOT / "examples/02-eventingbackend"
# Which rows the table of a type has in the page of the catalog.
ROW = re.compile(r"^\| `([A-Za-z]+)` \|", re.MULTILINE)


@pytest.mark.parametrize("reason", [*Reason, INVALID_CONFIG, *REASONS.values()])
def test_every_reason_is_documented(reason):
    assert f"`{reason}`" in GUIDE


@pytest.mark.parametrize("fault", FaultType)
def test_every_error_type_is_documented(fault):
    assert f"| `{fault}` |" in GUIDE


def test_every_type_and_key_is_documented():
    assert all(f"| `{name}` |" in GUIDE for name in CATALOG)
    names = [key.name for backend in CATALOG.values() for key in backend.keys]
    assert ROW.findall(catalog_page()) == names


def test_documented_names_and_limits_match_the_code():
    assert f"{NAMESPACE_LABEL}=Reject" in GUIDE
    assert f"--clusterrole={ROLE}" in GUIDE
    assert f"{GET_RATE.per_second:,.0f} reads and {WHAT_IF_RATE.per_second:.0f} what-ifs a second" in GUIDE


def test_the_warnings_that_are_shown_are_those_of_the_example():
    answer = CliRunner().invoke(quintet, ["validate", "-f", str(EXAMPLE / "invalid.yaml")])
    assert answer.exit_code == 1
    shown = re.findall(r"^Warning: (.*)$", GUIDE, re.MULTILINE)
    assert [line.partition("default/any: ")[2] for line in answer.stdout.splitlines()] == shown


def test_documented_example_is_valid():
    answer = CliRunner().invoke(quintet, ["validate", "-f", str(EXAMPLE / "backends.yaml")])
    assert (answer.exit_code, answer.stderr) == (0, "2 objects checked, 0 errors\n")


def test_documented_what_if_matches_the_response():
    shown = re.search(r"^\{\"type\":\"nats\".*(?= …$)", GUIDE, re.MULTILINE)
    body = json.dumps([{"streamReplicas": 9}]).encode()
    reply = respond(DiscoveryRequest(method="POST", path="/backend/nats/validate", body=body))
    assert shown is not None
    assert reply.body.decode().startswith(shown[0].strip())


def test_every_key_sample_contains_every_key():
    text = (ROOT / "config/samples/eventingbackend-every-key.yaml").read_text()
    for sample in yaml.safe_load_all(text):
        written = [name for entry in sample["spec"]["config"] for name in entry]
        assert written == [key.name for key in CATALOG[sample["spec"]["type"]].keys]
