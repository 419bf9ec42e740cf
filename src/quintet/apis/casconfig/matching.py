"""Whether an object is a target of a policy, and if not, the one criterion that it fails. Pure.

Inside a list one entry must fit; across fields all must; of labels and annotations all pairs must be there.
Objects are matched as they would be without any config (`layers.original`).
"""

from typing import Any, NamedTuple

from quintet.apis.casconfig import kinds, scope, template
from quintet.apis.casconfig.places import Path
from quintet.apis.casconfig.spec import CASConfigSpec, Include, Policy
from quintet.apis.meta import JsonObject, ObjectKey, Resource


class Candidate(NamedTuple):
    """An object that might be a target."""

    resource: Resource
    object: JsonObject
    """As it would be without any config."""
    pod: Path | None = None
    """Where it has its pod."""

    @property
    def metadata(self) -> JsonObject:
        """Of the object."""
        return self.object.get("metadata") or {}

    @property
    def key(self) -> ObjectKey:
        """Where the object is."""
        return ObjectKey(self.metadata.get("namespace", ""), self.metadata.get("name", ""))


class Miss(NamedTuple):
    """Why a policy, or with no policy the whole config, does not have an object as its target."""

    policy: str
    reason: str
    """One word for programs: the field of `include`, or what rules the object out."""
    message: str

    def __str__(self) -> str:
        return f"policy {self.policy}: {self.message}" if self.policy else self.message


class Match(NamedTuple):
    """What a config has to do with an object."""

    policies: tuple[Policy, ...] = ()
    """Those that match, in their order."""
    misses: tuple[Miss, ...] = ()
    """One for each policy that does not; or a single one that rules the object out altogether."""


def match(spec: CASConfigSpec, config: ObjectKey, candidate: Candidate, operator: str = "") -> Match:
    """Which policies of a config have an object as their target; `operator` is its own namespace."""
    if (refused := refusal(spec, config, candidate, operator)) is not None:
        return Match(misses=(refused,))
    judged = [(policy, miss(policy, candidate)) for policy in spec.policies]
    return Match(
        tuple(policy for policy, found in judged if found is None),
        tuple(found for _, found in judged if found is not None),
    )


def refusal(spec: CASConfigSpec, config: ObjectKey, candidate: Candidate, operator: str = "") -> Miss | None:
    """What rules an object out, whatever the policies say."""
    resource, metadata = candidate.resource, candidate.metadata
    if why := kinds.forbidden_reason(resource.group, resource.kind):
        return Miss("", "ForbiddenKind", f"a {resource.kind} is never a target: {why}")
    if why := scope.out_of_scope(spec, config.namespace, candidate.key.namespace, operator):
        return Miss("", "OutOfScope", why)
    if metadata.get("deletionTimestamp"):
        return Miss("", "Terminating", "it is being deleted")
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            made_by = f"{owner.get('kind')} {owner.get('name')}"
            return Miss("", "Controlled", f"it is made by {made_by}: target that instead")
    return None


def miss(policy: Policy, candidate: Candidate) -> Miss | None:
    """The first criterion of a policy that an object does not meet; None: it is a target."""
    include = policy.include
    if include.empty:
        return Miss(policy.name, "include", "include is empty, and matches nothing")
    for criterion, message in _criteria(include, candidate):
        if message is not None:
            return Miss(policy.name, criterion, message)
    return None


def _criteria(include: Include, candidate: Candidate) -> tuple[tuple[str, str | None], ...]:
    metadata, key = candidate.metadata, candidate.key
    return (
        ("kinds", _kind(include, candidate)),
        ("namespaces", _one_of("namespace", include.namespaces, key.namespace)),
        ("names", _name(include.names, key.name)),
        ("labels", _pairs("label", include.labels, metadata.get("labels"))),
        ("annotations", _pairs("annotation", include.annotations, metadata.get("annotations"))),
        ("serviceAccounts", _service_account(include, candidate)),
    )


def _kind(include: Include, candidate: Candidate) -> str | None:
    if not include.kinds:
        if candidate.pod is None:
            return "no kinds are named, and it has no pod template"
        # One Job among the workloads would make every batch fail; who means Jobs says so.
        is_job = (candidate.resource.group, candidate.resource.kind) == ("batch", "Job")
        return "no kinds are named, and the pods of a Job cannot be changed any more" if is_job else None
    if any(kinds.names(text, candidate.resource) for text in include.kinds):
        return None
    return f"its kind is {kinds.as_text(candidate.resource)}, not {_either(include.kinds)}"


def _one_of(what: str, wanted: tuple[str, ...], found: str) -> str | None:
    return (
        None if not wanted or found in wanted else f"its {what} is {found or 'none'}, not {_either(wanted)}"
    )


def _name(wanted: tuple[str, ...], found: str) -> str | None:
    if not wanted or any(_matches_glob(pattern, found) for pattern in wanted):
        return None
    return f"its name is {found}, not {_either(wanted)}"


def _matches_glob(pattern: str, text: str) -> bool:
    first, *middle, last = pattern.split("*") if "*" in pattern else (pattern, "")
    if "*" not in pattern or len(text) < len(first) + len(last):
        return pattern == text
    position, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return text.startswith(first) and text.endswith(last)


def _pairs(what: str, wanted: dict[str, str], found: Any) -> str | None:
    present = found or {}
    for key, value in wanted.items():
        if key not in present:
            return f"it has no {what} {key}"
        if present[key] != value:
            return f"its {what} {key} is '{present[key]}', not '{value}'"
    return None


def _service_account(include: Include, candidate: Candidate) -> str | None:
    if not include.service_accounts:
        return None
    found = template.service_account(candidate.object, candidate.pod)
    if found is None:
        return "it has no pods, and so no ServiceAccount"
    return _one_of("ServiceAccount", include.service_accounts, found)


def _either(texts: tuple[str, ...]) -> str:
    shown = ", ".join(texts[:5])
    return f"{shown} or {len(texts) - 5} more" if len(texts) > 5 else shown
