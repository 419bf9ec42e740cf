"""What the policies of a config set on one object. Pure.

Policies in their order; inside one: containers (replace all) → mainContainer → sidecars (add, or merge by
name) → envs → tolerations → labels and annotations. Given the object as the layer of the config finds it
(`layers.beneath`), it gives the settings for `layers.patched`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from quintet.apis.casconfig.layers import Setting
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
) -> Injection:
    """What the policies that match an object set on it; `values` has all that is taken from elsewhere."""
    draft = _Draft(obj, pod)
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

    def __init__(self, obj: JsonObject, pod: Path | None) -> None:
        self.subject = Subject(obj)
        self.pod = pod
        self.settings: dict[Path, Setting] = {}
        self.skipped: list[Skipped] = []
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
        for below in [known for known in self.settings if known[: len(path)] == path]:
            del self.settings[below]
        if value is ABSENT:
            self.subject.remove(place)
            if path not in self._found:
                return  # an earlier policy has brought it
        elif self.subject.put(place, value, at) is None:
            return
        self.settings[path] = Setting(path, value, at)

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
    for item in _variables(draft, values, taken):
        _set_variable(draft, item)
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


def _set_variable(draft: _Draft, item: JsonObject) -> None:
    for kind in CONTAINER_LISTS:
        for name in draft.names(kind):
            path = (kind, name, "env", item["name"])
            present = draft.get(path)
            from_elsewhere = isinstance(present, dict) and present.get("valueFrom")
            if from_elsewhere and path not in draft.settings and not draft.policy.override:
                why = "takes its value from elsewhere (valueFrom); override: true replaces it"
                draft.skip(as_text(path), "HasValueFrom", f"{item['name']} of container {name} {why}")
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
