"""Status of a Quintet, from the observed state of its parts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from quintet.apis.meta import Condition
from quintet.apis.suite import ComponentStatus, Quintet, QuintetStatus
from quintet.apis.text import truncate
from quintet.controllers.suite.decide.installation import ALL_NAMESPACES, Images, Installation, Part, Scope
from quintet.controllers.suite.decide.rollout import Rollout, Rollouts, component
from quintet.controllers.suite.decide.user_objects import ObjectsWithoutController, describe_deletions

AVAILABLE, PROGRESSING, DEGRADED = "Available", "Progressing", "Degraded"
_LONGEST = 1001


class Reason(StrEnum):
    """Reasons of conditions. What to do about each: docs/suite.md."""

    ALL_SERVE = "AllControllersServe"
    NOT_SERVING = "ControllersNotServing"
    NO_LEADER = "NoLeader"
    NO_NAMESPACES = "NoNamespaces"
    MISSING_NAMESPACE = "MissingNamespace"
    NEWER_DEFINITIONS = "NewerDefinitions"
    FINISHING_DELETIONS = "FinishingDeletions"
    DELETIONS_WAIT = "DeletionsWithoutController"
    ROLLING_OUT = "RollingOut"
    REMOVING = "Removing"
    DEFINITIONS = "WaitingForDefinitions"
    WEBHOOKS = "WaitingForWebhooks"
    LEADERS = "WaitingForLeaders"
    SETTLED = "Settled"
    AS_WANTED = "AsWanted"
    UNSAFE_DEFINITION = "UnsafeDefinition"
    UNKNOWN_CONTROLLER = "UnknownController"
    FOREIGN_OBJECT = "ForeignObject"
    APPLY_FAILED = "ApplyFailed"
    WENT_BACK = "WentBack"
    NOT_COMING_UP = "NotComingUp"
    PODS_FAIL = "PodsFail"
    PODS_RESTART = "PodsRestart"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the installation is not in its desired state."""

    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class InstallationState:
    """Everything that one reconciliation observed."""

    rollouts: Rollouts = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    waiting: tuple[str, ...] = ()
    """CRDs that the API server does not serve yet."""
    removing: tuple[str, ...] = ()
    """Objects that are no longer desired and still exist."""
    unregistered: frozenset[str] = frozenset()
    """Parts whose webhooks are not registered yet: writes are not validated."""
    fallbacks: Images = field(default_factory=dict)
    """Images that controllers fell back to."""
    failed_images: Images = field(default_factory=dict)
    """Images that failed to roll out, by controller."""
    scope: Scope = ALL_NAMESPACES
    """The namespaces that the controllers watch."""
    waiting_objects: ObjectsWithoutController = field(default_factory=ObjectsWithoutController)
    """Objects with finalizers of controllers that the spec does not name."""
    finishing: tuple[str, ...] = ()
    """Of these controllers, those that still run, to finish deletions."""
    wider: tuple[str, ...] = ()
    """CRDs of a later version that stay, with what this version ignores."""
    blocked: frozenset[str] = frozenset()
    """Parts that are not rolled out, because something that they need is missing."""
    leaderless: Mapping[str, str] = field(default_factory=dict)
    """Why no pod of a part leads, by part."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """Why pods do not run, by part."""
    restarts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Descriptions of pods that have restarted lately, by part."""

    def is_serving(self, part: str) -> bool:
        """Return whether a pod of a part is available, and the API server calls its webhooks."""
        return part not in self.unregistered and self.rollouts.get(part, Rollout()).serving


def status_of(quintet: Quintet, made: Installation, seen: InstallationState, version: str) -> QuintetStatus:
    """Return the status, without the transition times of its conditions."""
    components = [*_components(quintet, made.parts, seen), *map(_unknown_component, made.unknown)]
    ready = sum(each.ready for each in components)
    return QuintetStatus(
        observed_generation=quintet.metadata.generation,
        version=version,
        ready=f"{ready}/{len(components)}",
        components=tuple(components),
        conditions=(
            _available_condition(made, seen),
            _progressing_condition(made, seen),
            _degraded_condition(made, seen),
        ),
    )


