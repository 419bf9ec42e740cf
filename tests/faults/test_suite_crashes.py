"""The suite operator dies after a write of an installation, or an answer is lost.

There is one Quintet on a cluster, so that the story is told once for each fault and has many of them.
"""

import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kit.background import meanwhile
from kit.cli.quintet import COMMAND
from kit.cluster.api import Api
from kit.cluster.simulated_node import SimulatedNode
from kit.faults.proxy import DropReply, FaultProxy, KillAfterCommit, changes_state
from kit.faults.scenarios import ESSENTIAL, FAULTS, explaining, first_of_its_type, keep_running
from kit.kinds.suite import a_flavour, owned, path_of, prepared, settled, wanted
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
    """`quintet operator`, started again whenever it ends."""
    program = Program(
        str(COMMAND), "operator", "--kubeconfig", str(kubeconfig), "--system-namespace", namespace,
        "--image", "q:1", "--health-address", "127.0.0.1:0", "--no-leader-elect",
    )  # fmt: skip
    await program.start()
    try:
        async with meanwhile(keep_running(program)):
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
    """Let the operator install one controller while it meets the injected faults; all of it must be there."""
    flavour = a_flavour(namespace)
    async with (
        prepared(api, flavour) as token,
        FaultProxy(kubeconfig) as proxy,
        SimulatedNode(api, namespace=namespace).running(),
        an_operator(proxy.write_kubeconfig(scratch, token=token), namespace) as operator,
    ):
        inject(proxy, operator)
        with explaining("as the test says", proxy, operator):
            await wanted(api, controllers=["checkup"])
            await settled(client, within=1200)
            assert len(proxy.trace.writes()) > 10
            assert any(exchange.fault for exchange in proxy.trace.writes()), "no write was hit"
            made = installer(ALL, flavour)(QuintetSpec(controllers=("checkup",)), {})  # type: ignore[arg-type]
            for body in objects(made):
                assert await api.exists(path_of(body)), body["kind"]
            deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
            assert await owned(api, deployments) == ["quintet-checkup"]


@pytest.mark.parametrize("fault", ESSENTIAL, ids=lambda name: name.replace(" ", "-"))
async def test_suite_installation_completes_when_first_write_of_each_type_fails(
    fault, client: Client, api: Api, cluster, namespace, tmp_path
):
    def inject(proxy: FaultProxy, operator: Program) -> None:
        proxy.inject(FAULTS[fault](operator), when=first_of_its_type(proxy.trace), times=None)

    await install(inject, client, api, cluster.kubeconfig, namespace, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["killed after every write", "every answer is lost"])
async def test_suite_installation_completes_when_every_write_fails(
    fault, client: Client, api: Api, cluster, namespace, tmp_path
):
    def inject(proxy: FaultProxy, operator: Program) -> None:
        for number in range(1, MOST_WRITES + 1, 1 if fault.startswith("killed") else 2):
            kill = KillAfterCommit(operator.kill) if fault.startswith("killed") else DropReply()
            proxy.inject(kill, at_write=number, when=changes_state)

    await install(inject, client, api, cluster.kubeconfig, namespace, tmp_path)
