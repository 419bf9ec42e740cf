"""What the plan can ask for, and what each means for the records that are kept in the status. Pure.

Every record is written before the action is begun, so that a process that dies in the middle is
succeeded by one that finds the same names and goes on with them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from quintet.apis.statefulcluster import Draw, Setback
from quintet.controllers.statefulcluster.decide.health import setbacks_after
from quintet.controllers.statefulcluster.decide.observed import Claim, Observed, Pod


class Act(StrEnum):
    """The kinds of actions, as `status.plan` names them."""

    ADOPT = "AdoptPod"
    OWN_CLAIM = "OwnClaim"
    DISOWN_CLAIM = "DisownClaim"
    EXPAND_CLAIM = "ExpandClaim"
    DELETE_CLAIM = "DeleteClaim"
    REPAIR_CLAIMS = "RepairClaims"
    SET_ASIDE = "SetClaimsAside"
    INVESTIGATE = "LookAtVolumes"
    REMOVE = "RemovePod"
    REPLACE = "ReplacePod"
    UPDATE = "UpdatePod"
    FORGET = "ForgetReplica"
    REGROUP = "ChangeClaims"
    MAKE = "MakePod"
    CREATE = "CreateReplica"
    WAIT = "Wait"
    NOTHING = "Nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do now, and why."""

    act: Act
    reason: str
    message: str
    pod: Pod | None = None
    claim: Claim | None = None
    draw: Draw | None = None
    """The replica that is meant; without a name it is yet to be drawn."""
    group: str = ""
    voluntary: bool = False
    """Whether disruption budgets have a say in it."""
    retires: bool = False
    """Whether the claims are to go with the replica."""
    counts: bool = False
    """Whether it is held against the revision of the pod."""
    after: float | None = None
    """Seconds until it is worth looking again."""
    blocked: bool = False
    """Whether it goes on only once somebody has done something."""

    @property
    def target(self) -> str:
        """What it is done to."""
        if self.pod is not None:
            return self.pod.name
        if self.claim is not None:
            return self.claim.name
        return self.draw.replica if self.draw is not None else self.group

    @property
    def concern(self) -> str:
        """What it is about, so that the next try is known as one."""
        making = self.act in (Act.CREATE, Act.MAKE, Act.REPAIR_CLAIMS)
        return "make" if making else f"{self.act} {self.target}"

    @property
    def destroys(self) -> bool:
        """Whether it takes something away, so that a cache is not enough to decide it."""
        return self.act in (Act.REMOVE, Act.REPLACE, Act.UPDATE, Act.DELETE_CLAIM, Act.FORGET)


@dataclass(frozen=True, slots=True)
class Records:
    """What is written down before an action."""

    draws: tuple[Draw, ...]
    retiring: tuple[str, ...]
    setbacks: tuple[Setback, ...]


def records_after(observed: Observed, action: Action, draw_suffix: Callable[[], str], name: str) -> Records:
    """The records that an action needs before it begins; `name` is that of the cluster."""
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
            group = action.group or (suffix if observed.wanted.templates else "")
            return (*open_draws, Draw(f"{name}-{suffix}", group))
        case Act.UPDATE if action.pod is not None:
            # The same name and the same claims: only the revision is another.
            return (*open_draws, Draw(action.pod.name, action.pod.group))
        case Act.FORGET:
            return tuple(draw for draw in open_draws if draw != meant)
        case Act.REGROUP if meant is not None:
            group = action.group or draw_suffix()
            return tuple(Draw(draw.replica, group) if draw == meant else draw for draw in open_draws)
    return open_draws


def _retiring(observed: Observed, action: Action) -> tuple[str, ...]:
    if not observed.wanted.delete_when_scaled:
        return ()
    staying = {pod.group for pod in observed.active} | {draw.group for draw in observed.open_draws}
    there = {claim.group for claim in observed.claims}
    kept = [group for group in observed.retiring if group in there and group not in staying]
    if action.retires:
        group = action.pod.group if action.pod is not None else action.draw.group if action.draw else ""
        if group and group not in kept:
            kept.append(group)
    return tuple(kept)
