"""Runs a story with or without a fault, and compares the two.

What must hold in every run, whatever the kind:

* after each step the namespace has the objects, and the statuses the conditions, of the run without faults;
* the operator creates and deletes as many objects of each type;
* it becomes quiet: no write after the last step has been done;
* no status goes back to an earlier generation, or ahead of what the user wrote;
* no reconciliation raises an unexpected error, and requests stay within a budget.
"""

import asyncio
import contextlib
import difflib
import signal
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from kit.background import run_in_background
from kit.cli.quintet import COMMAND
from kit.cluster.api import RefusedError
from kit.cluster.control_plane import fresh_namespace
from kit.cluster.namespace_state import created_collections, list_owned, read_objects
from kit.cluster.service_accounts import context
from kit.eventually import eventually
from kit.fault_plans.plans import AT_WATCHES, AT_WRITES, SHORT, FirstLists, Plan
from kit.fault_plans.stories import Stage, Story
from kit.faults.proxy import FaultProxy, changes_state, matching
from kit.faults.scenarios import keep_running
from kit.process import Program
from quintet.apis.meta import Resource
from quintet.kinds import all_kinds

SECONDS = 90.0
QUIET = 1.0
SHOWN_LINES, SHOWN_LOG_LINES, SHOWN_EXCHANGES = 40, 30, 80
BASICS = (
    "/api/v1/namespaces/{}/configmaps",
    "/api/v1/namespaces/{}/secrets",
    "/apis/apps/v1/namespaces/{}/deployments",
)
CRASH = "Reconciliation crashed"


@dataclass
class Run:
    """What was seen in a run of a story."""

    states: dict[str, list[str]] = field(default_factory=dict)
    """The namespace after each step."""
    created: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    writes: int = 0
    watched: tuple[str, ...] = ()


class ViolationError(AssertionError):
    """What a plan showed; the text has the requests and the log."""


@dataclass
class Scene:
    """A story on its stage, with an operator behind a recording proxy."""

    story: Story
    stage: Stage
    proxy: FaultProxy
    operator: Program
    generations: dict[str, int] = field(default_factory=dict)
    _uids: dict[str, str] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)

    async def state(self) -> list[str]:
        """Return the objects of the namespace and what the statuses say, as lines."""
        stage = self.stage
        names = (*self.story.random_names, stage.namespace)
        return [
            *await read_objects(stage.api, self._collections(), names),
            *[
                line
                for resource, name in self.story.subjects
                for line in await self._read_status(resource, name)
            ],
            *await self.story.read_more(stage),
        ]

    async def list_orphans(self) -> list[str]:
        """Return the objects that a deleted subject owned and the garbage collector has not deleted yet."""
        return await list_owned(self.stage.api, self._collections(), self._gone)

    def _collections(self) -> list[str]:
        stage = self.stage
        paths = {*created_collections(all_kinds(), stage.namespace), *map(stage.path, BASICS)}
        return sorted(paths - _pods_of_others(self.story, stage))

    async def _read_status(self, resource: Resource, name: str) -> list[str]:
        path = resource.path(self.stage.namespace, name)
        try:
            found = await self.stage.api.get(path)
        except RefusedError as refusal:
            if refusal.code != 404:
                raise
            self._gone |= {self._uids[name]} if name in self._uids else set()
            return [f"{resource.kind}: gone"]
        status = found.get("status", {})
        self.generations[name] = found["metadata"]["generation"]
        self._uids[name] = found["metadata"]["uid"]
        conditions = [f"{c['type']}={c['status']}: {c['reason']}" for c in status.get("conditions", ())]
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return [f"{resource.kind}: {'current' if current else 'late'}: {each}" for each in sorted(conditions)]


def _pods_of_others(story: Story, stage: Stage) -> set[str]:
    """Return the pods, unless the controller itself creates them."""
    return set() if story.name == "statefulcluster" else {f"/api/v1/namespaces/{stage.namespace}/pods"}


@contextlib.asynccontextmanager
async def a_scene(story: Story, stage: Stage, kubeconfig: Path, scratch: Path) -> AsyncIterator[Scene]:
    """Set the stage, and run an operator that is restarted whenever it ends."""
    async with (
        fresh_namespace(stage.api) as namespace,
        FaultProxy(kubeconfig) as proxy,
    ):
        here = Stage(stage.api, stage.client, stage.nats, namespace)
        operator = Program(
            str(COMMAND), "run", "--controllers", story.controller,
            "--kubeconfig", str(proxy.write_kubeconfig(scratch)), "--context", context(story.controller),
            "--namespace", namespace, "--health-address", "127.0.0.1:0", "--discovery-address", "127.0.0.1:0",
            "--no-leader-elect", "--eventing-allowed-networks", "127.0.0.0/8",
        )  # fmt: skip
        async with story.surrounding(here):
            await operator.start()
            try:
                async with run_in_background(keep_running(operator)):
                    yield Scene(story, here, proxy, operator)
            finally:
                operator.signal(signal.SIGCONT)
                operator.kill()
                await operator.ended()


async def run_without_faults(scene: Scene) -> Run:
    """Run a story and return what it looks like."""
    run = Run()
    lists = FirstLists()
    scene.proxy.inject(lists, when=matching("list"), times=None)
    await scene.proxy.wait_for(matching("watch"))
    for step, act in scene.story.steps.items():
        await act(scene.stage)
        run.states[step] = await _settled_state(scene)
    run.watched = tuple(sorted({each.resource for each in scene.proxy.watches}))
    return _count(scene, run)


