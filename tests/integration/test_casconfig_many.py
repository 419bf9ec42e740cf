"""A thousand targets in one config: one write each, none when all is as wanted, and memory that stays small."""

import asyncio
import logging
import re
import signal
from pathlib import Path

import msgspec
import pytest

from kit.api import Api
from kit.casconfigs import (
    CONTEXT,
    DEPLOYMENTS,
    a_deployment,
    a_policy,
    an_account,
    applied,
    create,
    edit,
    remove,
)
from kit.operators import operator_of
from kit.process import Program
from kit.proxy import FaultProxy, matching
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client

COUNT = 1000
measured = logging.getLogger("measured")  # seen with -o log_cli=true -o log_cli_level=info


async def make(client: Client, namespace: str) -> None:
    waiting = [f"web-{number}" for number in range(COUNT)]

    async def work() -> None:
        while waiting:
            body = a_deployment(waiting.pop(), labels={"many": "yes"})
            await client.create(DEPLOYMENTS, body, Object, namespace=namespace)

    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(work())


async def ledgers(client: Client, namespace: str) -> int:
    """How many Deployments hold anything of a config."""
    found = 0
    async for page in client.pages(DEPLOYMENTS, namespace=namespace, metadata_only=True):
        for raw in page.items:
            annotations = msgspec.json.decode(raw, type=Object).metadata.annotations
            found += any(key.startswith("casconfig.openebs.io/") for key in annotations)
    return found


def changed(proxy: FaultProxy) -> int:
    """How many changes of targets the server has accepted."""
    return sum(each.status == 200 for each in proxy.trace.writes(matching("patch", "deployments")))


def resident(program: Program) -> float:
    """MiB that a process has in memory."""
    text = Path(f"/proc/{program.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_a_thousand_targets_take_a_thousand_writes_and_then_none(
    casconfigs: Client, api: Api, proxy: FaultProxy, namespace, tmp_path
):
    await an_account(api, namespace)
    await make(casconfigs, namespace)
    operator = operator_of("casconfig", proxy.write_kubeconfig(tmp_path), CONTEXT, namespace)
    await operator.start()
    loop = asyncio.get_running_loop()
    try:
        policy = a_policy(envs={"LEVEL": "1"}, labels={"x": "1"})
        started = loop.time()
        key = await create(casconfigs, namespace, "many", policy, maxTargets=COUNT)
        config = await applied(casconfigs, key, COUNT, within=600)
        measured.info("%.1f seconds for %d targets", loop.time() - started, COUNT)
        await proxy.quiet(1.0)
        assert changed(proxy) == COUNT, f"{changed(proxy)} writes for {COUNT} targets"
        statuses = proxy.trace.writes(matching("patch", "casconfigs", subresource="status"))
        assert len(statuses) <= 3, [each.body for each in statuses]
        # Beside those, only what the Deployment controller was faster with: refused, read, and tried again.
        refused = [each for each in proxy.trace.writes() if each.status == 409]
        gets = [each for each in proxy.trace if each.request.verb == "get" and each.request.name]
        measured.info("%d refused because of a change in between", len(refused))
        assert len(gets) == len(refused) < COUNT / 4, f"{len(refused)} refused, {len(gets)} read"
        assert (len(config.status.targets), config.status.targets_not_listed) == (500, COUNT - 500)
        measured.info("%.1f MiB with %d targets", resident(operator), COUNT)
        assert resident(operator) < 200, f"{resident(operator):.0f} MiB"

        before = len(proxy.trace.writes())
        await casconfigs.patch(DEPLOYMENTS, ObjectKey(namespace, "web-7"), {"spec": {"paused": True}}, Object)
        await proxy.quiet(2.0)
        assert len(proxy.trace.writes()) == before, "something was written though all is as wanted"

        operator.kill()
        await operator.ended()
        await operator.start()
        await proxy.quiet(5.0)
        assert len(proxy.trace.writes()) == before, "a restart has written something"

        await edit(casconfigs, key, a_policy(envs={"LEVEL": "2"}))
        await applied(casconfigs, key, COUNT, within=600)
        assert changed(proxy) == 2 * COUNT
        await remove(casconfigs, key, within=600)
        assert changed(proxy) == 3 * COUNT
        assert await ledgers(casconfigs, namespace) == 0
    finally:
        operator.signal(signal.SIGCONT)
        operator.kill()
        await operator.ended()
