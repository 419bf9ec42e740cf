"""The commands install, upgrade and uninstall, on a separate control plane because they delete CRDs."""

import asyncio
import contextlib
import secrets
import subprocess
from collections.abc import AsyncIterator

import pytest
import yaml

from kit.background import run_in_background
from kit.cli.quintet import COMMAND
from kit.cluster.api import Api
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.kinds.suite import (
    NAMES,
    PATH,
    a_flavour,
    list_owned,
    remove,
    simulate_controllers,
    suite_operator_at,
    wait_until_removed,
)
from quintet import __version__
from quintet.apis.suite import QUINTETS
from quintet.controllers.suite.decide.installation import OWNED, key_of
from quintet.install.installer import resource_of
from quintet.local.cluster import Cluster

NAMESPACE = "quintet-system"
OPERATOR = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/quintet-operator"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVERS = "/apis/example.com/v1/namespaces/default/jsonservers"
SERVER = {
    "apiVersion": "example.com/v1",
    "kind": "JsonServer",
    "metadata": {"name": "app-kept"},
    "spec": {"jsonConfig": "{}"},
}


async def run_quintet(own: Cluster, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    argv = [str(COMMAND), *arguments, "--kubeconfig", str(own.kubeconfig), "--timeout", "300"]
    return await asyncio.to_thread(
        subprocess.run, argv, input=answer, text=True, capture_output=True, timeout=400
    )


@contextlib.asynccontextmanager
async def an_operator(own: Cluster, bare: Api, image: str = "q:1") -> AsyncIterator[None]:
    """Run the operator of the installation in this process, with a simulated node for the controllers."""
    async with (
        suite_operator_at(own.kubeconfig, a_flavour(NAMESPACE, image), __version__),
        SimulatedNode(bare, namespace=NAMESPACE).running(),
        run_in_background(simulate_controllers(bare)),
    ):
        yield


@pytest.fixture(autouse=True)
async def _removal_finished(bare: Api) -> None:
    await wait_until_removed(bare, NAMESPACE)


@pytest.fixture
def elsewhere() -> str:
    """A namespace without any installation."""
    return f"quintet-{secrets.token_hex(4)}"


async def test_install_dry_run_prints_what_install_applies(own, bare, elsewhere):
    printed = await run_quintet(own, "install", "--dry-run", "--image", "q:1", "-n", elsewhere)
    assert printed.returncode == 0, printed.stderr
    assert await bare.exists(f"/api/v1/namespaces/{elsewhere}") is False, "--dry-run changed the cluster"
    done = await run_quintet(own, "install", "--no-wait", "--image", "q:1", "-n", elsewhere)
    assert done.returncode == 0, done.stderr
    for body in yaml.safe_load_all(printed.stdout):
        resource = QUINTETS if body["kind"] == QUINTETS.kind else resource_of(body)
        path = resource.path(key_of(body).namespace, key_of(body).name)
        assert await bare.exists(path), path
    deployment = await bare.get(OPERATOR.replace(NAMESPACE, elsewhere))
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"][0] == "operator"


@pytest.mark.parametrize("verb", ["install", "upgrade"])
async def test_omitted_image_keeps_registry_of_installed_image(own, bare, verb):
    there = "registry.example:5000/mine/quintet"
    assert (await run_quintet(own, "install", "--no-wait", "--image", f"{there}:0.0.1")).returncode == 0
    again = await run_quintet(own, verb, "--no-wait")
    assert again.returncode == 0, again.stderr
    (container,) = (await bare.get(OPERATOR))["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{there}:{__version__}"
    assert f"using image {there}:{__version__}" in again.stderr


@pytest.mark.timeout(900)
async def test_install_upgrade_and_uninstall_work_in_sequence(own, bare):
    assert (await run_quintet(own, "install", "--no-wait", "--image", "q:1")).returncode == 0
    async with an_operator(own, bare):
        again = await run_quintet(own, "install", "--image", "q:1")
        assert again.returncode == 0, again.stderr
        assert f"Quintet {__version__} is installed in {NAMESPACE}" in again.stdout
        lines = again.stderr.splitlines()
        assert {"operator: ready", *(f"{name}: ready" for name in NAMES)} <= set(lines), again.stderr
        assert len(lines) < 30, "one line for each change, not for each object"
        waited = await run_quintet(own, "wait")
        assert "controllers are ready" in waited.stdout, waited.stderr
        if not await bare.exists(f"{SERVERS}/app-kept"):
            await bare.create(SERVERS, SERVER)
        changed = await run_quintet(own, "upgrade", "--image", "q:1", "--controllers", "jsonserver")
        assert changed.returncode == 0, changed.stderr
        assert f"The version before was {__version__}." in changed.stdout
        assert (await bare.get(f"{PATH}/quintet"))["spec"]["controllers"] == ["jsonserver"]
        gone = await run_quintet(own, "uninstall")
        assert gone.returncode == 0, gone.stderr
        assert "JsonServer default/app-kept" in gone.stderr
        assert "1 object of users" in gone.stdout
    assert await bare.exists(f"{SERVERS}/app-kept")
    assert not await bare.exists(OPERATOR)
    assert not await bare.exists("/apis/rbac.authorization.k8s.io/v1/clusterroles/quintet-operator")

    async def assert_nothing() -> None:
        left = {resource.plural: await list_owned(bare, resource.path(NAMESPACE)) for resource in OWNED}
        assert not any(left.values()), left

    await eventually(assert_nothing, within=120)


@pytest.mark.timeout(900)
async def test_uninstall_deletes_data_only_after_confirmation(own, bare):
    assert (await run_quintet(own, "install", "--no-wait", "--image", "q:1")).returncode == 0
    async with an_operator(own, bare):
        assert (await run_quintet(own, "install", "--image", "q:1")).returncode == 0
        if not await bare.exists(f"{SERVERS}/app-kept"):
            await bare.create(SERVERS, SERVER)
        tried = await run_quintet(own, "uninstall", "--delete-data", "--dry-run")
        assert "These objects of users will be deleted" in tried.stderr
        assert "would delete Namespace quintet-system" in tried.stdout
        refused = await run_quintet(own, "uninstall", "--delete-data", answer="n\n")
        assert refused.returncode != 0
        assert await bare.exists(f"{SERVERS}/app-kept")
        assert await bare.exists(f"{PATH}/quintet")
        done = await run_quintet(own, "uninstall", "--delete-data", "--yes")
        assert done.returncode == 0, done.stderr
    left = await bare.get(CRDS)
    assert [
        each["metadata"]["name"] for each in left["items"] if "deletionTimestamp" not in each["metadata"]
    ] == []


async def test_incompatible_crd_stops_install_before_any_change(own, bare, elsewhere):
    printed = await run_quintet(own, "install", "--dry-run")
    kinds = [body["kind"] for body in yaml.safe_load_all(printed.stdout)]
    assert "Deployment" in kinds
    from quintet.apis.checkup import CHECKUP
    from quintet.manifests.crd import custom_resource_definition

    body = custom_resource_definition(CHECKUP)
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["ofALaterVersion"] = {"type": "string"}
    schema["properties"]["spec"]["properties"]["image"]["maxLength"] = 10
    name = body["metadata"]["name"]

    await bare.apply(f"{CRDS}/{name}", body, manager="later", force=True)
    refused = await run_quintet(own, "install", "--no-wait", "-n", elsewhere)
    assert refused.returncode == 1
    assert "spec.ofALaterVersion: the field is removed" in refused.stderr
    assert not await bare.exists(f"/api/v1/namespaces/{elsewhere}")
    await bare.delete(f"{CRDS}/{name}")


async def test_crds_of_a_later_version_stay_when_an_earlier_one_is_installed(own, bare, elsewhere):
    from quintet.apis.suite import QUINTET
    from quintet.manifests.crd import custom_resource_definition

    body = custom_resource_definition(QUINTET)
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["status"]["properties"]["ofALaterVersion"] = {"type": "string"}
    path = f"{CRDS}/{body['metadata']['name']}"
    await bare.apply(path, body, manager="later", force=True)
    before = (await bare.get(path))["spec"]
    done = await run_quintet(own, "install", "--no-wait", "-n", elsewhere)
    assert done.returncode == 0, done.stderr
    assert "this version ignores versions[v1alpha1].schema.status.ofALaterVersion" in done.stderr
    assert (await bare.get(path))["spec"] == before


async def test_upgrade_without_installation_reports_next_step(own, bare):
    await remove(bare, f"{PATH}/quintet")
    refused = await run_quintet(own, "upgrade")
    assert refused.returncode == 1
    assert "next: quintet install" in refused.stderr
