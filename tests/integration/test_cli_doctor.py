"""`quintet doctor` before and after an installation, on a separate control plane."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.background import run_in_background
from kit.cli.quintet import COMMAND, with_webhooks
from kit.cluster.api import Api, RefusedError
from kit.cluster.control_plane import wait_for_crds
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.kinds.suite import NAMES, a_flavour, simulate_controllers, suite_operator_at, wait_until_removed
from quintet import __version__
from quintet.apis.suite import QUINTET
from quintet.local.cluster import Cluster
from quintet.manifests.crd import custom_resource_definition

NAMESPACE = "quintet-system"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
Checks = dict[tuple[str, str], dict[str, Any]]


async def quintet(*arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [str(COMMAND), *map(str, arguments)]
    return await asyncio.to_thread(subprocess.run, argv, text=True, capture_output=True, timeout=500)


async def doctor(*arguments: object) -> tuple[int, Checks]:
    """The exit code, and the worst of each check by group and name."""
    answer = await quintet("doctor", "-o", "json", *arguments)
    assert not answer.stderr, answer.stderr
    found: Checks = {}
    order = ["ok", "unknown", "warning", "failed"]
    for each in json.loads(answer.stdout)["checks"]:
        key = each["group"], each["check"]
        if key not in found or order.index(each["status"]) > order.index(found[key]["status"]):
            found[key] = each
    return answer.returncode, found


def failed(checks: Checks) -> list[tuple[str, str]]:
    return [key for key, each in checks.items() if each["status"] == "failed"]


@pytest.fixture(autouse=True)
async def _removal_finished(bare: Api) -> None:
    await wait_until_removed(bare, NAMESPACE)


@contextlib.asynccontextmanager
async def there(bare: Api, folder: str, body: dict[str, Any]) -> AsyncIterator[None]:
    """An object for a while; it is gone afterwards."""
    path = f"{folder}/{body['metadata']['name']}"
    await bare.create(folder, body)
    try:
        yield
    finally:
        await bare.delete(path)

        async def gone() -> None:
            assert not await bare.exists(path), path

        await eventually(gone, within=120)


async def test_doctor_pre_on_empty_cluster_passes_and_writes_nothing(own, bare):
    answer = await quintet("doctor", "--pre", "--kubeconfig", own.kubeconfig)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[-1] == "Quintet can be installed"
    groups = [line for line in lines[:-1] if not line.startswith(" ")]
    assert groups == [
        "configuration",
        "server",
        "identity",
        "permissions",
        "server",
        "permissions",
        "cluster",
    ]
    assert not await bare.exists(f"/api/v1/namespaces/{NAMESPACE}")
    assert not await bare.exists(f"{ROLES}/quintet-operator")


async def test_doctor_without_installation_names_the_install_command(own):
    code, checks = await doctor("--kubeconfig", own.kubeconfig)

    assert (code, failed(checks)) == (1, [("installation", "quintet")])
    assert checks["installation", "quintet"]["next"] == "quintet install"


async def test_doctor_pre_fails_for_user_who_cannot_grant_permissions(own, bare):
    rules = [
        {"apiGroups": [group], "resources": ["*"], "verbs": ["create", "patch", "get", "list"]}
        for group in ("", "apps", "policy", "networking.k8s.io", "apiextensions.k8s.io", "quintet.dev",
                      "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiregistration.k8s.io")
    ]  # fmt: skip
    role = {"metadata": {"name": "doctor-carol"}, "rules": rules}
    binding = {
        "metadata": {"name": "doctor-carol"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "doctor-carol"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol"}],
    }
    async with there(bare, ROLES, role), there(bare, BINDINGS, binding):

        async def refused() -> Checks:
            code, checks = await doctor("--pre", "--kubeconfig", own.client_kubeconfig("carol"))
            assert (code, failed(checks)) == (1, [("permissions", "grant")]), checks
            return checks

        checks = await eventually(refused, within=60)
    assert "ClusterRole quintet-operator" in checks["permissions", "grant"]["message"]


async def test_doctor_pre_fails_for_user_who_cannot_create_crds(own):
    code, checks = await doctor("--pre", "--kubeconfig", own.client_kubeconfig("dave"))

    assert (code, failed(checks)) == (1, [("permissions", "access")])


async def test_doctor_pre_fails_for_foreign_role_with_our_name(own, bare):
    async with there(bare, ROLES, {"metadata": {"name": "quintet-operator"}, "rules": []}):
        code, checks = await doctor("--pre", "--kubeconfig", own.kubeconfig)

    assert (code, failed(checks)) == (1, [("cluster", "names")])
    assert "ClusterRole quintet-operator" in checks["cluster", "names"]["message"]


async def test_doctor_pre_fails_for_foreign_crd(own, bare):
    body = custom_resource_definition(QUINTET)
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = schema["properties"]["spec"]["properties"]
    fields["theirs"] = fields.pop("controllers")
    async with there(bare, CRDS, body):
        code, checks = await doctor("--pre", "--kubeconfig", own.kubeconfig)

    assert (code, failed(checks)) == (1, [("cluster", "definitions")])
    assert "spec.theirs" in checks["cluster", "definitions"]["message"]


async def test_doctor_pre_warns_about_crd_with_more_fields(own, bare):
    body = custom_resource_definition(QUINTET)
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["theirs"] = {"type": "string"}
    async with there(bare, CRDS, body):
        code, checks = await doctor("--pre", "--kubeconfig", own.kubeconfig)

    assert (code, failed(checks)) == (0, [])
    assert checks["cluster", "definitions"]["status"] == "warning"
    assert "spec.theirs" in checks["cluster", "definitions"]["message"]


async def test_doctor_pre_fails_for_operator_in_another_namespace(own, bare):
    labels = {"app.kubernetes.io/name": "quintet-operator", "app.kubernetes.io/part-of": "quintet"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    body = {"metadata": {"name": "quintet-operator", "labels": labels}, "spec": spec}
    async with there(bare, "/apis/apps/v1/namespaces/default/deployments", body):
        code, checks = await doctor("--pre", "--kubeconfig", own.kubeconfig)

    assert (code, failed(checks)) == (1, [("cluster", "installation")])
    assert "default/quintet-operator" in checks["cluster", "installation"]["message"]


async def test_doctor_pre_fails_for_namespace_that_rejects_our_pods(own, bare):
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    async with there(bare, "/api/v1/namespaces", {"metadata": {"name": "full"}}):
        await bare.create("/api/v1/namespaces/full/resourcequotas", quota)

        async def refused() -> Checks:
            code, checks = await doctor(
                "--pre", "--operator-namespace", "full", "--kubeconfig", own.kubeconfig
            )
            assert (code, failed(checks)) == (1, [("cluster", "namespace")]), checks
            return checks

        checks = await eventually(refused, within=60)
    assert "quota" in checks["cluster", "namespace"]["message"]


@pytest.mark.timeout(900)
async def test_doctor_passes_for_working_installation_and_reports_removed_parts(own, bare):
    done = await quintet("install", "--no-wait", "--image", "q:1", "--kubeconfig", own.kubeconfig)
    assert done.returncode == 0, done.stderr
    async with (
        suite_operator_at(own.kubeconfig, a_flavour(NAMESPACE, "q:1"), __version__),
        SimulatedNode(bare, namespace=NAMESPACE).running(),
        run_in_background(simulate_controllers(bare)),
    ):
        waited = await quintet("wait", "--timeout", "400", "--kubeconfig", own.kubeconfig)
        assert waited.returncode == 0, waited.stderr
        await wait_for_crds(own)

        code, checks = await doctor("--kubeconfig", own.kubeconfig)
        assert (code, failed(checks)) == (1, [("webhooks", "registered")]), checks
        assert "no webhook is registered for" in checks["webhooks", "registered"]["message"]

        async with with_webhooks(own.kubeconfig, *NAMES):

            async def well() -> Checks:
                code, checks = await doctor("--kubeconfig", own.kubeconfig)
                assert (code, failed(checks)) == (0, []), checks
                return checks

            checks = await eventually(well, within=120)
            assert {each["status"] for each in checks.values()} == {"ok"}, checks
            await _check_removed_parts_are_reported(own, bare)
        code, checks = await doctor("--pre", "--kubeconfig", own.kubeconfig)
        assert (code, failed(checks)) == (0, []), checks
        assert f"Quintet {__version__} is already installed" in checks["cluster", "installation"]["message"]
        # The other tests are about a cluster without it, and may come later.
        gone = await quintet("uninstall", "--delete-data", "--yes", "--kubeconfig", own.kubeconfig)
        assert gone.returncode == 0, gone.stderr


async def _check_removed_parts_are_reported(own: Cluster, bare: Api) -> None:
    """A webhook that nobody answers: the certificate of the API server's side is another one."""
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    stray = await bare.get(f"{hooks}/quintet-local")
    (chosen,) = [hook for hook in stray["webhooks"] if "jsonservers" in hook["rules"][0]["resources"]]
    chosen["clientConfig"]["url"] = "https://127.0.0.1:1/"
    body = {"metadata": {"name": "stray", "labels": stray["metadata"]["labels"]}, "webhooks": [chosen]}
    async with there(bare, hooks, body):

        async def missed() -> None:
            code, checks = await doctor("--kubeconfig", own.kubeconfig)
            assert (code, failed(checks)) == (1, [("webhooks", "answers")]), checks
            assert "jsonservers.example.com" in checks["webhooks", "answers"]["message"]

        await eventually(missed, within=60)
    with contextlib.suppress(RefusedError):
        await bare.delete(f"{hooks}/stray")
