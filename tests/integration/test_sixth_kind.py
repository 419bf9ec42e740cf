"""A sixth kind works everywhere by its own folder (`tests/sixth_kind`) and one registration."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kit.cli.quintet import apply, free_port
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.cluster.service_accounts import DEVELOPER, TESTED, add_contexts, create_token
from kit.eventually import eventually
from kit.process import Program
from quintet.local.api import Api as LocalApi
from quintet.local.cluster import Cluster

ROOT = Path(__file__).parents[2]
PRODUCT = ("src", "config", "charts", "bundle", "catalog", "pyproject.toml")
ENVIRONMENT = {"PYTHONPATH": str(ROOT / "tests")}
ACCOUNT = TESTED.part.format("greeting")
GREETINGS = "/apis/samples.quintet.dev/v1/namespaces/{}/greetings"
CONFIG_MAP = "/api/v1/namespaces/{}/configmaps/{}"


def quintet(cluster: Cluster, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command `quintet` with the sixth kind registered."""
    command = [sys.executable, "-m", "sixth_kind", *arguments]
    environment = {**os.environ, **ENVIRONMENT, "KUBECONFIG": str(cluster.kubeconfig)}
    return subprocess.run(
        command, env=environment, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


def output_of(cluster: Cluster, *arguments: str) -> str:
    done = quintet(cluster, *arguments)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def a_greeting(name: str, **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "samples.quintet.dev/v1", "kind": "Greeting", "metadata": {"name": name}}
    return {**body, "spec": {"person": "world", **spec}}


@pytest.fixture(scope="module")
async def installed(own: Cluster) -> AsyncIterator[Cluster]:
    """The CRD, the ServiceAccount and the roles that the installer generates, and the running controller."""
    bodies = _installed_objects()
    crds = [body for body in bodies if body["kind"] == "CustomResourceDefinition"]
    assert any(body["metadata"]["name"] == "greetings.samples.quintet.dev" for body in crds)
    identity = [body for body in bodies if body["kind"] in ("ServiceAccount", *ROLES)]
    for body in (*crds, *identity, _developer()):
        done = own.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(body))
        assert done.returncode == 0, done.stderr
    config = json.loads(own.kubeconfig.read_text())
    add_contexts(
        config, {ACCOUNT: create_token(LocalApi(own.directory, own.port), TESTED.namespace, ACCOUNT)}
    )
    own.kubeconfig.write_text(json.dumps(config))
    health = free_port()
    program = Program(
        sys.executable, "-m", "sixth_kind", "run", "--kubeconfig", str(own.kubeconfig), "--context", ACCOUNT,
        "--controllers", "greeting", "--webhooks", "url", "--webhook-port", str(free_port()),
        "--health-address", f"127.0.0.1:{health}", environment=ENVIRONMENT,
    )  # fmt: skip
    await program.start()

    async def serves() -> None:
        assert program.running, "\n".join(program.log)
        assert any("Caches synced" in line for line in program.log), "\n".join(program.log)
        # The webhook answers once the API server has read its configuration.
        done = apply_dry_run(own, a_greeting("probe", person=" probe"))
        assert "must not begin or end with a space" in done.stderr, done.stderr

    try:
        await eventually(serves, within=60)
        yield own
    finally:
        program.signal(signal.SIGTERM)
        await program.ended()


def _installed_objects() -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "sixth_kind.objects"]
    environment = {**os.environ, **ENVIRONMENT}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(printed.stdout)
    return found


