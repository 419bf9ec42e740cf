"""From any state, pass after pass, to what is wanted: the plan in a small world of its own.

The world does what a cluster does: pods start, leave and fail, claims are made and let go, time
passes. What must hold at every single pass is checked where the action is carried out.
"""

import dataclasses
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quintet.apis.meta import ObjectKey
from quintet.apis.statefulcluster import ClaimContent, Draw, Setback
from quintet.controllers.statefulcluster.decide.actions import Act, Action, records_after
from quintet.controllers.statefulcluster.decide.health import unhealthy_reason
from quintet.controllers.statefulcluster.decide.observed import (
    Claim,
    DesiredState,
    Observed,
    Pod,
    VolumeLook,
    format_time,
)
from quintet.controllers.statefulcluster.decide.plan import outdated_pods, plan, revision_for
from quintet.controllers.statefulcluster.decide.volumes import looks_due

START = 1_900_000_000.0
OLD, NEW, BAD = "web-old", "web-new", "web-bad"
GRACE = 20.0
MOST_PASSES = 600


class World:
    """A cluster with one StatefulCluster in it."""

    def __init__(self, observed: Observed, dead_groups: frozenset[str]) -> None:
        self.now = observed
        self.dead_groups = dead_groups
        self.numbers = itertools.count(1000)
        self.trail: list[str] = []

    def take_pass(self) -> Action:
        self.look_at_volumes()
        action = plan(self.now)
        self.trail.append(f"{action.act} {action.target}: {action.message}")
        self.check_before(action)
        before = {pod.uid: pod.leaving for pod in self.now.pods}
        records = records_after(self.now, action, lambda: f"n{next(self.numbers)}", "web")
        self.now = dataclasses.replace(
            self.now, draws=records.draws, retiring=records.retiring, setbacks=records.setbacks
        )
        self.carry_out(action)
        after = {pod.uid: pod.leaving for pod in self.now.pods}
        changed = [uid for uid in before.keys() | after.keys() if before.get(uid) != after.get(uid)]
        assert len(changed) <= 1, f"{changed} changed in one pass\n{self}"
        self.check_after()
        return action

    def look_at_volumes(self) -> None:
        """What the controller does before it plans: dead groups lost their node an hour ago."""
        for request in looks_due(self.now):
            name = request.group.name
            why = "its node is gone" if name in self.dead_groups else ""
            self.put(looks={**self.now.looks, name: VolumeLook(self.now.now, why)})
        dead = self.dead_groups | {claim.group for claim in self.now.claims if claim.phase == "Lost"}
        self.put(
            lost_since=dict.fromkeys(dead, self.now.now - 3600),
            contents=dict.fromkeys(dead, ClaimContent.EMPTY),
        )

    def check_before(self, action: Action) -> None:
        pod, wanted = action.pod, self.now.spec
        if action.act in (Act.REMOVE, Act.REPLACE, Act.UPDATE):
            assert pod is not None
            assert not pod.leaving, f"asked to leave twice\n{self}"
            count = len(self.now.active) + len(self.now.open_draws)
            well = pod.ready and not unhealthy_reason(self.now, pod)
            surplus, outdated = count > wanted.replicas, pod in outdated_pods(self.now)
            assert not well or surplus or outdated, f"a healthy pod that is wanted was removed\n{self}"
        if action.act is Act.UPDATE and pod is not None and self.now.is_available(pod):
            left = len(self.now.available) - 1
            assert wanted.replicas - left <= wanted.max_unavailable, f"too few are left\n{self}"
        if action.act is Act.DELETE_CLAIM:
            assert action.claim is not None
            users = {pod.group for pod in self.now.pods} | {draw.group for draw in self.now.open_draws}
            assert action.claim.group not in users, f"a claim in use was deleted\n{self}"
            assert wanted.delete_when_scaled, f"a claim was deleted against the policy\n{self}"

    def check_after(self) -> None:
        groups = [pod.group for pod in self.now.pods if pod.group]
        groups += [
            draw.group
            for draw in self.now.open_draws
            if draw.group and draw.replica not in {pod.name for pod in self.now.pods}
        ]
        assert len(groups) == len(set(groups)), f"two replicas on one claim group\n{self}"
        names = [pod.name for pod in self.now.pods]
        assert len(names) == len(set(names)), f"two pods of one name\n{self}"

    def carry_out(self, action: Action) -> None:
        match action.act:
            case Act.CREATE:
                self.make(self.now.draws[-1])
            case Act.MAKE:
                self.make(action.draw)
            case Act.UPDATE | Act.REMOVE | Act.REPLACE:
                self.change_pod(action.pod, leaves_by=self.now.now + GRACE)
            case Act.ADOPT:
                self.put(pods=(*self.now.pods, action.pod))
                self.put(orphans=tuple(pod for pod in self.now.orphans if pod != action.pod))
            case Act.REPAIR_CLAIMS:
                self.make_claims(action.group)
            case Act.SET_ASIDE:
                self.change_claims(action.group, unusable="set aside")
            case Act.DELETE_CLAIM:
                self.put(claims=tuple(c for c in self.now.claims if c.name != action.claim.name))
            case Act.OWN_CLAIM:
                self.change_claim(action.claim, owners=("me",))
            case Act.DISOWN_CLAIM:
                self.change_claim(action.claim, owners=())
            case Act.EXPAND_CLAIM:
                self.change_claim(action.claim, requested=self.now.spec.sizes[action.claim.template])

    def put(self, **changes) -> None:
        self.now = dataclasses.replace(self.now, **changes)

    def make(self, draw: Draw) -> None:
        taken = {pod.name for pod in self.now.pods}
        assert draw.replica not in taken, f"{draw.replica} was made while it was there\n{self}"
        self.make_claims(draw.group)
        for claim in self.now.claims:
            if draw.group and claim.group == draw.group:
                assert not claim.deleting, f"a pod was made on a claim that is going\n{self}"
        pod = Pod(
            ObjectKey("shop", draw.replica), uid=f"uid-{next(self.numbers)}", group=draw.group,
            revision=revision_for(self.now, draw.replica), phase="Pending", created=self.now.now,
        )  # fmt: skip
        self.put(pods=(*self.now.pods, pod))

    def make_claims(self, group: str) -> None:
        there = {claim.template for claim in self.now.claims if claim.group == group}
        made = [a_claim(group, template) for template in self.now.spec.templates if template not in there]
        self.put(claims=(*self.now.claims, *made))

    def change_pod(self, pod: Pod, **changes) -> None:
        self.put(pods=tuple(replace(p, **changes) if p.uid == pod.uid else p for p in self.now.pods))

    def change_claim(self, claim: Claim, **changes) -> None:
        self.put(claims=tuple(replace(c, **changes) if c.name == claim.name else c for c in self.now.claims))

    def change_claims(self, group: str, **changes) -> None:
        self.put(claims=tuple(replace(c, **changes) if c.group == group else c for c in self.now.claims))

    def pass_time(self, seconds: float) -> None:
        """What kubelet, scheduler and volume controllers do meanwhile."""
        now = self.now.now + seconds
        self.put(now=now, pods=tuple(pod for pod in self.now.pods if not pod.leaving or now < pod.leaves_by))
        for pod in self.now.active:
            bad = {c.group for c in self.now.claims if c.deleting or c.phase == "Lost"} | self.dead_groups
            if pod.phase == "Pending" and pod.group in bad:
                self.change_pod(pod, unscheduled=True)
            elif pod.revision != BAD and pod.phase in ("Pending", "Running") and not pod.ready:
                self.change_pod(
                    pod, phase="Running", ready=True, crash="", ready_since=now, started_at=now, started=True
                )
        used = {pod.group for pod in self.now.pods}
        self.put(claims=tuple(c for c in self.now.claims if not c.deleting or c.group in used))

    def __str__(self) -> str:
        return "\n".join([*self.trail[-12:], str(self.now)])


