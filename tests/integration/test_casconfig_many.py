"""Many targets in one CASConfig: one write each, no write when nothing changes, and little memory."""

import asyncio
import logging
import re
import signal
from pathlib import Path

import msgspec
import pytest

from kit.cluster.api import Api
from kit.eventually import eventually
from kit.faults.operators import operator_of
from kit.faults.proxy import FaultProxy, matching
from kit.kinds.casconfigs import (
    CONTEXT,
    DEPLOYMENTS,
    a_deployment,
    a_policy,
    create,
    create_service_account,
    delete_and_wait,
    edit,
    wait_until_applied,
)
from kit.process import Program
from quintet.apis.casconfig.types import MOST_LISTED
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client

measured = logging.getLogger("measured")  # seen with -o log_cli=true -o log_cli_level=info


async def create_deployments(client: Client, namespace: str, count: int) -> None:
    waiting = [f"web-{number}" for number in range(count)]

    async def work() -> None:
        while waiting:
            body = a_deployment(waiting.pop(), labels={"many": "yes"})
            await client.create(DEPLOYMENTS, body, Object, namespace=namespace)

    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(work())
    await eventually(lambda: assert_observed(client, namespace), within=300)


async def assert_observed(client: Client, namespace: str) -> None:
    """Assert that the Deployment controller has observed all new Deployments."""
    async for page in client.pages(DEPLOYMENTS, namespace=namespace):
        for raw in page.items:
            found = msgspec.json.decode(raw)
            assert found.get("status", {}).get("observedGeneration"), found["metadata"]["name"]


async def count_ledgers(client: Client, namespace: str) -> int:
    """Return the number of Deployments with a ledger annotation."""
    found = 0
    async for page in client.pages(DEPLOYMENTS, namespace=namespace, metadata_only=True):
        for raw in page.items:
            annotations = msgspec.json.decode(raw, type=Object).metadata.annotations
            found += any(key.startswith("casconfig.openebs.io/") for key in annotations)
    return found


def count_changes(proxy: FaultProxy) -> int:
    """Return the number of accepted changes to targets."""
    return sum(each.status == 200 for each in proxy.trace.writes(matching("patch", "deployments")))


def resident_mib(program: Program) -> float:
    """Return the resident memory of a process in MiB."""
    text = Path(f"/proc/{program.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.exhaustive])])
async def test_many_targets_need_one_write_each_and_none_afterwards(
    count, casconfigs: Client, api: Api, proxy: FaultProxy, namespace, tmp_path
):
    await create_service_account(api, namespace)
    await create_deployments(casconfigs, namespace, count)
    operator = operator_of("casconfig", proxy.write_kubeconfig(tmp_path), CONTEXT, namespace)
    await operator.start()
    loop = asyncio.get_running_loop()
    try:
        policy = a_policy(envs={"LEVEL": "1"}, labels={"x": "1"})
        started = loop.time()
        key = await create(casconfigs, namespace, "many", policy, maxTargets=count)
        config = await wait_until_applied(casconfigs, key, count, within=600)
        measured.info("%.1f seconds for %d targets", loop.time() - started, count)
        await proxy.quiet(1.0)
        assert count_changes(proxy) == count, f"{count_changes(proxy)} writes for {count} targets"
        statuses = proxy.trace.writes(matching("patch", "casconfigs", subresource="status"))
        assert len(statuses) <= 3, [each.body for each in statuses]
        # Additional requests are only conflicts with the Deployment controller: rejected, read and retried.
        refused = [each for each in proxy.trace.writes() if each.status == 409]
        gets = [each for each in proxy.trace if each.request.verb == "get" and each.request.name]
        measured.info("%d refused because of a change in between", len(refused))
        assert len(gets) == len(refused) < count / 4, f"{len(refused)} refused, {len(gets)} read"
        listed = min(count, MOST_LISTED)
        assert (len(config.status.targets), config.status.targets_not_listed) == (listed, count - listed)
        measured.info("%.1f MiB with %d targets", resident_mib(operator), count)
        assert resident_mib(operator) < 200, f"{resident_mib(operator):.0f} MiB"

        before = len(proxy.trace.writes())
        await casconfigs.patch(DEPLOYMENTS, ObjectKey(namespace, "web-7"), {"spec": {"paused": True}}, Object)
        await proxy.quiet(1.0)
        assert len(proxy.trace.writes()) == before, "writes without a change"

        operator.kill()
        await operator.ended()
        mark = proxy.trace.mark()
        await operator.start()
        await proxy.wait_for(matching("watch", "deployments"), since=mark)
        await proxy.quiet(2.0)
        assert len(proxy.trace.writes()) == before, "writes after a restart"

        await edit(casconfigs, key, a_policy(envs={"LEVEL": "2"}))
        await wait_until_applied(casconfigs, key, count, within=600)
        assert count_changes(proxy) == 2 * count
        await delete_and_wait(casconfigs, key, within=600)
        assert count_changes(proxy) == 3 * count
        assert await count_ledgers(casconfigs, namespace) == 0
    finally:
        operator.signal(signal.SIGCONT)
        operator.kill()
        await operator.ended()
