"""Actions that the plan can choose, and the status records that each one needs.

The records are written before the action starts. If the process dies in between, its successor finds the same
names and continues with them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from quintet.apis.statefulcluster import Draw, Setback
from quintet.controllers.statefulcluster.decide.health import setbacks_after
from quintet.controllers.statefulcluster.decide.observed import Claim, Observed, Pod


class Act(StrEnum):
    """Action types, as shown in `status.plan`."""

    ADOPT = "AdoptPod"
    RELABEL = "RestoreLabels"
    OWN_CLAIM = "OwnClaim"
    DISOWN_CLAIM = "DisownClaim"
    EXPAND_CLAIM = "ExpandClaim"
    DELETE_CLAIM = "DeleteClaim"
    REPAIR_CLAIMS = "RepairClaims"
    SET_ASIDE = "SetClaimsAside"
    USE_AGAIN = "UseClaimsAgain"
    REMOVE = "RemovePod"
    REPLACE = "ReplacePod"
    UPDATE = "UpdatePod"
    FORGET = "ForgetReplica"
    REGROUP = "ChangeClaims"
    MAKE = "MakePod"
    CREATE = "CreateReplica"
    WAIT = "Wait"
    NOTHING = "Nothing"


_DESTRUCTIVE = (Act.REMOVE, Act.REPLACE, Act.UPDATE, Act.DELETE_CLAIM, Act.FORGET, Act.SET_ASIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """The next action, with its reason."""

    act: Act
    reason: str
    message: str
    pod: Pod | None = None
    claim: Claim | None = None
    draw: Draw | None = None
    """The replica concerned. CreateReplica has none: its name is generated later."""
    group: str = ""
    voluntary: bool = False
    """Whether the action respects PodDisruptionBudgets (eviction instead of deletion)."""
    retires: bool = False
    """Whether the replica's claims are deleted too."""
    counts: bool = False
    """Whether the removal counts as a setback of the pod's revision."""
    after: float | None = None
    """Seconds until the next reconciliation."""
    blocked: bool = False
    """Whether progress needs a user's intervention."""
    skipped: tuple[str, ...] = ()
    """Concerns of more important actions that were refused recently."""

    @property
    def target(self) -> str:
        """Name of the pod, claim or replica that the action changes."""
        if self.pod is not None:
            return self.pod.name
        if self.claim is not None:
            return self.claim.name
        return self.draw.replica if self.draw is not None else self.group

    @property
    def concern(self) -> str:
        """Key that is equal for all attempts at the same action."""
        making = self.act in (Act.CREATE, Act.MAKE, Act.REPAIR_CLAIMS)
        return "make" if making else f"{self.act} {self.target}"

    @property
    def destroys(self) -> bool:
        """Whether the action removes something, so that cached data is not enough to decide on it."""
        return self.act in _DESTRUCTIVE


@dataclass(frozen=True, slots=True)
class Records:
    """Status records that are written before an action."""

    draws: tuple[Draw, ...]
    retiring: tuple[str, ...]
    setbacks: tuple[Setback, ...]


def records_after(observed: Observed, action: Action, draw_suffix: Callable[[], str], name: str) -> Records:
    """Return the records that an action needs before it starts; `name` is the cluster's name."""
    return Records(
        _draws(observed, action, draw_suffix, name),
        _retiring(observed, action),
        setbacks_after(observed, action.pod if action.counts else None),
    )


def _draws(observed: Observed, action: Action, draw_suffix: Callable[[], str], name: str) -> tuple[Draw, ...]:
    open_draws = observed.open_draws
    meant = action.draw
    match action.act:
        case Act.CREATE:
            suffix = draw_suffix()
            group = action.group or (suffix if observed.spec.templates else "")
            return (*open_draws, Draw(f"{name}-{suffix}", group))
        case Act.UPDATE if action.pod is not None:
            # The replica keeps its name and claims; only the revision changes.
            return (*open_draws, Draw(action.pod.name, action.pod.group))
        case Act.FORGET:
            return tuple(draw for draw in open_draws if draw != meant)
        case Act.REGROUP if meant is not None:
            group = action.group or draw_suffix()
            return tuple(Draw(draw.replica, group) if draw == meant else draw for draw in open_draws)
    return open_draws


def _retiring(observed: Observed, action: Action) -> tuple[str, ...]:
    if not observed.spec.delete_when_scaled:
        return ()
    staying = {pod.group for pod in observed.active} | {draw.group for draw in observed.open_draws}
    there = {claim.group for claim in observed.claims}
    kept = [group for group in observed.retiring if group in there and group not in staying]
    if action.retires:
        group = action.pod.group if action.pod is not None else action.draw.group if action.draw else ""
        if group and group not in kept:
            kept.append(group)
    return tuple(kept)
