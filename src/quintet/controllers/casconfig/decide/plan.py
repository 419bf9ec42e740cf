"""What a CASConfig does to one object: change it, undo its changes, or skip it, and why.

`decide_step` decides on one object, `blocking_reason` on all steps together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from quintet.apis.casconfig import kinds, layers, matching
from quintet.apis.casconfig.injection import Injection, Skipped, desired_settings, place_to_inject
from quintet.apis.casconfig.ledger import (
    LARGEST,
    LedgerError,
    LedgerTooLargeError,
    NotRestorableError,
    has_ledger,
)
from quintet.apis.casconfig.places import Path
from quintet.apis.casconfig.rewrites import RecordedLayer, Rewrite
from quintet.apis.casconfig.sources import Value
from quintet.apis.casconfig.spec import CASConfigSpec, FromOperation
from quintet.apis.casconfig.types import TargetState
from quintet.apis.meta import JsonObject, ObjectKey, Resource

MAX_ROUNDS = 3
"""How often another manager may revert a value before the config stops setting it."""
_MOST_BYTES_ON_THE_WAY = 2 * LARGEST
"""Of all values that the policies of a config set on one object: later ones may replace earlier ones."""


class Reason(StrEnum):
    """Reasons of target states and conditions. What to do about each: docs/casconfig.md."""

    APPLIED = "Applied"
    UNDONE = "Undone"
    LEFT = "ChangedByOthers"
    LEDGER_UNREADABLE = "LedgerUnreadable"
    LEDGER_TOO_LARGE = "LedgerTooLarge"
    NOTHING_TO_SET = "NothingToSet"
    CONTESTED = "Contested"
    NO_TARGETS = "NoTargets"
    PREVIEW = "Preview"
    INVALID = "InvalidSpec"
    KIND = "KindNotUsable"
    OUT_OF_SCOPE = "OutOfScope"
    LOOKING = "LookingForTargets"
    FORBIDDEN = "Forbidden"
    NOT_SHOWN = "NotShown"
    WAITING = "WaitingForSource"
    TOO_MANY = "TooManyTargets"
    FAILED = "TargetFailed"
    ROLLED_BACK = "RolledBack"
    ROLLING_BACK = "RollingBack"
    NOT_ROLLED_BACK = "NothingRolledBack"
    NO_CONFLICT = "NoConflict"
    SKIPPED = "ValuesNotSet"
    UNDOING = "Undoing"
    UNDO_FAILED = "UndoFailed"


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A config with its resolved values: the input of all decisions."""

    config: ObjectKey
    spec: CASConfigSpec
    values: Mapping[FromOperation, Value]
    operator: str = ""
    """Namespace of the operator."""
    generation: int = 0
    now: int = field(default=0, compare=False)
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class FoundObject:
    """The current state of an object that may be a target."""

    resource: Resource
    pod: Path | None
    object: JsonObject

    @property
    def key(self) -> ObjectKey:
        metadata = self.object["metadata"]
        return ObjectKey(metadata.get("namespace", ""), metadata["name"])

    @property
    def uid(self) -> str:
        return str(self.object["metadata"].get("uid", ""))


Target = tuple[Resource, ObjectKey]
"""Resource and key of the object that a step changes."""


@dataclass(frozen=True, slots=True)
class Step:
    """The change to one object, and the target state once it is applied."""

    resource: Resource
    key: ObjectKey
    uid: str
    state: TargetState
    patch: tuple[JsonObject, ...] = ()
    """Empty if the object is up to date or cannot be changed."""
    policies: tuple[str, ...] = ()
    """Matching policies; empty if the config no longer applies to the object."""
    paths: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    retaken: tuple[str, ...] = ()
    """Paths that another manager reverted since the config set them."""
    foreign: str = ""
    """What happens to changes of other managers in what the config does not set any more."""
    skipped: tuple[Skipped, ...] = ()
    reason: str = Reason.APPLIED
    message: str = ""
    before: RecordedLayer | None = None
    """What the config had set on the object before the patch."""
    held: bool = False
    """Whether the object has changes of the config."""
    rounds: int = 0
    """How often other managers have reverted them."""
    recorded: int = 0
    """The rounds that the ledger had before."""

    @property
    def target(self) -> Target:
        return self.resource, self.key

    @property
    def fails_batch(self) -> bool:
        """Whether no other object may be changed either. An unreadable ledger concerns its object only."""
        return self.state is TargetState.FAILED and self.reason != Reason.LEDGER_UNREADABLE

    @property
    def is_target(self) -> bool:
        """Whether the object is a target."""
        return bool(self.policies) and self.state is not TargetState.SKIPPED

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}"


