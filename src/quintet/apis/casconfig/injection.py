"""What the policies of a config set on one object. Pure.

Policies in their order; inside one: containers (replace all) → mainContainer → sidecars (add, or merge by
name) → envs → tolerations → labels and annotations. Given the object as the layer of the config finds it
(`layers.beneath`), it gives the settings for `layers.patched`.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final, NamedTuple

from quintet.apis.casconfig.ledger import raise_too_large
from quintet.apis.casconfig.merging import MERGED
from quintet.apis.casconfig.places import (
    ABSENT,
    CONTAINER_LISTS,
    IDENTITIES,
    Path,
    Subject,
    absolute,
    as_text,
    identity,
)
from quintet.apis.casconfig.rewrites import Setting, least_size
from quintet.apis.casconfig.sources import SecretKey, Value
from quintet.apis.casconfig.spec import FromOperation, Policy, ToType, Values
from quintet.apis.casconfig.template import POD, pod_annotations
from quintet.apis.meta import JsonObject

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


class Skipped(NamedTuple):
    """A value that is not set, and why."""

    policy: str
    path: str
    reason: str
    """One word for programs."""
    message: str


class Injection(NamedTuple):
    """What is set on an object, and what is not."""

    settings: tuple[Setting, ...]
    skipped: tuple[Skipped, ...] = ()


def desired_settings(
    policies: Iterable[Policy],
    obj: JsonObject,
    values: Mapping[FromOperation, Value],
    pod: Path | None,
    *,
    most_bytes: float = inf,
) -> Injection:
    """What the policies that match an object set on it; `values` has all that is taken from elsewhere.

    Raises `LedgerTooLargeError` as soon as they set more bytes than may be kept.
    """
    draft = _Draft(obj, pod, most_bytes)
    for policy in policies:
        draft.policy = policy
        if pod is not None:
            _set_pod(draft, policy.values, values)
        else:
            draft.skip_pod_values()
        _set_metadata(draft, policy.values, values)
    return Injection(tuple(draft.whole_settings()), tuple(draft.skipped))


def place_to_inject(pod: Path | None) -> Path | None:
    """Where pod-level values of an object that exists go: a pod that runs takes none."""
    return None if pod == POD else pod


class _Draft:
    """The object with what was set so far, so that later values see earlier ones."""

    policy: Policy

    def __init__(self, obj: JsonObject, pod: Path | None, most_bytes: float) -> None:
        self.subject = Subject(obj)
        self.pod = pod
        self.settings: dict[Path, Setting] = {}
        self.skipped: list[Skipped] = []
        self._size, self._most_bytes = 0, most_bytes
        self._above: set[Path] = set()
        """Paths below which something was set."""
        self._found = {(kind, name) for kind in CONTAINER_LISTS for name in self.names(kind)}

    def get(self, path: Path) -> Any:
        """What is at a path by now."""
        place = absolute(path, self.pod)
        return self.subject.get(place) if place is not None else ABSENT

    def set(self, path: Path, value: Any, at: int | None = None) -> None:
        """Set a value; what was set at or below its path is overwritten by it."""
        place = absolute(path, self.pod)
        if place is None:
            return
        known = self.settings.get(path)
        if known is not None and known == (path, value, at) and path not in self._above:
            self.settings[path] = self.settings.pop(path)  # as an earlier policy has set it
            return
        self._forget(path)
        if value is ABSENT:
            self.subject.remove(place)
            if path not in self._found:
                return  # an earlier policy has brought it
        elif self.subject.put(place, value, at) is None:
            return
        self._add(Setting(path, value, at))

    def _forget(self, path: Path) -> None:
        """Drop what was set at or below a path."""
        below = [path] if path in self.settings else []
        if path in self._above:
            below += [known for known in self.settings if known[: len(path)] == path and known != path]
        for each in below:
            self._size -= least_size(self.settings.pop(each))

    def _add(self, setting: Setting) -> None:
        self.settings[setting.path] = setting
        self._above.update(setting.path[:length] for length in range(1, len(setting.path)))
        self._size += least_size(setting)
        if self._size > self._most_bytes:
            raise_too_large(self._size)

    def whole_settings(self) -> Iterable[Setting]:
        """Yield what is set. What is set in a container that is set as a whole is part of that container."""
        for path, setting in self.settings.items():
            if len(path) == 2 and path[0] in CONTAINER_LISTS:
                yield setting._replace(value=self.get(path))
            elif path[:2] == path or path[:2] not in self.settings:
                yield setting

    def names(self, kind: str) -> list[str]:
        """Of the containers by now."""
        found = self.get((kind,))
        return [identity(kind, item) for item in found] if isinstance(found, list) else []

    def skip(self, path: str, reason: str, message: str) -> None:
        """Note what is not set."""
        self.skipped.append(Skipped(self.policy.name, path, reason, message))

    def skip_pod_values(self) -> None:
        """Note that an object has no pod to set anything on."""
        kind = self.subject.object.get("kind", "object")
        for field in self.policy.values.for_pods:
            if kind == "Pod":
                why = "the containers of a running pod cannot be changed: target what makes the pod"
                self.skip(field, "PodIsFixed", why)
            else:
                self.skip(field, "NoPodTemplate", f"a {kind} has no pod template")


def _set_pod(draft: _Draft, values: Values, taken: Mapping[FromOperation, Value]) -> None:
    if values.containers:
        _replace_all(draft, values.containers)
    if values.main is not None:
        _replace_main(draft, values.main)
    for sidecar in values.sidecars:
        _add_or_merge(draft, sidecar)
    containers = [(kind, name) for kind in CONTAINER_LISTS for name in draft.names(kind)]
    for item in _variables(draft, values, taken):
        for container in containers:
            _set_variable(draft, container, item)
    for toleration in values.tolerations:
        draft.set(("tolerations", identity("tolerations", toleration)), toleration)


def _replace_all(draft: _Draft, containers: Iterable[JsonObject]) -> None:
    given = {identity("containers", each): each for each in containers}
    for name in draft.names("containers"):
        if name not in given:
            draft.set(("containers", name), ABSENT)
    for index, (name, container) in enumerate(given.items()):
        draft.set(("containers", name), container, index)


def _replace_main(draft: _Draft, container: JsonObject) -> None:
    present, name = draft.names("containers"), identity("containers", container)
    chosen = pod_annotations(draft.subject.object, draft.pod or POD).get(DEFAULT_CONTAINER)
    main = chosen if chosen in present else next(iter(present), name)
    at = present.index(main) if main in present else 0
    if main != name:
        draft.set(("containers", main), ABSENT)
    draft.set(("containers", name), container, at)


def _add_or_merge(draft: _Draft, container: JsonObject) -> None:
    name = identity("containers", container)
    there = next((kind for kind in CONTAINER_LISTS if name in draft.names(kind)), None)
    if there is not None:
        _merge(draft, (there, name), container)
    else:
        # Kubernetes' own sidecars are init containers that go on running.
        kind = "initContainers" if container.get("restartPolicy") == "Always" else "containers"
        draft.set((kind, name), container)


def _merge(draft: _Draft, path: Path, value: JsonObject) -> None:
    for key, item in value.items():
        below = (*path, key)
        if key == "name" and len(path) == 2:
            continue
        if isinstance(item, dict) and key in MERGED:
            _merge(draft, below, item)
        elif isinstance(item, list) and key in IDENTITIES:
            for each in item:
                draft.set((*below, identity(key, each)), each)
        else:
            draft.set(below, item)


def _variables(draft: _Draft, values: Values, taken: Mapping[FromOperation, Value]) -> list[JsonObject]:
    found: list[JsonObject] = [{"name": name, "value": value} for name, value in values.envs.items()]
    namespace = (draft.subject.object.get("metadata") or {}).get("namespace", "")
    for source in values.sources:
        if source.to_type is not ToType.ENV or source not in taken:
            continue
        value = taken[source]
        if not isinstance(value, SecretKey):
            found.append({"name": source.to_key, "value": value})
        elif value.namespace != namespace:
            why = f"pods in {namespace} cannot refer to the Secret {value.namespace}/{value.name}"
            draft.skip(f"env {source.to_key}", "SecretElsewhere", why)
        else:
            reference = {"secretKeyRef": {"name": value.name, "key": value.key}}
            found.append({"name": source.to_key, "valueFrom": reference})
    return found


def _set_variable(draft: _Draft, container: Path, item: JsonObject) -> None:
    path = (*container, "env", item["name"])
    present = ABSENT if draft.policy.override or path in draft.settings else draft.get(path)
    if isinstance(present, dict) and present.get("valueFrom"):
        why = "takes its value from elsewhere (valueFrom); override: true replaces it"
        draft.skip(as_text(path), "HasValueFrom", f"{item['name']} of container {container[1]} {why}")
    else:
        draft.set(path, item)


def _set_metadata(draft: _Draft, values: Values, taken: Mapping[FromOperation, Value]) -> None:
    pairs = [("labels", key, value) for key, value in values.labels.items()]
    pairs += [("annotations", key, value) for key, value in values.annotations.items()]
    for source in values.sources:
        value = taken.get(source)
        # Validation rejects a Secret here; an object that bypassed the webhook must not inject it either.
        if source.to_type is not ToType.ENV and isinstance(value, str):
            pairs.append((f"{source.to_type}s", source.to_key, value))
    for kind, key, text in pairs:
        draft.set((kind, key), text)
