"""After any sequence of edits, removing all CASConfigs leaves an object as other users edited it.

The sequences are random: CASConfigs are created, changed and deleted, and others edit in between, sometimes before the
controller has caught up. The same edits are made to a second object without CASConfigs; in the end both must be equal.
`tests/unit/casconfig` tests the decisions in the same way with more examples.
"""

import asyncio
import os
import random
from typing import Any

import pytest

from kit.cluster.api import Api, RefusedError
from kit.eventually import eventually
from kit.kinds.casconfigs import (
    DEPLOYMENTS,
    a_deployment,
    a_policy,
    comparable_fields,
    create,
    delete_and_wait,
    edit,
    get,
)
from quintet.apis.meta import JsonObject, Object, ObjectKey
from quintet.kube.client import Client

FEW, MANY = 30, int(os.environ.get("QUINTET_UNDO_SEQUENCES", "200"))
AT_ONCE = 10
STEPS = 6
STRATEGIC = "application/strategic-merge-patch+json"


def some_values(draw: random.Random, mark: str) -> JsonObject:
    """Return values for a CASConfig, never equal to those of other users."""
    values: JsonObject = {}
    if draw.random() < 0.5:
        values["labels"] = {draw.choice(("k0", "k1", "k2")): mark}
    if draw.random() < 0.3:
        values["annotations"] = {draw.choice(("k0", "k1")): mark}
    if draw.random() < 0.6:
        values["envs"] = {draw.choice(("E0", "E1", "KEPT")): mark, "E9": mark}
    if draw.random() < 0.4:
        values["tolerations"] = [{"key": draw.choice(("t0", mark.lower())), "operator": "Exists"}]
    if draw.random() < 0.5:
        name = draw.choice(("side", "helper", "second"))
        values["sidecars"] = [{"name": name, "image": f"ours:{mark}", "args": [mark]}]
    if draw.random() < 0.2:
        values["mainContainer"] = {"name": "main", "image": f"ours:{mark}"}
    return values or {"labels": {"k0": mark}}


def an_edit(draw: random.Random, mark: str) -> JsonObject:
    """Return an edit of another user as a strategic merge patch."""
    pod: JsonObject = {}
    match draw.randrange(6):
        case 0:
            return {"metadata": {"labels": {draw.choice(("k0", "k1", "k2")): mark}}}
        case 1:
            return {"metadata": {"labels": {draw.choice(("k0", "k1")): None}}}
        case 2:
            return {"metadata": {"annotations": {"k0": mark}}}
        case 3:
            pod = {"containers": [{"name": "second", "image": f"theirs:{mark}"}]}
        case 4:
            env = [{"name": draw.choice(("E0", "E1", "E2")), "value": mark}]
            pod = {"containers": [{"name": "second", "env": env}]}
        case 5:
            return {"spec": {"paused": draw.random() < 0.5}}
    return {"spec": {"template": {"spec": pod}}}


class Sequence:
    """One object with CASConfigs and its twin without."""

    def __init__(self, client: Client, api: Api, namespace: str, number: int) -> None:
        self.client, self.api, self.namespace, self.number = client, api, namespace, number
        self.draw = random.Random(number)
        self.name, self.twin = f"web-{number}", f"twin-{number}"
        self.configs: dict[str, ObjectKey] = {}
        self.steps: list[str] = []

    async def run(self) -> None:
        for name in (self.name, self.twin):
            await self.client.create(DEPLOYMENTS, a_deployment(name), Object, namespace=self.namespace)
        for step in range(STEPS):
            await self.act(f"s{step}")
            if self.draw.random() < 0.7:
                await self.caught_up()
        for name in self.draw.sample(sorted(self.configs), len(self.configs)):
            await delete_and_wait(self.client, self.configs.pop(name))
        await self.same_as_its_twin()
        for name in (self.name, self.twin):
            await self.client.delete(DEPLOYMENTS, ObjectKey(self.namespace, name))

    async def act(self, mark: str) -> None:
        choice, name = self.draw.random(), self.draw.choice(("low", "high", "third"))
        name = f"{name}-{self.number}"
        if choice < 0.4:
            await self.edit(f"x{mark}")
        elif name not in self.configs:
            values = some_values(self.draw, mark)
            self.steps.append(f"create {name} with {values}")
            self.configs[name] = await create(
                self.client, self.namespace, name, self.policy(values), maxTargets=1
            )
        elif choice < 0.75:
            values = some_values(self.draw, mark)
            self.steps.append(f"change {name} to {values}")
            await edit(self.client, self.configs[name], self.policy(values))
        else:
            self.steps.append(f"delete {name}")
            await delete_and_wait(self.client, self.configs.pop(name))

    def policy(self, values: JsonObject) -> JsonObject:
        return a_policy(include={"kinds": ["Deployment"], "names": [self.name]}, **values)

    async def edit(self, mark: str) -> None:
        body = an_edit(self.draw, mark)
        self.steps.append(f"foreign edit {body}")
        for name in (self.name, self.twin):
            path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}"
            try:
                await self.api.send("PATCH", path, body, STRATEGIC, {"fieldManager": "somebody"})
            except RefusedError as error:
                raise AssertionError(f"{self}: {error}") from error

    async def caught_up(self) -> None:
        async def probe() -> None:
            for key in self.configs.values():
                config = await get(self.client, key)
                assert config.status.observed_generation == config.metadata.generation, (
                    f"{self} {config.status}"
                )

        await eventually(probe, within=120)

    async def same_as_its_twin(self) -> None:
        seen, want = [await self.look(name) for name in (self.name, self.twin)]
        assert seen == want, f"{self}\nseen {seen}\nwant {want}"

    async def look(self, name: str) -> Any:
        found = comparable_fields(
            await self.client.get(DEPLOYMENTS, ObjectKey(self.namespace, name), dict[str, Any])
        )
        text = repr(found).replace(self.twin, self.name)
        return text

    def __str__(self) -> str:
        return "\n  ".join((f"sequence {self.number}:", *self.steps))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(range(FEW), id="some"),
        pytest.param(range(FEW, MANY), id="many", marks=[pytest.mark.slow, pytest.mark.exhaustive]),
    ],
)
async def test_undo_keeps_changes_of_others_after_any_sequence(
    numbers, casconfig_operator, casconfigs: Client, api: Api, namespace
):
    waiting = list(numbers)

    async def work() -> None:
        while waiting:
            await Sequence(casconfigs, api, namespace, waiting.pop(0)).run()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