def decide_step(resolved: ResolvedConfig, found: FoundObject) -> Step | None:
    """Return the step for an object, or None if the config does not concern it."""
    held = has_ledger(found.object, resolved.config)
    candidate = matching.Candidate(found.resource, layers.original(found.object), found.pod)
    match = matching.match(resolved.spec, resolved.config, candidate, resolved.operator)
    if match.policies:
        return _injection_step(resolved, found, match, held)
    if _terminating(match):
        return _skipped_step(found, match.misses[0]) if held else None
    if held:
        return undo_step(found, resolved.config)
    return _skipped_for_its_owner(resolved, found, candidate, match)


def undo_step(found: FoundObject, config: ObjectKey) -> Step:
    """Return the step that undoes a config's changes. Errors become part of the step."""
    try:
        rewrite = layers.build_rewrite(found.object, config, ())
    except LedgerError as error:
        return _unreadable(found, str(error))
    left = tuple(each.path for each in rewrite.left)
    return Step(
        found.resource,
        found.key,
        found.uid,
        TargetState.LEFT if left else TargetState.ROLLED_BACK,
        patch=rewrite.patch,
        left=left,
        foreign=_foreign_changes(rewrite),
        reason=Reason.LEFT if left else Reason.UNDONE,
        message=_foreign_changes(rewrite),
        held=True,
    )


def rollback_step(found: FoundObject, config: ObjectKey, before: RecordedLayer | None) -> Step:
    """Return the step that restores what the config had set before, and its ledger."""
    if before is None or not before.values:
        return undo_step(found, config)
    try:
        rewrite = layers.restore_layer(found.object, config, before, place_to_inject(found.pod))
    except LedgerError as error:
        return _unreadable(found, str(error))
    except LedgerTooLargeError as error:
        return _failed_step(found, (), Reason.LEDGER_TOO_LARGE, str(error), held=True)
    return Step(
        found.resource,
        found.key,
        found.uid,
        TargetState.ROLLED_BACK,
        patch=rewrite.patch,
        paths=rewrite.paths,
        reason=Reason.ROLLED_BACK,
        message=_foreign_changes(rewrite),
        before=before,
        held=True,
    )


def contested_step(step: Step, manager: str = "") -> Step:
    """Return a step that is not applied, because another manager keeps reverting it."""
    who = manager or "somebody else"
    rounds = max(step.rounds, MAX_ROUNDS)
    message = f"{who} has reverted this {rounds} times: {_join_paths(step.retaken)}"
    return replace(
        step,
        state=TargetState.CONTESTED,
        reason=Reason.CONTESTED,
        message=f"{message}; decide who sets it, then edit this config to retry",
        patch=(),
        rounds=rounds,
    )


def blocking_reason(spec: CASConfigSpec, steps: Iterable[Step]) -> tuple[Reason, str] | None:
    """Return why no step may be applied, or None."""
    matched = sum(step.is_target for step in steps)
    if matched > spec.max_targets:
        return Reason.TOO_MANY, (
            f"{matched} objects match and spec.maxTargets is {spec.max_targets}: nothing is changed. Narrow "
            f"the includes, or raise spec.maxTargets"
        )
    return None