def a_claim(group: str, template: str, **changes) -> Claim:
    key = ObjectKey("shop", f"{template}-web-{group}")
    return Claim(**{"key": key, "group": group, "template": template, "requested": "1Gi", **changes})


@st.composite
def pods(draw, name: str) -> Pod:
    health = draw(
        st.sampled_from(["ready", "starting", "pending", "not ready", "failed", "crash", "leaving"])
    )
    age = draw(st.floats(0, 1000))
    changes = {
        "ready": {"ready": True, "ready_since": START - age / 2},
        "starting": {"ready_since": START - 5, "accepted_at": START - 5, "started": False},
        "pending": {"phase": "Pending", "unscheduled": draw(st.booleans())},
        "not ready": {"ready_since": START - 999},
        "failed": {"phase": "Failed"},
        "crash": {"crash": "crashes"},
        "leaving": {"ready": True, "leaves_by": START + draw(st.floats(0, 40))},
    }[health]
    return Pod(
        ObjectKey("shop", f"web-{name}"), uid=f"uid-{name}", group=name, created=START - age,
        revision=draw(st.sampled_from([OLD, NEW, BAD])), cost=draw(st.integers(-2, 2)), **changes,
    )  # fmt: skip


@st.composite
def claims_of(draw, group: str, templates: tuple[str, ...]) -> list[Claim]:
    kinds = {
        "whole": {},
        "deleting": {"deleting": True},
        "unusable": {"unusable": "set aside"},
        "lost": {"phase": "Lost"},
        "owned": {"owners": ("me",)},
        "small": {"requested": "1Mi"},
        "missing": None,
    }
    found = [(template, kinds[draw(st.sampled_from(list(kinds)))]) for template in templates]
    return [a_claim(group, template, **changes) for template, changes in found if changes is not None]