def _components(
    quintet: Quintet, parts: Iterable[Part], seen: InstallationState
) -> Iterable[ComponentStatus]:
    for part in parts:
        rollout = seen.rollouts.get(part.name, Rollout())
        for name in part.controllers:
            before = component(quintet, name)
            complete = rollout.complete and rollout.image == part.image and part.name not in seen.unregistered
            yield ComponentStatus(
                name=name,
                ready=complete and part.name not in seen.leaderless,
                version=version_of(rollout.image) if rollout.serving else "",
                image=rollout.image if rollout.complete else before.image,
                failed_image=seen.failed_images.get(name, ""),
                message=_component_message(name, part, rollout, seen),
            )


def _component_message(name: str, part: Part, rollout: Rollout, seen: InstallationState) -> str:
    if name in seen.fallbacks:
        return (
            f"{seen.failed_images[name]} failed to roll out, so it was rolled back to "
            f"{seen.fallbacks[name]}; change spec.image, or any other field of the spec to try again"
        )
    if rollout.generation == 0:
        return "not started yet"
    if rollout.has_failed:
        cause = seen.causes.get(part.name) or f"check the pods of {part.name}"
        return f"{rollout.image} fails to roll out: {_counts(rollout)}; {cause}"
    if rollout.image != part.image:
        return f"waiting to roll out {part.image}"
    if not rollout.complete:
        why = seen.causes.get(part.name)
        return f"rolling out: {_counts(rollout)}" + (f"; {why}" if why else "")
    if part.name in seen.unregistered:
        return "its webhooks are not registered yet"
    return seen.leaderless.get(part.name, "")


def _counts(rollout: Rollout) -> str:
    done, available = rollout.status.updated_replicas, rollout.status.available_replicas
    return f"{done} of {rollout.replicas} pods are updated, {available} are available"


def _unknown_component(name: str) -> ComponentStatus:
    return ComponentStatus(name=name, message="this installation has no such controller")


def _available_condition(made: Installation, seen: InstallationState) -> Condition:
    missing = [name for part in made.parts for name in part.controllers if not seen.is_serving(part.name)]
    missing += made.unknown
    if not (seen.scope.everywhere or seen.scope.namespaces):
        text = "spec.namespaceSelector matches no namespace, so no controller runs"
        return Condition(AVAILABLE, "False", Reason.NO_NAMESPACES, text)
    if missing:
        return Condition(AVAILABLE, "False", Reason.NOT_SERVING, f"not serving: {', '.join(missing)}")
    if leaderless := _leaderless(made, seen):
        text = "; ".join(f"{name}: {seen.leaderless[name]}" for name in leaderless)
        return Condition(AVAILABLE, "False", Reason.NO_LEADER, truncate(text, _LONGEST))
    text = "; ".join(("every controller is available", *_objects_without_controller(seen)))
    return Condition(AVAILABLE, "True", Reason.ALL_SERVE, truncate(text, _LONGEST))


def _leaderless(made: Installation, seen: InstallationState) -> list[str]:
    """Return the parts that serve webhooks, but reconcile nothing."""
    return [part.name for part in made.parts if part.name in seen.leaderless and seen.is_serving(part.name)]


def _objects_without_controller(seen: InstallationState) -> Iterable[str]:
    for name, count in seen.waiting_objects.holding.items():
        if name not in seen.finishing:
            yield f"{name} does not run, and {count} objects have its finalizer, so they cannot be deleted"


