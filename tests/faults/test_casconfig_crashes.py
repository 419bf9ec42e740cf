"""The operator is killed or a response is lost at any write in the life of a CASConfig.

Whichever write is hit, every step ends with all targets changed or all unchanged, never with some of them.
`kit.faults.scenarios` defines which writes are hit.
"""

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kit.background import run_in_background
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.faults.operators import operator_of
from kit.faults.proxy import FaultProxy
from kit.faults.scenarios import (
    ESSENTIAL,
    KILLED_AFTER,
    KILLED_BEFORE,
    PATIENCE,
    RESPONSE_LOST,
    UNAVAILABLE,
    inject_at_write,
    keep_running,
    run_concurrently,
)
from kit.kinds.casconfigs import (
    CONTEXT,
    DEPLOYMENTS,
    a_deployment,
    a_policy,
    comparable_fields,
    create,
    create_service_account,
    delete_and_wait,
    edit,
    template_of,
    wait_for_reason,
    wait_until_applied,
)
from kit.process import Program
from quintet.apis.meta import JsonObject, Object, ObjectKey
from quintet.kube.client import Client

NAMES = ("a", "b", "c")


async def read_targets(client: Client, namespace: str) -> dict[str, JsonObject]:
    return {
        name: comparable_fields(await client.get(DEPLOYMENTS, ObjectKey(namespace, name), dict[str, Any]))
        for name in NAMES
    }


async def read_values(client: Client, namespace: str) -> set[str | None]:
    """Return the values of variable X in the first container of all targets."""
    found = set()
    for name in NAMES:
        obj = await client.get(DEPLOYMENTS, ObjectKey(namespace, name), dict[str, Any])
        env = {each["name"]: each["value"] for each in template_of(obj)["spec"]["containers"][0]["env"]}
        found.add(env.get("X"))
    return found


async def run_success_scenario(client: Client, api: Api, namespace: str) -> None:
    """Apply, edit and delete a CASConfig with three targets."""
    await create_service_account(api, namespace)
    before = await read_targets(client, namespace)
    key = await create(client, namespace, "good", a_policy(envs={"X": "1"}, labels={"x": "1"}))
    await wait_until_applied(client, key, 3, within=PATIENCE)
    assert await read_values(client, namespace) == {"1"}
    await edit(client, key, a_policy(envs={"X": "2"}))
    await wait_until_applied(client, key, 3, within=PATIENCE)
    assert await read_values(client, namespace) == {"2"}
    await delete_and_wait(client, key, within=PATIENCE)
    assert await read_targets(client, namespace) == before


async def run_refusal_scenario(client: Client, api: Api, namespace: str) -> None:
    """One of three targets cannot be changed: the other two stay unchanged."""
    see = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}
    some = {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["patch"],
        "resourceNames": ["a", "c"],
    }
    await create_service_account(api, namespace, see, some)
    before = await read_targets(client, namespace)
    key = await create(client, namespace, "refused", a_policy(envs={"X": "1"}))
    config = await wait_for_reason(client, key, "TargetFailed", within=PATIENCE)
    while config.status.unfinished:
        await asyncio.sleep(0.2)
        config = await wait_for_reason(client, key, "TargetFailed", within=PATIENCE)
    assert await read_targets(client, namespace) == before, config.status
    await delete_and_wait(client, key, within=PATIENCE)
    assert await read_targets(client, namespace) == before


STORIES = {"success": run_success_scenario, "refusal": run_refusal_scenario}
Story = Callable[[Client, Api, str], Awaitable[None]]


@contextlib.asynccontextmanager
async def an_environment(
    client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> AsyncIterator[tuple[str, FaultProxy, Program]]:
    """Create a namespace with three targets and an operator behind a proxy, restarted when it dies."""
    async with fresh_namespace(api) as namespace, FaultProxy(kubeconfig) as proxy:
        for name in NAMES:
            await client.create(DEPLOYMENTS, a_deployment(name), Object, namespace=namespace)
        operator = operator_of("casconfig", proxy.write_kubeconfig(scratch), CONTEXT, namespace)
        await operator.start()
        try:
            async with run_in_background(keep_running(operator)):
                yield namespace, proxy, operator
        finally:
            operator.signal(signal.SIGCONT)
            operator.kill()
            await operator.ended()


@pytest.fixture(scope="module")
async def writes(casconfigs: Client, cluster, tmp_path_factory) -> dict[str, int]:
    """Return the number of writes of each scenario without faults."""
    found = {}
    async with Api.connect(cluster.kubeconfig) as api:
        for name, story in STORIES.items():
            scratch = tmp_path_factory.mktemp(name)
            async with an_environment(casconfigs, api, cluster.kubeconfig, scratch) as (namespace, proxy, _):
                await story(casconfigs, api, namespace)
                await proxy.quiet(0.5)
                found[name] = len(proxy.trace.writes())
    return found


async def run_with_fault(
    fault: str, story: str, at_write: int | None, client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> None:
    async with (
        an_environment(client, api, kubeconfig, scratch) as (namespace, proxy, operator),
        inject_at_write(fault, proxy, operator, at_write=at_write),
    ):
        await STORIES[story](client, api, namespace)


@pytest.mark.timeout(1800)
async def test_casconfig_changes_all_targets_or_none_when_first_write_of_each_type_fails(
    casconfigs: Client, cluster, api, tmp_path
):
    async def run_case(case: tuple[str, str]) -> None:
        await run_with_fault(*case, None, casconfigs, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(itertools.product(ESSENTIAL, STORIES), run_case)


# A rejected write changes nothing, as with the kill before each write.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, RESPONSE_LOST: 1, UNAVAILABLE: 3}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_casconfig_changes_all_targets_or_none_when_any_write_fails(
    fault, story, writes, casconfigs: Client, cluster, api, tmp_path
):
    async def run_case(number: int) -> None:
        await run_with_fault(fault, story, number, casconfigs, api, cluster.kubeconfig, tmp_path)

    await run_concurrently(range(1, writes[story] + 1, EVERY[fault]), run_case)