ROLES = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def _developer() -> dict[str, Any]:
    """Let the controller register webhooks by URL, which an installation in the cluster does not need."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{ACCOUNT}-developer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": DEVELOPER},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": TESTED.namespace}],
    }


def apply_dry_run(cluster: Cluster, body: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(body))


async def _ready(api: Api, namespace: str, name: str, text: str) -> None:
    async def probe() -> None:
        found = await api.get(f"{GREETINGS.format(namespace)}/{name}")
        ready = [each["status"] for each in found.get("status", {}).get("conditions", ())]
        assert (found["status"]["text"], ready) == (text, ["True"]), found
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]

    await eventually(probe, within=30)


@pytest.fixture
async def greeting(installed: Cluster, bare: Api) -> AsyncIterator[str]:
    """The namespace of the Greeting `hello`, which is ready."""
    async with fresh_namespace(bare) as namespace:
        done = apply(installed, namespace, a_greeting("hello"))
        assert done.returncode == 0, done.stderr
        await _ready(bare, namespace, "hello", "Hello world")
        yield namespace


async def test_webhook_sets_defaults_and_crd_enforces_schema(greeting, installed, bare):
    found = await bare.get(f"{GREETINGS.format(greeting)}/hello")
    assert found["metadata"]["finalizers"] == ["samples.quintet.dev/greeting"]
    assert found["spec"]["language"] == "English"
    done = apply(installed, greeting, a_greeting("other", language="Latin"))
    assert 'Unsupported value: "Latin"' in done.stderr


async def test_webhook_rejects_invalid_greeting_and_warns(greeting, installed):
    done = apply(installed, greeting, a_greeting("other", person=" world"))
    assert 'spec.person: Invalid value: " world": must not begin or end with a space' in done.stderr
    done = apply(installed, greeting, a_greeting("other", person="everybody"))
    assert "Warning: spec.person: everybody is a large audience" in done.stderr


async def test_controller_applies_changed_spec_and_repairs_drift(greeting, installed, bare):
    path = CONFIG_MAP.format(greeting, "hello")
    assert (await bare.get(path))["data"] == {"greeting": "Hello world"}
    apply(installed, greeting, a_greeting("hello", language="French"))
    await _ready(bare, greeting, "hello", "Bonjour world")
    await bare.merge(path, {"data": {"greeting": "changed"}})

    async def repaired() -> None:
        assert (await bare.get(path))["data"] == {"greeting": "Bonjour world"}

    await eventually(repaired, within=30)
    await bare.delete(path)
    await eventually(repaired, within=30)


async def test_deleted_greeting_and_its_config_map_are_removed(greeting, installed, bare):
    done = installed.kubectl("delete", "greeting", "hello", "-n", greeting, "--timeout=30s")
    assert done.returncode == 0, done.stderr
    assert not await bare.exists(CONFIG_MAP.format(greeting, "hello"))


async def test_inspect_commands_show_the_greeting(greeting, installed):
    assert "hello" in output_of(installed, "status", "gr", "-n", greeting)
    assert "ConfigMapApplied" in output_of(installed, "status", "greeting/hello", "-n", greeting)
    assert output_of(installed, "tree", "greeting", "hello", "-n", greeting).splitlines() == [
        "Greeting hello  ready (ConfigMapApplied)",
        "└── ConfigMap hello",
    ]
    explained = output_of(installed, "explain", "greeting/hello", "-n", greeting)
    assert explained.startswith(f"Greeting {greeting}/hello: ready (ConfigMapApplied)")


async def test_new_prints_starter_manifest_that_validates_and_previews(installed, tmp_path):
    printed = output_of(installed, "new", "greeting", "good-morning")
    assert "name: good-morning" in printed
    file = tmp_path / "greeting.yaml"
    file.write_text(printed)
    assert quintet(installed, "validate", "-f", str(file)).returncode == 0
    assert "Hello world" in output_of(installed, "preview", "-f", str(file))
    file.write_text(printed.replace("person: world", "person: ' world'"))
    done = quintet(installed, "validate", "-f", str(file))
    assert (done.returncode, "must not begin or end with a space" in done.stdout) == (1, True)


async def test_installation_offers_the_greeting_controller(installed):
    assert "greeting" in quintet(installed, "install", "--help").stdout
    dry_run = output_of(installed, "install", "--dry-run", "--controllers", "greeting")
    assert "greetings/status" in dry_run, "the operator may grant the controller's permissions"


def test_product_does_not_mention_the_sixth_kind():
    command = ["git", "grep", "-liE", "greetings|sixth_kind", "--", *PRODUCT]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout == ""
    registration = (ROOT / "tests/sixth_kind/__main__.py").read_text()
    assert registration.count("kinds.register(") == 1