def _injection_step(resolved: ResolvedConfig, found: FoundObject, match: matching.Match, held: bool) -> Step:
    place = place_to_inject(found.pod)
    policies = tuple(policy.name for policy in match.policies)
    try:
        beneath = layers.beneath(found.object, resolved.config)
        injection = desired_settings(
            match.policies, beneath, resolved.values, place, most_bytes=_MOST_BYTES_ON_THE_WAY
        )
        try:
            rewrite = layers.build_rewrite(
                found.object,
                resolved.config,
                injection.settings,
                place,
                generation=resolved.generation,
                now=resolved.now,
            )
        except NotRestorableError as error:
            injection = Injection((), (Skipped(",".join(policies), "", "NotRestorable", str(error)),))
            rewrite = layers.build_rewrite(found.object, resolved.config, (), place)
    except LedgerError as error:
        return _unreadable(found, str(error), policies)
    except LedgerTooLargeError as error:
        return _failed_step(found, policies, Reason.LEDGER_TOO_LARGE, str(error), held)
    return _build_step(resolved, found, match, injection, rewrite, held)


def _build_step(
    resolved: ResolvedConfig,
    found: FoundObject,
    match: matching.Match,
    injection: Injection,
    rewrite: Rewrite,
    held: bool,
) -> Step:
    state, reason, message = TargetState.APPLIED, str(Reason.APPLIED), ""
    if injection.skipped:
        reason, message = injection.skipped[0].reason, "; ".join(each.message for each in injection.skipped)
    if not injection.settings:
        state, message = TargetState.SKIPPED, message or "the policies set nothing on it"
        reason = reason if injection.skipped else Reason.NOTHING_TO_SET
    step = Step(
        found.resource,
        found.key,
        found.uid,
        state,
        patch=rewrite.patch,
        policies=tuple(policy.name for policy in match.policies),
        paths=rewrite.paths,
        left=tuple(each.path for each in rewrite.left),
        retaken=rewrite.retaken,
        foreign=_foreign_changes(rewrite),
        skipped=injection.skipped,
        reason=reason,
        message=message,
        before=layers.record_layer(found.object, resolved.config) if held and rewrite.patch else None,
        held=held,
        rounds=rewrite.rounds,
        recorded=rewrite.recorded,
    )
    return contested_step(step) if step.retaken and step.rounds >= MAX_ROUNDS else step


def _terminating(match: matching.Match) -> bool:
    return any(miss.reason == "Terminating" for miss in match.misses)


def _skipped_step(found: FoundObject, miss: matching.Miss, policies: tuple[str, ...] = ()) -> Step:
    return Step(
        found.resource,
        found.key,
        found.uid,
        TargetState.SKIPPED,
        policies=policies,
        reason=miss.reason,
        message=miss.message,
    )


def _skipped_for_its_owner(
    resolved: ResolvedConfig, found: FoundObject, candidate: matching.Candidate, match: matching.Match
) -> Step | None:
    """Return a skipped step for an object that a policy names by kind but its owner controls."""
    controlled = next((miss for miss in match.misses if miss.reason == "Controlled"), None)
    if controlled is None:
        return None
    policies = tuple(
        policy.name
        for policy in resolved.spec.policies
        if policy.include.kinds and matching.miss(policy, candidate) is None
    )
    return _skipped_step(found, controlled, policies) if policies else None


def _unreadable(found: FoundObject, problem: str, policies: tuple[str, ...] = ()) -> Step:
    message = f"{problem}. Correct the annotation, or remove it to give up undoing the changes of this object"
    return _failed_step(found, policies, Reason.LEDGER_UNREADABLE, message, held=True)


def _failed_step(
    found: FoundObject, policies: tuple[str, ...], reason: Reason, message: str, held: bool
) -> Step:
    return Step(
        found.resource,
        found.key,
        found.uid,
        TargetState.FAILED,
        policies=policies,
        reason=reason,
        message=message,
        held=held,
    )


def _foreign_changes(rewrite: Rewrite) -> str:
    """Return a message about what other managers have changed; empty if nothing."""
    changes = (
        ("not undone, because another manager changed it", tuple(each.path for each in rewrite.left)),
        (
            "another manager added this to a container of the config; it is removed or replaced",
            rewrite.dropped,
        ),
    )
    return "; ".join(f"{what}: {_join_paths(paths)}" for what, paths in changes if paths)


def _join_paths(paths: Iterable[str]) -> str:
    found = list(paths)
    return ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")


def kind_name(resource: Resource) -> str:
    """Return the name of a resource type for status and messages."""
    return kinds.as_text(resource)
