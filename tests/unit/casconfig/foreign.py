"""Changes of others to an object with configs, and to the same object as it would be without."""

from quintet.apis.casconfig.ledger import ledgers
from quintet.apis.casconfig.places import ABSENT
from unit.casconfig.drawing import a_start
from unit.casconfig.server import at, copied, stored


class SharedObject:
    """The live object, and in `without` the same one in a world that has no configs."""

    def __init__(self, code):
        start, self.pod = a_start(code)
        self.fills_in = bool(code & 256)
        self.live = stored(start, self.fills_in)
        self.without = copied(self.live)
        self.unclear = set()
        """Containers that one config has removed and another has brought, and that others have edited: the
        edit may be one of the object without configs, or not."""
        self.edited = set()
        """Containers that a config has brought and others have edited."""
        self.unclear_variables = set()
        """Containers and variables of which the one that others have removed hid another one."""

    def foreign_edit(self, operation, code):
        edits = {4: self.foreign_metadata, 7: self.foreign_toleration, 8: self.foreign_edit_of_ours}
        edits.get(operation, self.foreign_container)(code)

    def both(self, edit):
        """An edit by somebody else, in both worlds."""
        for name in ("live", "without"):
            obj = copied(getattr(self, name))
            edit(obj)
            setattr(self, name, stored(obj, self.fills_in))

    def containers(self, *, of=None):
        return (
            [item["name"] for item in at(of or self.live, self.pod).get("containers", [])] if self.pod else []
        )

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

    def hides(self, container, variable):
        """Whether a config has replaced a container by one without a variable."""
        entries = [entry for ledger in ledgers(self.live) for entry in ledger.entries]
        wholes = [each.now for each in entries if each.path == ("containers", container)]
        return any(
            whole is not ABSENT and variable not in {item["name"] for item in whole.get("env", [])}
            for whole in wholes
        )

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
                self.unclear.add(gone)
                obj = copied(self.live)
                edit(obj)
                self.live = stored(obj, self.fills_in)
        elif gone is not None or new not in names:
            self.both(edit)

    def foreign_edit_of_ours(self, code):
        """Edit a container that a config has brought, and what it has replaced."""
        ours = sorted(self.brought() & set(self.containers()))
        if not ours:
            return
        name = ours[code % len(ours)]
        container = next(item for item in at(self.live, self.pod)["containers"] if item["name"] == name)
        seen = {item["name"] for item in container.get("env", [])}
        if code % 4 and not code & 24 and f"E{code % 3}" not in seen:
            return  # what is removed is what can be seen
        self.edited.add(name)
        self.find_unclear()
        if code % 4 and not code & 24 and self.hides(name, f"E{code % 3}"):
            self.unclear_variables.add((name, f"E{code % 3}"))
        for world in ("live",) if name in self.unclear else ("live", "without"):
            obj = copied(getattr(self, world))
            if name in [item["name"] for item in at(obj, self.pod).get("containers", [])]:
                self._edit_container(obj, name, code)
                setattr(self, world, stored(obj, self.fills_in))

    def find_unclear(self):
        self.unclear |= self.edited & self.hidden() & self.brought()

    def foreign_values(self, names=None):
        """What others have set inside of (these) containers."""
        found = set()
        for container in at(self.live, self.pod).get("containers", []) if self.pod else []:
            values = [
                container.get("image", ""),
                *(item.get("value", "") for item in container.get("env", [])),
            ]
            if names is None or container["name"] in names:
                path = ("containers", container["name"])
                found |= {(path, value) for value in values if value.startswith("f")}
        return found