@st.composite
def worlds(draw) -> World:
    names = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6))
    free = draw(st.lists(st.sampled_from("tuvw"), unique=True, max_size=3))
    templates = draw(st.sampled_from([(), ("data",), ("data", "log")]))
    existing = sorted((draw(pods(name)) for name in names), key=lambda pod: (pod.created, pod.name))
    if not templates:
        existing = [replace(pod, group="") for pod in existing]
    orphan_count = draw(st.integers(0, 1)) if existing and not existing[-1].leaving else 0
    drawn = [Draw(f"web-{name}", name if templates else "") for name in draw(st.sets(st.sampled_from("xyz")))]
    # An update writes the name of a pod down that is still there.
    drawn += [Draw(pod.name, pod.group) for pod in existing if draw(st.booleans())][:2]
    groups = [*names, *free, *(each.group for each in drawn if each.group)]
    claims = [claim for group in dict.fromkeys(groups) for claim in draw(claims_of(group, templates))]
    current = draw(st.sampled_from([OLD, NEW]))
    wanted = DesiredState(
        replicas=draw(st.integers(0, 5)),
        parallel=draw(st.booleans()),
        partition=draw(st.sampled_from([0, 0, 0, 2])),
        max_unavailable=draw(st.sampled_from([1, 1, 2])),
        min_ready=draw(st.sampled_from([0.0, 7.0])),
        templates=templates,
        adopts_claims=draw(st.booleans()),
        delete_when_scaled=draw(st.booleans()),
        delete_with_cluster=draw(st.booleans()),
        sizes=dict.fromkeys(templates, "1Gi"),
    )
    setbacks = draw(st.sampled_from([(), (Setback(NEW, 2, format_time(START - 5)),)]))
    observed = Observed(
        now=START, spec=wanted, update_revision=NEW, current_revision=current, uid="me",
        pods=tuple(existing[: len(existing) - orphan_count]),
        orphans=tuple(existing[len(existing) - orphan_count :]),
        claims=tuple(claims), draws=tuple(drawn), setbacks=setbacks,
        retiring=tuple(draw(st.sets(st.sampled_from(free))) if free else ()),
    )  # fmt: skip
    return World(observed, frozenset(draw(st.sets(st.sampled_from(groups), max_size=2)) if groups else ()))


@given(worlds(), st.sampled_from([0.0, 3.0, 11.0]))
@settings(max_examples=250)
def test_plan_reaches_the_desired_state_from_any_state(world: World, pace: float):
    """At a pace at which pods start between two passes, or at which the plan has to wait for them."""
    for number in range(MOST_PASSES):
        action = world.take_pass()
        if action.act is Act.NOTHING:
            break
        waits = action.act is Act.WAIT
        world.pass_time(max(action.after or 5.0, pace) if waits else pace if number % 2 else 0.0)
    else:
        raise AssertionError(f"not at rest after {MOST_PASSES} passes\n{world}")
    seen, wanted = world.now, world.now.spec
    assert len(seen.active) == wanted.replicas, f"\n{world}"
    assert all(pod.ready for pod in seen.active), f"\n{world}"
    kept = [pod for pod in seen.active if pod.revision != NEW]
    assert len(kept) <= wanted.partition, f"\n{world}"
    assert all(pod.revision == seen.current_revision for pod in kept), f"\n{world}"
    assert not seen.open_draws, f"\n{world}"
    for pod in seen.active:
        if pod.group:
            there = {claim.template for claim in seen.claims if claim.group == pod.group}
            assert pod.phase == "Running"
            assert there <= {"data", "log"}


@given(worlds())
@settings(max_examples=100)
def test_plan_is_deterministic(world: World):
    assert plan(world.now) == plan(world.now)


@given(worlds(), st.integers(0, 5))
@settings(max_examples=120)
def test_plan_reaches_the_desired_state_after_scaling_midway(world, other):
    for _ in range(7):
        world.take_pass()
        world.pass_time(4.0)
    world.put(spec=dataclasses.replace(world.now.spec, replicas=other))
    for _ in range(MOST_PASSES):
        action = world.take_pass()
        if action.act is Act.NOTHING:
            break
        world.pass_time(action.after or 2.0)
    assert len(world.now.active) == other, f"\n{world}"
    assert all(pod.ready for pod in world.now.active), f"\n{world}"
