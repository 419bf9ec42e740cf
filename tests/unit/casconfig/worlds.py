"""A small world to try configs in: an object with them, and the same object as it would be without.

Everything is drawn from small whole numbers, so that a failing sequence shrinks to a short one. Values that
configs set, that were there from the start and that others set never look alike.
"""

import json

import msgspec

from quintet.apis.casconfig import Policy
from quintet.apis.casconfig.injection import desired_settings
from quintet.apis.casconfig.layers import beneath, build_rewrite
from quintet.apis.casconfig.ledger import PREFIX, ledgers
from quintet.apis.casconfig.places import ABSENT, identity
from quintet.apis.meta import ObjectKey

TEMPLATE = ("spec", "template", "spec")
JOB_TEMPLATE = ("spec", "jobTemplate", "spec", "template", "spec")
CONFIGS = (ObjectKey("shop", "low"), ObjectKey("shop", "high"), ObjectKey("elsewhere", "low"))
MOST_ROUNDS = 6


def copied(obj):
    """Return a copy that shares nothing, in a fraction of the time that `copy.deepcopy` takes."""
    return msgspec.json.decode(msgspec.json.encode(obj))


def at(obj, path):
    for step in path:
        obj = obj.setdefault(step, {})
    return obj


def a_start(code):
    """An object as its users made it."""
    pod = (TEMPLATE, JOB_TEMPLATE, None)[code % 3]
    obj = {"kind": "Thing", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "1"}}
    if code & 4:
        obj["metadata"]["labels"] = {"k0": "o0", "k1": "o1"}
    if code & 8:
        obj["metadata"]["annotations"] = {"k0": "o0"}
    if pod is None:
        return obj, pod
    spec = at(obj, pod)
    spec["containers"] = [{"name": "web", "image": "o:1"}]
    if code & 16:
        spec["containers"].append({"name": "log", "image": "o:2", "env": [{"name": "E0", "value": "o0"}]})
    if code & 32:
        spec["containers"][0]["env"] = [
            {"name": "E1", "value": "o1"},
            {"name": "E2", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]
    if code & 64:
        spec["initContainers"] = [{"name": "init", "image": "o:3"}]
    if code & 128:
        spec["tolerations"] = [{"key": "t0", "operator": "Exists"}]
    return obj, pod


def a_policy(code, number=0):
    """One policy; every bit of the code is one thing that it does."""
    values, value = {}, f"c{code % 3}"
    if code & 4:
        values["labels"] = {f"k{code % 2}": value, "k2": value}
    if code & 8:
        values["annotations"] = {"k0": value}
    if code & 16:
        values["envs"] = {f"E{code % 3}": value, "E3": value}
    if code & 32:
        name = ("side", "web", "log", "z0")[code % 4]
        sidecar = {"name": name, "image": f"c:{value}", "env": [{"name": "E0", "value": value}]}
        if code & 256:
            sidecar["resources"] = {"limits": {"cpu": "1000m"}}
        if code & 512:
            sidecar |= {"name": "proxy", "restartPolicy": "Always"}
        values["sidecars"] = [sidecar]
    if code & 64:
        values["tolerations"] = [{"key": "t0", "operator": "Exists"}, {"key": value, "operator": "Exists"}]
    if code & 128:
        values["mainContainer"] = {"name": ("web", "main")[code % 2], "image": f"c:{value}"}
    if code & 1024:
        values["containers"] = [
            {"name": name, "image": f"c:{value}"} for name in ("app", "web")[: 1 + code % 2]
        ]
    policy = {
        "name": f"p{number}",
        "include": {"names": ["*"]},
        "values": values,
        "override": bool(code & 2048),
    }
    return msgspec.convert(policy, Policy)


def stored(obj, fills_in):
    """What the API server makes of an object that is sent to it."""
    obj = copied(obj)
    metadata = obj["metadata"]
    for name in ("labels", "annotations"):
        if not metadata.get(name, True):
            del metadata[name]
    for pod in (TEMPLATE, JOB_TEMPLATE) if fills_in else ():
        spec = obj
        for step in pod:
            spec = spec.get(step) or {}
        for kind in ("containers", "initContainers"):
            for container in spec.get(kind) or ():
                _fill_in(container)
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
    return obj


def _fill_in(container):
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", "IfNotPresent")
    container.setdefault("resources", {})
    limits = container["resources"].get("limits", {})
    if limits.get("cpu") == "1000m":
        limits["cpu"] = "1"


def applied(obj, patch):
    """A JSON patch carried out as RFC 6902 says, with the version as a precondition."""
    obj = copied(obj)
    for operation in patch:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        if steps == ["metadata", "resourceVersion"]:
            assert operation["value"] == obj["metadata"]["resourceVersion"], "409: the object has changed"
            continue
        holder = obj
        for step in steps[:-1]:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        last = int(steps[-1]) if isinstance(holder, list) else steps[-1]
        match operation["op"]:
            case "remove":
                del holder[last]
            case "add" if isinstance(holder, list):
                assert last <= len(holder)
                holder.insert(last, operation["value"])
            case "add":
                holder[last] = operation["value"]
            case "replace":
                assert holder[last] is not None
                holder[last] = operation["value"]
    return obj


class World:
    """The live object, and in `without` the same one in a world that has no configs."""

    def __init__(self, code):
        start, self.pod = a_start(code)
        self.fills_in = bool(code & 256)
        self.live = stored(start, self.fills_in)
        self.without = copied(self.live)
        self.active = {}
        self.story = []

    def send(self, patch):
        if patch:
            self.live = stored(applied(self.live, patch), self.fills_in)

    def apply(self, config, policies):
        """One look of the controller at one config."""
        self.active[config] = policies
        asked = desired_settings(policies, beneath(self.live, config), {}, self.pod)
        rewrite = build_rewrite(self.live, config, asked.settings, self.pod)
        self.send(rewrite.patch)
        return rewrite

    def remove(self, config):
        self.active.pop(config, None)
        rewrite = build_rewrite(self.live, config, ())
        self.send(rewrite.patch)
        return rewrite

    def settle(self):
        """Every config looks until none has anything to do; returns after how many rounds."""
        for rounds in range(MOST_ROUNDS):
            patches = [self.apply(config, policies).patch for config, policies in list(self.active.items())]
            if not any(patches):
                return rounds
        raise AssertionError(f"configs do not come to rest; {self}")

    def both(self, edit):
        """An edit by somebody else, in both worlds."""
        for name in ("live", "without"):
            obj = copied(getattr(self, name))
            edit(obj)
            setattr(self, name, stored(obj, self.fills_in))

    def containers(self, kind="containers"):
        return [item["name"] for item in at(self.live, self.pod).get(kind, [])] if self.pod else []

    def brought(self):
        """The containers that are there, or as they are, because of a config."""
        return {
            entry.path[1]
            for ledger in ledgers(self.live)
            for entry in ledger.entries
            if entry.path[0] == "containers" and entry.is_container and entry.now is not ABSENT
        }

    def hidden(self):
        """The containers that a config has removed."""
        return {
            entry.path[1]
            for ledger in ledgers(self.live)
            for entry in ledger.entries
            if entry.path[0] == "containers" and entry.is_container and entry.now is ABSENT
        }

    def foreign_metadata(self, code):
        kind, key = ("labels", "annotations")[code % 2], f"k{code % 3}"

        def edit(obj):
            values = obj["metadata"].setdefault(kind, {})
            if code & 8:
                values.pop(key, None)
            else:
                values[key] = f"f{code % 4}"

        self.both(edit)

    def foreign_toleration(self, code):
        if self.pod is None:
            return
        wanted_gone = [{"key": "t0", "operator": "Exists"}, {"key": "c0", "operator": "Exists"}][code % 2]

        def edit(obj):
            items = at(obj, self.pod).setdefault("tolerations", [])
            if code & 8:
                items[:] = [item for item in items if item != wanted_gone]
            else:
                items.append({"key": f"f{code % 4}"})

        # A toleration is known by its value, so there are no two of one.
        if code & 8 or {"key": f"f{code % 4}"} not in at(self.live, self.pod).get("tolerations", []):
            self.both(edit)

    def foreign_container(self, code):
        """Edit, add or remove a container that no config has brought."""
        if self.pod is None:
            return
        if code % 4 == 3:
            return self._add_or_remove(code)
        free = [name for name in self.containers() if name not in self.brought()]
        if free:
            name = free[code % len(free)]
            self.both(lambda obj: self._edit_container(obj, name, code))

    def _edit_container(self, obj, name, code):
        container = next(item for item in at(obj, self.pod)["containers"] if item["name"] == name)
        if code % 4 == 0:
            container["image"] = f"f:{code % 5}"
            return
        variable = f"E{code % 3}"
        env = [item for item in container.get("env", []) if item["name"] != variable]
        if code & 8:
            env.append({"name": variable, "value": f"f{code % 5}"})
        elif code & 16:
            env.append({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": f"f{code % 5}"}}})
        container["env"] = env
        if not env:
            del container["env"]

    def _add_or_remove(self, code):
        names = self.containers()
        gone = names[code % len(names)] if names and code & 8 else None
        new = f"z{code % 2}"

        def edit(obj):
            items = at(obj, self.pod).setdefault("containers", [])
            items[:] = [item for item in items if item["name"] != (gone or new)]
            if gone is None:
                items.append({"name": new, "image": f"f:{code % 5}"})

        if gone in self.hidden():
            # The one beneath is not theirs to remove: they do not see it.
            if gone in self.brought():
                obj = copied(self.live)
                edit(obj)
                self.live = stored(obj, self.fills_in)
        elif gone is not None or new not in names:
            self.both(edit)

    def foreign_edit_of_ours(self, code):
        """Edit a container that a config has brought. The configs notice, and set it right."""
        ours = sorted(self.brought() & set(self.containers()))
        if ours:
            obj = copied(self.live)
            name = ours[code % len(ours)]
            container = next(item for item in at(obj, self.pod)["containers"] if item["name"] == name)
            container["image"] = f"f:{code % 5}"
            self.live = stored(obj, self.fills_in)
            self.settle()

    def step(self, operation, config, code):
        """Do what three numbers say."""
        config = CONFIGS[config]
        match operation:
            case 0 | 1 | 2:
                self.apply(config, [a_policy(code), a_policy(code // 7, 1)][: 1 + code % 2])
            case 3:
                self.remove(config)
            case 4:
                self.foreign_metadata(code)
            case 5 | 6:
                self.foreign_container(code)
            case 7:
                self.foreign_toleration(code)
            case 8:
                self.foreign_edit_of_ours(code)
            case 9:
                self.settle()
        self.story.append(((operation, config, code), self.live))

    def __str__(self):
        lines = [f"{step} -> {json.dumps(live)}" for step, live in self.story]
        return "\n".join([*lines, f"live    {json.dumps(self.live)}", f"without {json.dumps(self.without)}"])


def meaning(obj, *, ordered=True):
    """An object as its users see it: no versions, no ledgers, nothing empty, without order where asked."""
    if isinstance(obj, dict):
        found = {
            key: _meaning_of_list(key, value, ordered)
            if isinstance(value, list)
            else meaning(value, ordered=ordered)
            for key, value in obj.items()
            if key != "resourceVersion" and not key.startswith(PREFIX)
        }
        return {key: value for key, value in found.items() if value not in ({}, [])}
    return obj


def _meaning_of_list(key, items, ordered):
    found = [meaning(item, ordered=ordered) for item in items]
    return found if ordered else sorted(found, key=lambda item: identity(key, item))


def traces(obj):
    """What configs have left on an object."""
    return [key for key in obj["metadata"].get("annotations", {}) if key.startswith(PREFIX)]
