"""The suite operator dies after every single write of an installation, or loses every answer."""

import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.api import Api
from kit.crashes import keep_running
from kit.kubelet import PretendedNode
from kit.meanwhile import meanwhile
from kit.process import Program
from kit.proxy import DropReply, FaultProxy, KillAfterCommit, changes_state
from kit.quintet import COMMAND
from kit.suite import a_flavour, owned, path_of, prepared, settled, wanted
from quintet.apis.suite import QuintetSpec
from quintet.components import COMPONENTS
from quintet.kube.client import Client
from quintet.manifests.installation import installer, objects

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
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


@pytest.mark.parametrize("fault", ["killed after every write", "every answer is lost"])
async def test_an_installation_is_complete_whatever_happens_to_its_writes(
    fault, client: Client, api: Api, cluster, namespace, tmp_path
):
    flavour = a_flavour(namespace)
    async with (
        prepared(api, flavour) as token,
        FaultProxy(cluster.kubeconfig) as proxy,
        PretendedNode(api, namespace=namespace).running(),
        an_operator(proxy.write_kubeconfig(tmp_path, token=token), namespace) as operator,
    ):
        for number in range(1, MOST_WRITES + 1, 1 if fault.startswith("killed") else 2):
            kill = KillAfterCommit(operator.kill) if fault.startswith("killed") else DropReply()
            proxy.inject(kill, at_write=number, when=changes_state)
        await wanted(api, controllers=["checkup"])
        await settled(client, within=1200)
        assert len(proxy.trace.writes()) > 10, f"\n{proxy.trace}"
        made = installer(ALL, flavour)(QuintetSpec(controllers=("checkup",)), {})  # type: ignore[arg-type]
        for body in objects(made):
            assert await api.exists(path_of(body)), body["kind"]
        deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        assert await owned(api, deployments) == ["quintet-checkup"]
