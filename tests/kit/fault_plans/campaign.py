"""Learns the plans of a story and replays them, several at once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.fault_plans.plans import Plan, all_plans
from kit.fault_plans.replay import Run, ViolationError, a_scene, run_plan, run_without_faults
from kit.fault_plans.stories import Stage, Story

AT_ONCE = 4


@dataclass(frozen=True)
class Result:
    """What came of a plan."""

    plan: Plan
    hit: bool
    """Whether the fault took place: timing may have led to fewer writes."""
    violation: str = ""


async def learn(story: Story, stage: Stage, kubeconfig: Path, scratch: Path) -> tuple[Run, list[Plan]]:
    """Run a story without faults, and return what was seen and all plans."""
    async with a_scene(story, stage, kubeconfig, scratch) as scene:
        reference = await run_without_faults(scene)
    return reference, [*all_plans(story.name, tuple(story.steps), reference.writes, reference.watched)]


async def replay(
    story: Story, plan: Plan, reference: Run, stage: Stage, kubeconfig: Path, scratch: Path
) -> Result:
    """Run one plan."""
    try:
        async with a_scene(story, stage, kubeconfig, scratch) as scene:
            return Result(plan, await run_plan(plan, scene, reference))
    except ViolationError as violation:
        return Result(plan, True, str(violation))


async def replay_all(
    story: Story, plans: Sequence[Plan], reference: Run, stage: Stage, kubeconfig: Path, scratch: Path
) -> AsyncIterator[Result]:
    """Run plans, several at once, and yield what came of each."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(plan: Plan) -> Result:
        async with slots:
            return await replay(story, plan, reference, stage, kubeconfig, scratch)

    tasks = [asyncio.create_task(one(plan)) for plan in plans]
    try:
        for task in asyncio.as_completed(tasks):
            yield await task
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
