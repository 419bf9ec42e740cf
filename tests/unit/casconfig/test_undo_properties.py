"""Whatever configs and others do to an object: without the configs, it is as others left it.

The unit run tries few sequences with the two expensive properties, `make test-all` many;
`CASCONFIG_SEQUENCES=20000` tries even more. `campaign` tries any number, and needs no hypothesis.
"""

import copy
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quintet.apis.casconfig.layers import original
from quintet.apis.casconfig.ledger import annotation, ledgers
from unit.casconfig.drawing import a_policy
from unit.casconfig.server import meaning, traces
from unit.casconfig.worlds import CONFIGS, World

SEQUENCES = int(os.environ.get("CASCONFIG_SEQUENCES", "2000"))
LIMITS = settings(
    max_examples=SEQUENCES, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
QUICK = settings(LIMITS, max_examples=SEQUENCES // 4)
STARTS = st.integers(0, 511)
CODES = st.integers(0, 4095)
ANY_STEP = st.tuples(st.integers(0, 14), st.integers(0, 2), CODES)
OWN_STEP = st.tuples(st.integers(0, 3), st.integers(0, 2), CODES)
ORDER = st.permutations(CONFIGS)


@QUICK
@given(STARTS, st.lists(ANY_STEP, max_size=8), ORDER)
def test_object_without_its_configs_equals_the_object_of_others(start, steps, order):
    World(start).run(steps, order)


@pytest.mark.exhaustive
@LIMITS
@given(STARTS, st.lists(ANY_STEP, max_size=8), ORDER)
def test_many_objects_without_their_configs_equal_those_of_others(start, steps, order):
    World(start).run(steps, order)


@settings(LIMITS, max_examples=SEQUENCES // 8)
@given(STARTS, st.lists(OWN_STEP, max_size=6), ORDER)
def test_undo_without_foreign_writes_restores_the_item_order(start, steps, order):
    world = World(start)
    for step in steps:
        world.step(*step)
    reports = [world.remove(config) for config in order]
    assert world.differences(ordered=True) == []
    assert [report.left for report in reports] == [(), (), ()]


def set_values(obj):
    """Return what the ledgers say that configs have set; an empty ledger says nothing."""
    return {
        (ledger.config, ledger.layer): [(entry.path, entry.now) for entry in ledger.entries]
        for ledger in ledgers(obj)
        if ledger.entries
    }


@settings(LIMITS, max_examples=SEQUENCES // 8)
@given(STARTS, st.lists(ANY_STEP, max_size=6), st.integers(0, 2), CODES)
def test_rollback_restores_object_and_ledgers(start, steps, which, code):
    world = World(start)
    for step in steps:
        world.step(*step)
    world.settle()
    before = world.live
    world.apply_and_roll_back(CONFIGS[which], [a_policy(code)])
    # A container that was not there for a moment is news for the configs above.
    others = {config: policies for config, policies in world.active.items() if config != CONFIGS[which]}
    for config, policies in others.items():
        world.apply(config, policies)
    assert meaning(world.live) == meaning(before), str(world)
    assert set_values(world.live) == set_values(before), str(world)


def depends_on_the_configs_alone(start, steps, codes):
    world = World(start)
    for step in steps:
        world.step(*step)
    for config in CONFIGS:
        world.remove(config)
    fresh = copy.deepcopy(world)
    for config, code in zip(CONFIGS, codes, strict=True):
        fresh.apply(config, [a_policy(code)])
    for config, code in zip(CONFIGS, codes, strict=True):
        world.apply(config, [a_policy(code // 3)])
        world.apply(config, [a_policy(code)])
    fresh.settle()
    world.settle()
    assert meaning(world.live, ordered=False) == meaning(fresh.live, ordered=False), (
        f"{world}\nand from the start {fresh}"
    )


@settings(LIMITS, max_examples=SEQUENCES // 20)
@given(STARTS, st.lists(ANY_STEP, max_size=6), st.lists(CODES, min_size=3, max_size=3))
def test_object_depends_only_on_existing_configs(start, steps, codes):
    depends_on_the_configs_alone(start, steps, codes)


@pytest.mark.exhaustive
@settings(LIMITS, max_examples=SEQUENCES // 8)
@given(STARTS, st.lists(ANY_STEP, max_size=6), st.lists(CODES, min_size=3, max_size=3))
def test_many_objects_depend_only_on_existing_configs(start, steps, codes):
    depends_on_the_configs_alone(start, steps, codes)


def apply_repeatedly(start, steps, which, code, times):
    """Return what the last of several applications of the same policy does."""
    world = World(start)
    for step in steps:
        world.step(*step)
    return [world.apply(CONFIGS[which], [a_policy(code)]) for _ in range(times)][-1]


@settings(LIMITS, max_examples=SEQUENCES // 8)
@given(STARTS, st.lists(ANY_STEP, max_size=6), st.integers(0, 2), CODES)
def test_config_in_place_writes_nothing(start, steps, which, code):
    """The second application may still write: what the first one left to others is an object of others now."""
    third = apply_repeatedly(start, steps, which, code, 3)
    assert (third.patch, third.retaken) == ((), ())


def test_entry_of_container_that_a_lower_config_replaces_ends_with_it():
    second = apply_repeatedly(0, [(0, 1, 4), (0, 0, 128), (11, 0, 805)], 1, 129, 2)
    assert second.patch == ()


@settings(LIMITS, max_examples=SEQUENCES // 8)
@given(STARTS, st.lists(ANY_STEP, max_size=6))
def test_includes_match_the_object_without_configs(start, steps):
    world = World(start)
    for step in steps:
        world.step(*step)
    seen, real = original(world.live), world.without
    assert seen["metadata"].get("labels", {}) == real["metadata"].get("labels", {})
    assert set(traces(seen)) <= {annotation(config, "shop") for config in world.damaged}
