"""Another manager reverts what configs set: who counts the rounds, and when a config gives up."""

import copy
from dataclasses import replace

import msgspec
import pytest

from kit.clock import VirtualClock
from quintet.apis.casconfig import CASConfig, TargetState
from quintet.apis.casconfig.ledger import RESET_SECONDS
from quintet.apis.meta import ObjectKey, ObjectMeta, find_condition
from quintet.controllers.casconfig.contests import Contests, entries, entry_key
from quintet.controllers.casconfig.decide import plan
from quintet.controllers.casconfig.decide.plan import FoundObject, Reason, ResolvedConfig
from quintet.controllers.casconfig.decide.status import Report, as_rolled_back, blocked_status, status_of
from unit.casconfig.objects import DEPLOYMENTS, LOW, TEMPLATE, a_deployment, a_policy, a_spec
from unit.casconfig.server import applied

SPEC = a_spec(a_policy(labels={"k0": "ours"}))


def a_config():
    return CASConfig(metadata=ObjectMeta(name="low", namespace="shop", generation=1), spec=SPEC)


def found(obj):
    return FoundObject(DEPLOYMENTS, TEMPLATE, obj)


def with_status_of(config, step):
    return msgspec.structs.replace(config, status=status_of(config, Report([step])))


def a_fight(clock, *, configs=1, generation=1):
    """Return a function that reverts the values of configs on one object and lets each look again."""
    keys = [ObjectKey("shop", f"c{number}") for number in range(configs)]
    specs = [a_spec(a_policy(labels={f"k{n}": "ours"}, envs={"A": f"{n}"})) for n in range(configs)]
    obj, writes = a_deployment(), dict.fromkeys(keys, 0)

    def look(key, spec, generation):
        nonlocal obj
        now = int(clock.now().timestamp())
        step = plan.decide_step(ResolvedConfig(key, spec, {}, "", generation, now), found(obj))
        writes[key] += bool(step.patch)
        obj = applied(obj, step.patch)
        return step

    def fight(generation=generation, contests=None, *, revert=True):
        nonlocal obj
        if revert:
            obj = copy.deepcopy(obj)
            obj["metadata"]["labels"] = {"app": "web"}
            for container in obj["spec"]["template"]["spec"]["containers"]:
                container["env"] = [{"name": "A", "value": "theirs"}]
        return [look(key, spec, generation) for key, spec in zip(keys, specs, strict=True)]

    fight(revert=False)
    return fight, writes


@pytest.mark.parametrize("configs", [1, 2])
def test_third_contested_round_is_not_applied(configs):
    fight, writes = a_fight(VirtualClock(), configs=configs)
    assert [each.rounds for each in fight()] == [1] * configs
    assert [each.rounds for each in fight()] == [2] * configs
    for _ in range(20):
        steps = fight()
        assert {(each.state, each.rounds, each.patch) for each in steps} == {(TargetState.CONTESTED, 3, ())}
    # Once, and twice again. The other config writes into the object too: each look begins with its own change.
    assert set(writes.values()) == {3}
    status = status_of(a_config(), Report(steps))
    assert find_condition(status.conditions, "Ready").reason == "Contested"


async def test_round_after_a_long_pause_starts_a_new_count():
    clock = VirtualClock()
    fight, _ = a_fight(clock)
    rounds = []
    for _ in range(4):
        rounds.append(fight()[0].rounds)
        await clock.advance(RESET_SECONDS + 1)
    assert rounds == [1, 1, 1, 1]
    assert fight()[0].rounds == 1
    await clock.advance(RESET_SECONDS)
    assert fight()[0].rounds == 2


def test_rounds_stay_in_the_ledger_without_a_new_change():
    fight, _ = a_fight(VirtualClock())
    fight()
    (step,) = fight(revert=False)
    assert (step.rounds, step.retaken, step.patch) == (1, (), ())
    assert fight()[0].rounds == 2


def test_edited_config_starts_a_new_count():
    fight, _ = a_fight(VirtualClock())
    for _ in range(3):
        (step,) = fight()
    assert step.state is TargetState.CONTESTED
    (step,) = fight(generation=2)
    assert (step.state, step.rounds, bool(step.patch)) == (TargetState.APPLIED, 1, True)


def test_rollback_does_not_count_as_a_round():
    wish, theirs = ResolvedConfig(LOW, SPEC, {}), a_deployment()
    theirs = applied(theirs, plan.decide_step(wish, found(theirs)).patch)
    theirs["metadata"]["labels"]["k0"] = "theirs"
    for _ in range(5):
        step = plan.decide_step(wish, found(theirs))
        assert (step.state, step.rounds) == (TargetState.APPLIED, 1)
        tried = applied(theirs, step.patch)
        theirs = applied(tried, plan.rollback_step(found(tried), LOW, step.before).patch)
    assert status_of(a_config(), Report([as_rolled_back(step, "no")])).targets[0].rounds == 0


async def test_contested_target_is_given_up_for_good_also_after_a_restart():
    clock, config = VirtualClock(), a_config()
    contests, (fight, _) = Contests(), a_fight(clock)
    for _ in range(3):
        (step,) = fight()
    contests.remember(config, contests.keep(config, step, None))
    config = with_status_of(config, step)
    await clock.advance(RESET_SECONDS * 100)
    (step,) = fight()
    assert (step.state, step.rounds) == (TargetState.APPLIED, 1)  # as if nothing was known
    assert contests.keep(config, step, None).state is TargetState.CONTESTED
    restarted = Contests().keep(config, step, entries(config)[entry_key(step)])
    assert (restarted.state, restarted.patch) == (TargetState.CONTESTED, ())
    assert restarted.message == config.status.targets[0].message


def test_edit_ends_contest_although_the_config_is_blocked_first():
    contests, (fight, _) = Contests(), a_fight(VirtualClock())
    for _ in range(3):
        (step,) = fight()
    config = with_status_of(a_config(), step)
    edited = msgspec.structs.replace(config, metadata=ObjectMeta(name="low", namespace="shop", generation=2))
    blocked = blocked_status(edited, Reason.WAITING, "no source")
    edited = msgspec.structs.replace(edited, status=blocked)
    (step,) = fight(generation=2)
    assert contests.keep(edited, step, entries(edited)[entry_key(step)]).state is TargetState.APPLIED


def test_targets_that_are_gone_or_hold_again_are_forgotten():
    contests, config, (fight, _) = Contests(), a_config(), a_fight(VirtualClock())
    for _ in range(3):
        (step,) = fight()
    contests.remember(config, step)
    contests.tidy(config.key, {step.target})
    assert len(contests) == 1
    contests.tidy(config.key, set())
    assert len(contests) == 0
    contests.remember(config, step)
    contests.keep(config, replace(step, retaken=()), None)
    assert len(contests) == 0
