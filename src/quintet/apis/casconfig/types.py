"""A CASConfig: its names in the API, its status, and its declaration to the API server.

What it says is in `spec`; what that does to an object is decided in `matching`, `injection` and `layers`.
"""

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
"""The ServiceAccount, in the namespace of a config, in whose name its targets are read and changed."""

LONGEST_NAME: Final = 50
NAME_RULE: Final = (
    f"must be at most {LONGEST_NAME} characters, because an annotation on every target has the same name"
)
MOST_LISTED: Final = 500
"""Targets in a status: what is beyond that is counted and not listed."""
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
    """What became of one target."""

    APPLIED = "Applied"
    PLANNED = "Planned"
    WAITING = "Waiting"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    CONTESTED = "Contested"
    SKIPPED = "Skipped"
    LEFT = "Left"


class Target(Struct, frozen=True):
    """One object that a policy matched, and what became of it."""

    kind: Annotated[str, Meta(description="Of the object, with its group.", max_length=317)]
    name: Annotated[str, Meta(description="Of the object.", max_length=253)]
    namespace: Annotated[str, Meta(description="Of the object.", max_length=63)] = ""
    policy: Annotated[
        str, Meta(description="The policies that matched, in their order.", max_length=2112)
    ] = ""
    state: Annotated[TargetState, Meta(description="What became of it.")] = TargetState.APPLIED
    reason: Annotated[str, Meta(description="Why, as one word for programs.", max_length=64)] = ""
    message: Annotated[str, Meta(description="Why, for people.", max_length=1024)] = ""
    paths: Annotated[
        tuple[Annotated[str, Meta(max_length=512)], ...],
        ATOMIC,
        Meta(description="What the config holds on it.", max_length=MOST_PATHS),
    ] = ()
    rounds: Annotated[
        int, Meta(description="How often somebody else has changed it back.", ge=0, le=1_000_000)
    ] = 0


class PlannedChange(Struct, frozen=True):
    """What would be changed on one object."""

    target: Annotated[str, Meta(description="The object, as Kind namespace/name.", max_length=700)]
    diff: Annotated[str, Meta(description="The change, line by line.", max_length=8192)] = ""


class Reach(Struct, frozen=True):
    """Objects of a kind that may hold something of the config."""

    kind: Annotated[str, Meta(description="As group/version/Kind.", max_length=317)]
    namespaces: Annotated[
        tuple[Annotated[str, Meta(max_length=63)], ...],
        ATOMIC,
        Meta(description="Where; * stands for everywhere.", max_length=MOST_NAMES),
    ] = ()


class CASConfigStatus(Struct, frozen=True, omit_defaults=False):
    """What became of it."""

    observed_generation: Annotated[int, Meta(description="The generation that was acted on.", ge=0)] = 0
    matched: Annotated[int, Meta(description="Objects that match.", ge=0)] = 0
    applied: Annotated[int, Meta(description="Targets that are as the config wants them.", ge=0)] = 0
    failed: Annotated[int, Meta(description="Targets that could not be changed.", ge=0)] = 0
    contested: Annotated[int, Meta(description="Targets that somebody else keeps changing back.", ge=0)] = 0
    summary: Annotated[str, Meta(description="Applied and matched, as 12/12.", max_length=32)] = ""
    message: Annotated[str, Meta(description="What went well or wrong, for people.", max_length=4096)] = ""
    targets: Annotated[
        tuple[Target, ...],
        ATOMIC,
        Meta(description="Every target and what became of it.", max_length=MOST_LISTED),
    ] = ()
    targets_not_listed: Annotated[int, Meta(description="Targets beyond those that are listed.", ge=0)] = 0
    plan: Annotated[
        tuple[PlannedChange, ...],
        ATOMIC,
        Meta(description="In preview: what would be changed.", max_length=MOST_PLANNED),
    ] = ()
    reach: Annotated[
        tuple[Reach, ...],
        ATOMIC,
        Meta(
            description="Where the config may have changed something, written down before it does: there "
            "it is looked for when it is to be undone.",
            max_length=MOST_KINDS,
        ),
    ] = ()
    unfinished: Annotated[
        bool, Meta(description="Changes to several targets have begun, and not come to their end yet.")
    ] = False
    conditions: Conditions = ()


class CASConfig(Object, frozen=True, kw_only=True):
    """Configuration that is injected into other objects, and taken back again."""

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
        Column("Applied", ".status.summary", description="Targets that are as wanted, of those that match."),
        Column.condition("Ready", "Whether all targets are as the config wants them."),
        AGE,
        Column("Message", ".status.message", wide=True),
    ),
    rules=(Rule(f"size(self.metadata.name) <= {LONGEST_NAME}", NAME_RULE),),
)
