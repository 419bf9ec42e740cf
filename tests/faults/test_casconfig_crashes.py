"""The operator dies, or an answer is lost, at any write of a config's life.

Whatever is hit, every chapter ends the same: all targets as the config wants them, or all as they were; never
some of them. `kit.faults.scenarios` says which writes are hit on which level.
"""

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kit.background import meanwhile
from kit.cluster.api import Api
from kit.cluster.control_plane import fresh_namespace
from kit.faults.operators import operator_of
from kit.faults.proxy import FaultProxy
from kit.faults.scenarios import (
    ANSWER_LOST,
    ESSENTIAL,
    KILLED_AFTER,
    KILLED_BEFORE,
    PATIENCE,
    TROUBLE,
    hit_by,
    keep_running,
    side_by_side,
)
from kit.kinds.casconfigs import (
    CONTEXT,
    DEPLOYMENTS,
    a_deployment,
    a_policy,
    an_account,
    applied,
    create,
    edit,
    plain,
    remove,
    template_of,
    with_reason,
)
from kit.process import Program
from quintet.apis.meta import JsonObject, Object, ObjectKey
from quintet.kube.client import Client

NAMES = ("a", "b", "c")


async def looks(client: Client, namespace: str) -> dict[str, JsonObject]:
    return {
        name: plain(await client.get(DEPLOYMENTS, ObjectKey(namespace, name), dict[str, Any]))
        for name in NAMES
    }


async def values(client: Client, namespace: str) -> set[str | None]:
    """What the variable X of the first container is, on all targets."""
    found = set()
    for name in NAMES:
        obj = await client.get(DEPLOYMENTS, ObjectKey(namespace, name), dict[str, Any])
        env = {each["name"]: each["value"] for each in template_of(obj)["spec"]["containers"][0]["env"]}
        found.add(env.get("X"))
    return found


async def tell_of_success(client: Client, api: Api, namespace: str) -> None:
    """Applied, edited, taken back: on three targets."""
    await an_account(api, namespace)
    before = await looks(client, namespace)
    key = await create(client, namespace, "good", a_policy(envs={"X": "1"}, labels={"x": "1"}))
    await applied(client, key, 3, within=PATIENCE)
    assert await values(client, namespace) == {"1"}
    await edit(client, key, a_policy(envs={"X": "2"}))
    await applied(client, key, 3, within=PATIENCE)
    assert await values(client, namespace) == {"2"}
    await remove(client, key, within=PATIENCE)
    assert await looks(client, namespace) == before


async def tell_of_refusal(client: Client, api: Api, namespace: str) -> None:
    """One of three targets may not be changed: the other two are as they were, and stay so."""
    see = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}
    some = {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["patch"],
        "resourceNames": ["a", "c"],
    }
    await an_account(api, namespace, see, some)
    before = await looks(client, namespace)
    key = await create(client, namespace, "refused", a_policy(envs={"X": "1"}))
    config = await with_reason(client, key, "TargetFailed", within=PATIENCE)
    while config.status.unfinished:
        await asyncio.sleep(0.2)
        config = await with_reason(client, key, "TargetFailed", within=PATIENCE)
    assert await looks(client, namespace) == before, config.status
    await remove(client, key, within=PATIENCE)
    assert await looks(client, namespace) == before


STORIES = {"success": tell_of_success, "refusal": tell_of_refusal}
Story = Callable[[Client, Api, str], Awaitable[None]]


@contextlib.asynccontextmanager
async def a_stage(
    client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> AsyncIterator[tuple[str, FaultProxy, Program]]:
    """A namespace with three targets, and an operator behind a proxy that is started again when it dies."""
    async with fresh_namespace(api) as namespace, FaultProxy(kubeconfig) as proxy:
        for name in NAMES:
            await client.create(DEPLOYMENTS, a_deployment(name), Object, namespace=namespace)
        operator = operator_of("casconfig", proxy.write_kubeconfig(scratch), CONTEXT, namespace)
        await operator.start()
        try:
            async with meanwhile(keep_running(operator)):
                yield namespace, proxy, operator
        finally:
            operator.signal(signal.SIGCONT)
            operator.kill()
            await operator.ended()


@pytest.fixture(scope="module")
async def writes(casconfigs: Client, cluster, tmp_path_factory) -> dict[str, int]:
    """How many writes each story takes when nothing goes wrong."""
    found = {}
    async with Api.connect(cluster.kubeconfig) as api:
        for name, story in STORIES.items():
            scratch = tmp_path_factory.mktemp(name)
            async with a_stage(casconfigs, api, cluster.kubeconfig, scratch) as (namespace, proxy, _):
                await story(casconfigs, api, namespace)
                await proxy.quiet(0.5)
                found[name] = len(proxy.trace.writes())
    return found


async def tell_with(
    fault: str, story: str, at_write: int | None, client: Client, api: Api, kubeconfig: Path, scratch: Path
) -> None:
    async with (
        a_stage(client, api, kubeconfig, scratch) as (namespace, proxy, operator),
        hit_by(fault, proxy, operator, at_write=at_write),
    ):
        await STORIES[story](client, api, namespace)


@pytest.mark.timeout(1800)
async def test_casconfig_changes_all_targets_or_none_when_first_write_of_each_type_fails(
    casconfigs: Client, cluster, api, tmp_path
):
    async def tell(case: tuple[str, str]) -> None:
        await tell_with(*case, None, casconfigs, api, cluster.kubeconfig, tmp_path)

    await side_by_side(itertools.product(ESSENTIAL, STORIES), tell)


# To be refused is to have written nothing, which the kill before each write shows already.
EVERY = {KILLED_BEFORE: 1, KILLED_AFTER: 1, ANSWER_LOST: 1, TROUBLE: 3}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("fault", EVERY, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.timeout(1800)
async def test_casconfig_changes_all_targets_or_none_when_any_write_fails(
    fault, story, writes, casconfigs: Client, cluster, api, tmp_path
):
    async def tell(number: int) -> None:
        await tell_with(fault, story, number, casconfigs, api, cluster.kubeconfig, tmp_path)

    await side_by_side(range(1, writes[story] + 1, EVERY[fault]), tell)
