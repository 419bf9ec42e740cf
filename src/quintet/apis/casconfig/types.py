"""The types of CASConfig; its spec is in `spec`."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from quintet.apis.casconfig.spec import MOST_NAMES, CASConfigSpec
from quintet.apis.markers import ATOMIC, Rule
from quintet.apis.meta import Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource
from quintet.apis.wellknown import Conditions

CASCONFIGS = Resource("openebs.io", "v1alpha1", "CASConfig", "casconfigs")
FINALIZER: Final = "openebs.io/casconfig"
SERVICE_ACCOUNT: Final = "casconfig"
"""The ServiceAccount, in the namespace of the config, that the controller impersonates for its targets."""

LONGEST_NAME: Final = 50
NAME_RULE: Final = (
    f"must be at most {LONGEST_NAME} characters, because it is part of an annotation of every target"
)
MOST_LISTED: Final = 500
"""Maximum number of targets in a status; the others are only counted."""
MOST_PATHS: Final = 64
MOST_PLANNED: Final = 50
MOST_KINDS: Final = 256

CONTAINER: Final = "io.k8s.api.core.v1.Container"
TOLERATION: Final = "io.k8s.api.core.v1.Toleration"


class ConditionType(StrEnum):
    """The conditions of a CASConfig."""

    READY = "Ready"
    APPLIED = "Applied"
    ROLLED_BACK = "RolledBack"
    CONFLICTED = "Conflicted"


class TargetState(StrEnum):
    """The state of one target."""

    APPLIED = "Applied"
    PLANNED = "Planned"
    WAITING = "Waiting"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    CONTESTED = "Contested"
    SKIPPED = "Skipped"
    LEFT = "Left"


class Target(Struct, frozen=True):
    """One object that policies match, and its state."""

    kind: Annotated[str, Meta(description="The kind of the object, with its API group.", max_length=317)]
    name: Annotated[str, Meta(description="The name of the object.", max_length=253)]
    namespace: Annotated[str, Meta(description="The namespace of the object.", max_length=63)] = ""
    policy: Annotated[str, Meta(description="The policies that match, in their order.", max_length=2112)] = ""
    state: Annotated[TargetState, Meta(description="The state of the object.")] = TargetState.APPLIED
    reason: Annotated[str, Meta(description="The reason as one CamelCase word.", max_length=64)] = ""
    message: Annotated[str, Meta(description="A human-readable explanation.", max_length=1024)] = ""
    paths: Annotated[
        tuple[Annotated[str, Meta(max_length=512)], ...],
        ATOMIC,
        Meta(description="The fields that the config manages.", max_length=MOST_PATHS),
    ] = ()
    rounds: Annotated[
        int, Meta(description="How many times somebody else has reverted the change.", ge=0, le=1_000_000)
    ] = 0


class PlannedChange(Struct, frozen=True):
    """The change that would be applied to one object."""

    target: Annotated[str, Meta(description="The object, as Kind namespace/name.", max_length=700)]
    diff: Annotated[str, Meta(description="The change as a diff.", max_length=8192)] = ""


class Reach(Struct, frozen=True):
    """Objects of one kind that the config may have changed."""

    kind: Annotated[str, Meta(description="The kind as group/version/Kind.", max_length=317)]
    namespaces: Annotated[
        tuple[Annotated[str, Meta(max_length=63)], ...],
        ATOMIC,
        Meta(description="The namespaces; * for all.", max_length=MOST_NAMES),
    ] = ()


class CASConfigStatus(Struct, frozen=True, omit_defaults=False):
    """The state of the object."""

    observed_generation: Annotated[int, Meta(description="The generation last reconciled.", ge=0)] = 0
    matched: Annotated[int, Meta(description="The number of matching objects.", ge=0)] = 0
    applied: Annotated[int, Meta(description="The number of targets that are up to date.", ge=0)] = 0
    failed: Annotated[int, Meta(description="The number of targets that could not be changed.", ge=0)] = 0
    contested: Annotated[
        int, Meta(description="The number of targets that somebody else keeps reverting.", ge=0)
    ] = 0
    summary: Annotated[
        str, Meta(description="Applied and matched targets, such as 12/12.", max_length=32)
    ] = ""
    message: Annotated[
        str, Meta(description="A human-readable explanation of the state.", max_length=4096)
    ] = ""
    targets: Annotated[
        tuple[Target, ...],
        ATOMIC,
        Meta(description="The targets and their states.", max_length=MOST_LISTED),
    ] = ()
    targets_not_listed: Annotated[
        int, Meta(description="The number of targets that are not listed.", ge=0)
    ] = 0
    plan: Annotated[
        tuple[PlannedChange, ...],
        ATOMIC,
        Meta(description="In Preview mode: the changes that would be applied.", max_length=MOST_PLANNED),
    ] = ()
    reach: Annotated[
        tuple[Reach, ...],
        ATOMIC,
        Meta(
            description="Objects that the config may have changed, stored before the change, so that every "
            "change can be undone.",
            max_length=MOST_KINDS,
        ),
    ] = ()
    unfinished: Annotated[
        bool, Meta(description="Whether a change of several targets has started and not finished yet.")
    ] = False
    conditions: Conditions = ()


class CASConfig(Object, frozen=True, kw_only=True):
    """Configuration that is injected into other objects, and removed again."""

    spec: CASConfigSpec
    status: CASConfigStatus = CASConfigStatus()


_VALUES = "spec.policies[].values"

CASCONFIG = CustomResource(
    resource=CASCONFIGS,
    type=CASConfig,
    parts_from=(
        (f"{_VALUES}.containers[]", CONTAINER),
        (f"{_VALUES}.sidecars[]", CONTAINER),
        (f"{_VALUES}.mainContainer", CONTAINER),
        (f"{_VALUES}.tolerations[]", TOLERATION),
    ),
    short_names=("casc",),
    columns=(
        Column("Applied", ".status.summary", description="Up-to-date targets of all matching ones."),
        Column.condition("Ready", "Whether all targets are up to date."),
        AGE,
        Column("Message", ".status.message", wide=True),
    ),
    rules=(Rule(f"size(self.metadata.name) <= {LONGEST_NAME}", NAME_RULE),),
)