async def _settled_state(scene: Scene) -> list[str]:
    """Wait until the operator is quiet and the namespace does not change any more."""

    async def unchanged() -> list[str]:
        await scene.proxy.quiet(QUIET, within=SECONDS)
        earlier = await scene.state()
        await asyncio.sleep(QUIET)
        now = await scene.state()
        assert earlier == now, "\n".join(difflib.unified_diff(earlier, now, lineterm="", n=1))
        assert not any(": late:" in line for line in now), now
        orphans = await scene.list_orphans()
        assert not orphans, f"not deleted yet: {orphans}"
        return now

    return await eventually(unchanged, within=SECONDS)


async def run_plan(plan: Plan, scene: Scene, reference: Run) -> bool:
    """Run a story with a fault; return whether the fault took place, and raise `ViolationError`."""
    try:
        return await _run_plan(plan, scene, reference)
    except (AssertionError, ExceptionGroup) as error:
        raise ViolationError(_describe(plan, scene, error)) from error


async def _run_plan(plan: Plan, scene: Scene, reference: Run) -> bool:
    proxy, run = scene.proxy, Run()
    injection = None
    lists = FirstLists()
    if plan.write:
        injection = proxy.inject(AT_WRITES[plan.fault](scene.operator), at_write=plan.write)
    elif plan.fault.startswith("stale lists"):
        proxy.inject(lists, when=matching("list"), times=None)
    await proxy.wait_for(matching("watch"))
    for step, act in scene.story.steps.items():
        if step == plan.step:
            async with _disturbance(plan, scene, lists):
                await act(scene.stage)
        else:
            await act(scene.stage)
        await _reach(scene, step, reference.states[step])
    await proxy.quiet(QUIET, within=SECONDS)
    await _reach(scene, "the end", reference.states[step])
    _judge(scene, reference, _count(scene, run))
    return injection is None or bool(injection.hits)


@contextlib.asynccontextmanager
async def _disturbance(plan: Plan, scene: Scene, lists: FirstLists) -> AsyncIterator[None]:
    """Disturb the process, the API server or a watch while a step is done and shortly after."""
    proxy, operator = scene.proxy, scene.operator
    if plan.resource and plan.fault in AT_WATCHES:
        when = matching("watch", plan.resource)
        if any(when(each) for each in proxy.watches):
            proxy.disturb(AT_WATCHES[plan.fault](), when)
        yield
        return
    if plan.resource:
        hold = proxy.hold(plan.resource)
        yield
        await asyncio.sleep(SHORT)
        hold.release(only_last=plan.fault == "only last events")
    elif plan.fault == "outage":
        async with proxy.outage():
            yield
            await asyncio.sleep(SHORT)
    elif plan.fault == "frozen":
        operator.signal(signal.SIGSTOP)
        yield
        await asyncio.sleep(SHORT)
        operator.signal(signal.SIGCONT)
    else:
        lists.replaying = plan.fault.startswith("stale lists")
        operator.kill()
        yield


async def _reach(scene: Scene, step: str, wanted: list[str]) -> None:
    async def reached() -> None:
        now = await scene.state()
        changes = difflib.unified_diff(wanted, now, "without faults", "now", lineterm="", n=2)
        assert now == wanted, f"after {step!r}:\n" + "\n".join([*changes][:SHOWN_LINES])

    await eventually(reached, within=SECONDS)


def _count(scene: Scene, run: Run) -> Run:
    """Count what the operator did."""
    for each in scene.proxy.trace.requests(changes_state):
        if each.status == 201 and not each.request.subresource:
            run.created[each.request.resource] += 1
        elif each.status in (200, 202) and each.request.verb == "delete":
            run.deleted[each.request.resource] += 1
    run.requests = len(scene.proxy.trace.exchanges)
    run.writes = len(scene.proxy.trace.writes())
    return run


def _judge(scene: Scene, reference: Run, run: Run) -> None:
    assert run.created == reference.created, f"created {run.created}, without faults {reference.created}"
    assert run.requests <= 3 * reference.requests + 200, f"{run.requests} requests, not {reference.requests}"
    crashes = [line for line in scene.operator.log if CRASH in line]
    assert not crashes, crashes[0]
    seen: dict[str, int] = {}
    for each in scene.proxy.trace.requests(lambda request: request.subresource == "status"):
        status = each.body.get("status", {}) if isinstance(each.body, dict) else {}
        generation = status.get("observedGeneration")
        if each.status == 200 and generation is not None:
            name = each.request.name
            assert generation >= seen.get(name, 0), f"the status of {name} went back to {generation}"
            assert generation <= scene.generations.get(name, generation), f"{name} is not at {generation} yet"
            seen[name] = generation


def _describe(plan: Plan, scene: Scene, error: BaseException) -> str:
    shown = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
    exchanges = [str(each) for each in scene.proxy.trace if each.request.verb != "watch"]
    return "\n".join(
        [
            str(plan),
            str(shown),
            "requests:",
            *exchanges[-SHOWN_EXCHANGES:],
            "log:",
            *scene.operator.log[-SHOWN_LOG_LINES:],
        ]
    )
