"""A small world to try configs in: an object with them, and the same object as it would be without.

Everything is drawn from small whole numbers, so that a failing sequence shrinks to a short one. Values that
configs set, that were there from the start and that others set never look alike.
"""

import json

import pytest

from quintet.apis.casconfig.injection import desired_settings
from quintet.apis.casconfig.layers import (
    Rewrite,
    beneath,
    build_rewrite,
    original,
    record_layer,
    restore_layer,
)
from quintet.apis.casconfig.ledger import LedgerError, annotation, ledgers
from quintet.apis.casconfig.places import ABSENT, CONTAINER_LISTS, Subject, absolute, from_text
from quintet.apis.meta import ObjectKey
from unit.casconfig.drawing import a_policy
from unit.casconfig.foreign import SharedObject
from unit.casconfig.server import applied, at, copied, meaning, stored, traces

CONFIGS = (ObjectKey("shop", "low"), ObjectKey("shop", "high"), ObjectKey("elsewhere", "low"))
MOST_ROUNDS = 6
OPERATIONS = tuple(range(15))
"""The first numbers of steps."""


class World(SharedObject):
    """Configs and what they do to an object."""

    def __init__(self, code):
        super().__init__(code)
        self.active = {}
        self.reported = set()
        """Containers that were reported as left."""
        self.damaged = {}
        """Configs whose ledger nobody can read now, and that ledger."""
        self.tampered = False
        """Whether values of configs may belong to others now, because a ledger was changed."""
        self.story = []

    def send(self, patch):
        if patch:
            self.live = stored(applied(self.live, patch), self.fills_in)

    def apply(self, config, policies):
        """One look of the controller at one config."""
        self.active[config] = policies
        if self.is_refused(config):
            return Rewrite((), self.live)
        asked = desired_settings(policies, beneath(self.live, config), {}, self.pod)
        return self.carry_out(build_rewrite(self.live, config, asked.settings, self.pod))

    def remove(self, config):
        self.active.pop(config, None)
        if self.is_refused(config):
            self.write_ledger(config, None)
        return self.carry_out(build_rewrite(self.live, config, ()))

    def is_refused(self, config):
        """Whether the controller refuses to touch the object for a config, whatever it wants to do."""
        if config not in self.damaged:
            return False
        for read in (beneath, record_layer, lambda live, config: build_rewrite(live, config, ())):
            with pytest.raises(LedgerError):
                read(self.live, config)
        return True

    def carry_out(self, rewrite):
        inside = self.foreign_values(self.brought())
        self.send(rewrite.patch)
        reported = {from_text(each.path)[:2] for each in rewrite.left}
        reported |= {from_text(path)[:2] for path in (*rewrite.dropped, *rewrite.retaken)}
        gone = {path for path, value in inside - self.foreign_values() if not self.is_recorded(value)}
        assert gone <= reported, f"not reported: {gone - reported}; {self}"
        for left in rewrite.left:
            path = from_text(left.path)
            if path[0] in CONTAINER_LISTS and len(path) != 4:
                self.report_left(path, left.found)
        return rewrite

    def report_left(self, path, found):
        """What is in containers that configs brought, and others have changed, is reported and now theirs."""
        subject, place = Subject(self.without), absolute(path, self.pod)
        if len(path) == 2:
            self.reported.add(path[1])
            if found is not ABSENT and subject.get(place) is ABSENT:
                subject.put(place, found)
        elif subject.get(place[:-1]) is not ABSENT:
            theirs = self.tampered or path[1] in self.reported or str(found)[0] not in "co"
            assert theirs, "it was not changed by others"
            subject.put(place, found)
        self.without = stored(subject.object, self.fills_in)

    def apply_and_roll_back(self, config, policies, edit=None):
        """Apply policies to the object and roll that back, because another target has failed."""
        if self.is_refused(config):
            return
        before, active = record_layer(self.live, config), self.active.get(config)
        theirs = self.containers(of=self.without)
        if not self.apply(config, policies).patch:
            return
        given = set(self.containers(of=self.without)) - set(theirs)
        if edit is not None:
            edit()
        if before.values:
            self.active.pop(config)
            self.active |= {config: active} if active is not None else {}
            self.carry_out(restore_layer(self.live, config, before, self.pod))
            self.take_back(given)
        else:
            self.remove(config)

    def take_back(self, names):
        """Containers that were left to others, when a rollback makes them values of a config again."""
        if self.pod:
            pod, again = at(self.without, self.pod), names & self.brought()
            pod["containers"] = [item for item in pod.get("containers", []) if item["name"] not in again]

    def crash(self, config, policies, code):
        """The process dies in the middle of a batch. The next one finishes it, or undoes the whole config."""
        self.apply(config, policies)
        if code & 8:
            self.foreign_edit_of_ours(code)
        if code & 16:
            self.apply(config, policies)
        else:
            self.remove(config)

    def is_recorded(self, value):
        """Whether a value is in a ledger, to be restored."""
        return any(value in text for text in self.live["metadata"].get("annotations", {}).values())

    def tamper(self, config, code):
        """Somebody changes a ledger by hand: what it said belongs to nobody then."""
        key = annotation(config, "shop")
        text = self.live["metadata"].get("annotations", {}).get(key)
        if config in self.damaged:
            return self.write_ledger(config, self.damaged[config] if code & 4 else None)
        if text is None or not json.loads(text)["set"]:
            forged = {"labels/k2": {"was": f"f{code % 4}", "is": "o1"}, "labels/k0": {"is": "o0"}}
            body = {"of": str(config), "layer": 1, "set": forged}
            return self.write_ledger(config, json.dumps(body)) if code & 4 else None
        body = json.loads(text)
        path = sorted(body["set"])[code // 4 % len(body["set"])]
        match code % 4:
            case 0:
                self.write_ledger(config, None)
            case 1:
                risky = {"containers/web": {"was": {"name": "web", "securityContext": {"privileged": True}}}}
                self.write_ledger(config, json.dumps(body | {"set": risky}) if code & 32 else "y")
            case 2:
                self.write_ledger(config, json.dumps(body | {"set": body["set"] | _forged(path, code)}))
            case _:
                del body["set"][path]
                self.write_ledger(config, json.dumps(body))

    def write_ledger(self, config, text):
        """Write a ledger by hand, and let the object without configs be what the ledgers make of it.

        Only paths that this ledger named, or names now, may differ from before.
        """
        self.tampered = True
        key, before, paths = annotation(config, "shop"), original(self.live), self.named_by(config)
        obj = copied(self.live)
        annotations = obj["metadata"].setdefault("annotations", {})
        was = annotations.pop(key, None)
        if text is not None:
            annotations[key] = text
        self.live = stored(obj, self.fills_in)
        self.damaged.pop(config, None)
        if text is not None and all(ledger.config != config for ledger in ledgers(self.live)):
            self.damaged[config] = was
        after = original(self.live)
        paths |= self.named_by(config)
        self.unclear |= {path[1] for path in paths if path[0] == "containers"} & self.brought()
        assert self.outside(before, paths) == self.outside(after, paths), str(self)
        self.without = stored(after, self.fills_in)

    def named_by(self, config):
        return {
            entry.path for ledger in ledgers(self.live) if ledger.config == config for entry in ledger.entries
        }

    def outside(self, obj, paths):
        """An object without what is at some paths."""
        subject = Subject(obj)
        for path in paths:
            place = absolute(path[:2], self.pod)
            if place is not None:
                subject.remove(place)
        return meaning(subject.object, ordered=False)

    def look_at_metadata(self, config):
        """A look of the controller at an object of which it reads no spec: its kind hides the template."""
        if config not in self.active or self.is_refused(config):
            return
        seen = {key: value for key, value in self.live.items() if key != "spec"}
        asked = desired_settings(self.active[config], beneath(seen, config), {}, None)
        self.send(build_rewrite(seen, config, asked.settings, None).patch)

    def settle(self):
        """Every config looks until none has anything to do; returns after how many rounds."""
        for rounds in range(MOST_ROUNDS):
            patches = [self.apply(config, policies).patch for config, policies in list(self.active.items())]
            if not any(patches):
                return rounds
        raise AssertionError(f"configs do not come to rest; {self}")

    def step(self, operation, config, code):
        """Do what three numbers say."""
        config = CONFIGS[config]
        policies = [a_policy(code), a_policy(code // 7, 1)][: 1 + code % 2]
        match operation:
            case 0 | 1 | 2:
                self.apply(config, policies)
            case 3:
                self.remove(config)
            case 4 | 5 | 6 | 7 | 8:
                self.foreign_edit(operation, code)
                if operation == 8 and code & 2048:
                    self.settle()
            case 9:
                self.settle()
            case 10:
                self.apply_and_roll_back(config, policies)
            case 11:
                edit = (4, 5, 7, 8)[code // 5 % 4]
                self.apply_and_roll_back(config, policies[:1], lambda: self.foreign_edit(edit, code // 3))
            case 12:
                self.look_at_metadata(config)
            case 13:
                self.crash(config, policies[:1], code // 7)
            case 14:
                self.tamper(config, code)
        self.find_unclear()
        self.story.append(((operation, config, code), self.live))

    def run(self, steps, order):
        """Carry out steps and remove all configs; raises AssertionError if the object is not as others left it."""
        for step in steps:
            self.step(*step)
        for config in order:
            self.remove(config)
        assert traces(self.live) == []
        assert self.differences() == []

    def differences(self, *, ordered=False):
        """Return how the object differs from the same one without configs."""
        one, other = (meaning(each, ordered=ordered) for each in map(self._clear, (self.live, self.without)))
        return [] if one == other else [str(self)]

    def _clear(self, obj):
        obj = copied(obj)
        if self.pod:
            pod = at(obj, self.pod)
            unclear = [item for item in pod.get("containers", []) if item["name"] in self.unclear]
            ours = {item["name"] for item in unclear if item.get("image", "").startswith("c")}
            assert self.tampered or ours <= self.reported, str(self)
            pod["containers"] = [item for item in pod.get("containers", []) if item not in unclear]
            for item in pod["containers"]:
                env = item.get("env", [])
                item["env"] = [each for each in env if not self.is_unclear(item["name"], each)]
        return obj

    def is_unclear(self, container, item):
        """Whether it is not clear whose a variable is: a container that is left as it is has some of configs."""
        ours = item.get("value", "").startswith("c") and container in self.reported
        return ours or (container, item["name"]) in self.unclear_variables

    def __str__(self):
        lines = [f"{step} -> {json.dumps(live)}" for step, live in self.story]
        return "\n".join([*lines, f"live    {json.dumps(self.live)}", f"without {json.dumps(self.without)}"])


def _forged(path, code):
    """An entry of a ledger with an earlier value that nobody had there."""
    value = f"f{code % 5}"
    if path.startswith(("labels/", "annotations/")):
        return {path: {"was": value, "is": "c0"}}
    kind, name, *rest = from_text(path)
    if kind != "containers" or rest:
        return {path: {"is": "f"}} if not rest else {}
    return {path: {"was": {"name": name, "image": f"f:{code % 5}"}, "at": code % 2}}
