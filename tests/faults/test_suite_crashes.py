"""The suite operator is killed after a write of an installation, or a response is lost.

A cluster has one Quintet, so each fault runs the scenario once with many hits.
"""

import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kit.background import run_in_background
from kit.cli.quintet import COMMAND
from kit.cluster.api import Api
from kit.cluster.simulated_node import SimulatedNode
from kit.faults.proxy import DropReply, FaultProxy, KillAfterCommit, changes_state
from kit.faults.scenarios import ESSENTIAL, FAULTS, add_diagnostics, first_of_its_type, keep_running
from kit.kinds.suite import (
    a_flavour,
    apply_quintet,
    installed_operator,
    list_owned,
    path_of,
    wait_until_settled,
)
from kit.process import Program
from quintet.apis.suite import QuintetSpec
from quintet.components import COMPONENTS
from quintet.kube.client import Client
from quintet.manifests.installation import installer, objects

pytestmark = pytest.mark.timeout(1800)
ALL = tuple(COMPONENTS.values())
MOST_WRITES = 80


@contextlib.asynccontextmanager
async def an_operator(kubeconfig: Path, namespace: str) -> AsyncIterator[Program]:
    """Run `quintet operator` and restart it whenever it ends."""
    program = Program(
        str(COMMAND), "operator", "--kubeconfig", str(kubeconfig), "--system-namespace", namespace,
        "--image", "q:1", "--health-address", "127.0.0.1:0", "--no-leader-elect",
    )  # fmt: skip
    await program.start()
    try:
        async with run_in_background(keep_running(program)):
            yield program
    finally:
        program.signal(signal.SIGCONT)
        program.kill()
        await program.ended()


async def install(
    inject: Callable[[FaultProxy, Program], None],
    client: Client,
    api: Api,
    kubeconfig: Path,
    namespace: str,
    scratch: Path,
) -> None:
    """Let the operator install one controller while faults are injected, and assert that it is complete."""
    flavour = a_flavour(namespace)
    async with (
        installed_operator(api, flavour) as token,
        FaultProxy(kubeconfig) as proxy,
        SimulatedNode(api, namespace=namespace).running(),
        an_operator(proxy.write_kubeconfig(scratch, token=token), namespace) as operator,
    ):
        inject(proxy, operator)
        with add_diagnostics("as the test says", proxy, operator):
            await apply_quintet(api, controllers=["checkup"])
            await wait_until_settled(client, within=1200)
            assert len(proxy.trace.writes()) > 10
            assert any(exchange.fault for exchange in proxy.trace.writes()), "no write was hit"
            made = installer(ALL, flavour)(QuintetSpec(controllers=("checkup",)), {})  # type: ignore[arg-type]
            for body in objects(made):
                assert await api.exists(path_of(body)), body["kind"]
            deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
            assert await list_owned(api, deployments) == ["quintet-checkup"]


@pytest.mark.parametrize("fault", ESSENTIAL, ids=lambda name: name.replace(" ", "-"))
async def test_suite_installation_completes_when_first_write_of_each_type_fails(
    fault, client: Client, api: Api, cluster, namespace, tmp_path
):
    def inject(proxy: FaultProxy, operator: Program) -> None:
        proxy.inject(FAULTS[fault](operator), when=first_of_its_type(proxy.trace), times=None)

    await install(inject, client, api, cluster.kubeconfig, namespace, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["killed after every write", "every response lost"])
async def test_suite_installation_completes_when_every_write_fails(
    fault, client: Client, api: Api, cluster, namespace, tmp_path
):
    def inject(proxy: FaultProxy, operator: Program) -> None:
        for number in range(1, MOST_WRITES + 1, 1 if fault.startswith("killed") else 2):
            kill = KillAfterCommit(operator.kill) if fault.startswith("killed") else DropReply()
            proxy.inject(kill, at_write=number, when=changes_state)

    await install(inject, client, api, cluster.kubeconfig, namespace, tmp_path)