def _progressing_condition(made: Installation, seen: InstallationState) -> Condition:
    parts = [part for part in made.parts if part.name not in seen.blocked]
    moving = [part.name for part in parts if seen.rollouts.get(part.name, Rollout()).moving]
    waiting = [
        part.name
        for part in parts
        if part.name in seen.rollouts and seen.rollouts[part.name].image != part.image
    ]
    for reason, names in (
        (Reason.DEFINITIONS, seen.waiting),
        (Reason.REMOVING, seen.removing),
        (Reason.ROLLING_OUT, [*moving, *(name for name in waiting if name not in moving)]),
        (Reason.WEBHOOKS, sorted(seen.unregistered - seen.blocked)),
        (Reason.LEADERS, _leaderless(made, seen)),
    ):
        if names:
            return Condition(PROGRESSING, "True", reason, ", ".join(names))
    if seen.finishing:
        finished = {name: seen.waiting_objects.deleting[name] for name in seen.finishing}
        text = f"controllers are removed when deletions are finished: {describe_deletions(finished)}"
        return Condition(PROGRESSING, "True", Reason.FINISHING_DELETIONS, truncate(text, _LONGEST))
    return Condition(PROGRESSING, "False", Reason.SETTLED, "nothing is being changed")


def _degraded_condition(made: Installation, seen: InstallationState) -> Condition:
    problems = [
        *seen.problems,
        *_rollout_problems(made, seen),
        *_pod_problems(made, seen),
        *_missing_namespaces(seen.scope),
        *_waiting_deletions(seen),
    ]
    if not problems and seen.wider:
        text = f"these CRDs are of a later version and stay: {'; '.join(seen.wider)}"
        return Condition(DEGRADED, "False", Reason.NEWER_DEFINITIONS, truncate(text, _LONGEST))
    if not problems:
        return Condition(DEGRADED, "False", Reason.AS_WANTED, "everything matches the spec")
    text = "; ".join(problem.text for problem in problems)
    return Condition(DEGRADED, "True", problems[0].reason, truncate(text, _LONGEST))


def _missing_namespaces(scope: Scope) -> Sequence[Problem]:
    if not scope.missing:
        return ()
    text = f"these namespaces do not exist or are being deleted: {', '.join(scope.missing)}"
    return (Problem(Reason.MISSING_NAMESPACE, text),)


def _waiting_deletions(seen: InstallationState) -> Sequence[Problem]:
    waiting = {
        name: objects for name, objects in seen.waiting_objects.deleting.items() if name not in seen.finishing
    }
    if not waiting:
        return ()
    text = (
        f"objects are being deleted, but no controller runs that finishes it: {describe_deletions(waiting)}; "
        "add it to spec.controllers"
    )
    return (Problem(Reason.DELETIONS_WAIT, text),)


def _rollout_problems(made: Installation, seen: InstallationState) -> Sequence[Problem]:
    found = [
        Problem(Reason.UNKNOWN_CONTROLLER, f"{name}: this installation has no such controller")
        for name in made.unknown
    ]
    for part in made.parts:
        rollout = seen.rollouts.get(part.name, Rollout())
        back = [name for name in part.controllers if name in seen.fallbacks]
        if back:
            found.append(
                Problem(Reason.WENT_BACK, f"{part.name}: {_component_message(back[0], part, rollout, seen)}")
            )
        elif rollout.has_failed:
            text = f"{part.name}: {_component_message(part.controllers[0], part, rollout, seen)}"
            found.append(Problem(Reason.NOT_COMING_UP, text))
    return found


def _pod_problems(made: Installation, seen: InstallationState) -> Iterable[Problem]:
    for part in made.parts:
        failed = seen.rollouts.get(part.name, Rollout()).has_failed
        if part.name in seen.causes and not failed:
            yield Problem(Reason.PODS_FAIL, f"{part.name}: {seen.causes[part.name]}")
    for part in made.parts:
        if found := seen.restarts.get(part.name):
            yield Problem(Reason.PODS_RESTART, f"{part.name}: {', '.join(found)}")


def version_of(image: str) -> str:
    """Return the tag of an image, or its digest if it has no tag."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag or digest
