"""Quintet can be removed completely, in whatever order its parts were removed before."""

import asyncio
import itertools
import subprocess
from collections.abc import Awaitable, Callable

import pytest

from kit.cli.quintet import COMMAND
from kit.cluster.api import Api
from kit.eventually import eventually, eventually_true
from kit.install.in_process import Processes, installed_processes
from kit.kinds.jsonservers import a_jsonserver
from kit.kinds.suite import PATH, apply_quintet, wait_until_removed
from quintet.local.cluster import Cluster

pytestmark = pytest.mark.timeout(900)

SYSTEM = "quintet-system"
OPERATOR_NAME, CONTROLLER_NAME = "quintet-operator", "quintet-jsonserver"
OPERATOR = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{OPERATOR_NAME}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
SERVER = "/apis/example.com/v1/namespaces/default/jsonservers/app-books"
QUINTET = f"{PATH}/quintet"
IMAGE = "registry.example/mine/quintet:1"


async def run_quintet(
    own: Cluster, *arguments: str, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    argv = [str(COMMAND), *arguments, "--kubeconfig", str(own.kubeconfig)]
    if arguments[0] != "doctor":
        argv += ["--timeout", f"{timeout:g}"]
    return await asyncio.to_thread(subprocess.run, argv, text=True, capture_output=True, timeout=500)


async def delete(api: Api, path: str) -> None:
    if await api.exists(path):
        await api.delete(path)


async def take_controller_out(own: Cluster, api: Api, running: Processes) -> None:
    if await api.exists(QUINTET):
        await apply_quintet(api, controllers=["checkup"])
        if OPERATOR_NAME in running:
            await eventually_true(lambda: CONTROLLER_NAME not in running, within=120)


async def uninstall(own: Cluster, api: Api, running: Processes) -> None:
    done = await run_quintet(own, "uninstall")
    assert done.returncode == 0, done.stderr
    await eventually_true(lambda: not running, within=120)


async def delete_object(own: Cluster, api: Api, running: Processes) -> None:
    await delete(api, SERVER)


async def delete_quintet(own: Cluster, api: Api, running: Processes) -> None:
    if await api.exists(PATH.rpartition("/")[0]):
        await delete(api, QUINTET)
        await eventually_true(lambda: CONTROLLER_NAME not in running, within=120)


async def delete_operator(own: Cluster, api: Api, running: Processes) -> None:
    await delete(api, OPERATOR)
    await eventually_true(lambda: OPERATOR_NAME not in running, within=120)


Step = Callable[[Cluster, Api, Processes], Awaitable[None]]
STEPS: tuple[Step, ...] = (take_controller_out, uninstall, delete_object, delete_quintet, delete_operator)
ORDERS = [order for count in (0, 1, 2, 3) for order in itertools.permutations(STEPS, count)]
QUICK = [(take_controller_out, delete_object), (delete_operator, delete_object, uninstall)]


def parameters() -> list[object]:
    return [
        pytest.param(
            order,
            id=", ".join(each.__name__ for each in order) or "nothing",
            marks=() if order in QUICK else pytest.mark.exhaustive,
        )
        for order in [*QUICK, *(order for order in ORDERS if order not in QUICK)]
    ]


@pytest.fixture(autouse=True)
async def _removal_finished(bare: Api) -> None:
    await wait_until_removed(bare, SYSTEM)


async def install_with_object(own: Cluster, api: Api) -> None:
    """Install the controllers of JsonServers and Checkups, and create a JsonServer with a finalizer."""
    done = await run_quintet(
        own, "install", "--image", IMAGE, "--controllers", "jsonserver", "--controllers", "checkup"
    )
    assert done.returncode == 0, done.stderr
    await api.create(SERVER.rpartition("/")[0], a_jsonserver("app-books"))

    async def finalizer_added() -> None:
        assert (await api.get(SERVER))["metadata"].get("finalizers") == ["example.com/jsonserver"]

    await eventually(finalizer_added)


async def assert_nothing_left(api: Api) -> None:
    async def gone() -> None:
        left = [each["metadata"]["name"] for each in (await api.get(CRDS))["items"]]
        roles = [each["metadata"]["name"] for each in (await api.get(ROLES))["items"]]
        assert left + [name for name in roles if name.startswith("quintet")] == []

    await eventually(gone, within=120)


@pytest.mark.parametrize("order", parameters())
async def test_everything_can_be_deleted_after_any_other_removal(own, bare, order):
    async with installed_processes(own.kubeconfig, bare) as running:
        await install_with_object(own, bare)
        for step in order:
            await step(own, bare, running)
        done = await run_quintet(own, "uninstall", "--delete-data", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        await assert_nothing_left(bare)


async def test_uninstall_reports_objects_with_finalizers_and_keeps_the_image(own, bare):
    async with installed_processes(own.kubeconfig, bare):
        await install_with_object(own, bare)
        removed = await run_quintet(own, "uninstall")
        assert "1 of these objects have finalizers" in removed.stdout, removed.stdout + removed.stderr
        await delete(bare, SERVER)
        found = await run_quintet(own, "doctor")
        assert found.returncode == 1
        assert "no controller finishes the deletion of JsonServer default/app-books" in found.stdout
        again = await run_quintet(own, "uninstall", "--delete-data", "--yes")
        assert again.returncode == 0, again.stderr
        assert "starting controllers that finish deletions: jsonserver" in again.stderr
        assert "using image registry.example/mine/quintet:" in again.stderr
        await assert_nothing_left(bare)


async def test_delete_data_without_working_controllers_says_what_is_left_and_can_be_forced(own, bare):
    async with installed_processes(own.kubeconfig, bare) as running:
        await install_with_object(own, bare)
        await uninstall(own, bare, running)
    # Nothing runs the Deployments from here on.
    late = await run_quintet(own, "uninstall", "--delete-data", "--yes", timeout=3)
    assert late.returncode == 1
    assert "JsonServer default/app-books (finalizers example.com/jsonserver)" in late.stderr
    assert "--force" in late.stderr
    forced = await run_quintet(own, "uninstall", "--delete-data", "--yes", "--force")
    assert forced.returncode == 0, forced.stdout + forced.stderr
    await assert_nothing_left(bare)
