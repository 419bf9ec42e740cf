"""What a config says: scope, policies, values and includes, field for field as its design has them.

Used by CASConfig itself (`types`) and by the kinds that embed one config in their own spec.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, field

from quintet.apis.markers import ATOMIC, DEFAULTED, FREE_FORM, ONE_OR_MANY, SET, list_map
from quintet.apis.meta import JsonObject, Struct

MOST_POLICIES: Final = 32
MOST_NAMES: Final = 256
MOST_TARGETS: Final = 100
"""So many targets a config may have unless it says otherwise."""


class Level(StrEnum):
    """How far a config may reach."""

    NAMESPACE = "namespace"
    CLUSTER = "cluster"


class Mode(StrEnum):
    """Whether a config changes its targets, or only says what it would change."""

    APPLY = "Apply"
    PREVIEW = "Preview"


class ToType(StrEnum):
    """What a value that was taken from another object becomes."""

    LABEL = "label"
    ANNOTATION = "annotation"
    ENV = "env"


Name = Annotated[str, Meta(max_length=253)]
Namespace = Annotated[str, Meta(max_length=63)]
Key = Annotated[str, Meta(max_length=317)]
LabelValue = Annotated[str, Meta(max_length=63)]
AnnotationValue = Annotated[str, Meta(max_length=65536)]
EnvValue = Annotated[str, Meta(max_length=32768)]
Container = Annotated[JsonObject, FREE_FORM]


class Scope(Struct, frozen=True):
    """Where targets may be."""

    level: Annotated[
        Level,
        Meta(
            description="namespace: the namespace of the config, or those in namespaces. cluster: all, but "
            "kube-system and the operator's own; the ServiceAccount of the config must be bound for that."
        ),
        DEFAULTED,
    ] = Level.NAMESPACE
    namespaces: Annotated[
        tuple[Namespace, ...],
        SET,
        Meta(
            description="With level namespace: the namespaces that are meant, instead of the own one. With "
            "level cluster: only these.",
            max_length=MOST_NAMES,
        ),
    ] = ()


class FromOperation(Struct, frozen=True):
    """A value that is taken from another object."""

    kind: Annotated[
        str,
        Meta(
            description="The kind of the object: Kind, or group/version/Kind.", min_length=1, max_length=317
        ),
    ]
    name: Annotated[str, Meta(description="The name of the object.", min_length=1, max_length=253)]
    path: Annotated[
        str,
        Meta(
            description="Where the value is, as JSONPath: .data.level, .spec.ports[0].port, "
            ".metadata.annotations['a.b/c'], .items[?(@.name=='x')].value.",
            min_length=1,
            max_length=1024,
        ),
    ]
    to_type: Annotated[ToType, Meta(description="label, annotation or env.")]
    to_key: Annotated[
        str, Meta(description="Under which key or name it is set.", min_length=1, max_length=317)
    ]
    namespace: Annotated[
        str, Meta(description="Of the object; left out, the namespace of the config.", max_length=63)
    ] = ""


class Values(Struct, frozen=True):
    """What is set on the targets."""

    labels: Annotated[
        dict[str, LabelValue], Meta(description="Labels of the target itself.", max_length=64)
    ] = field(default_factory=dict)
    annotations: Annotated[
        dict[str, AnnotationValue], Meta(description="Annotations of the target itself.", max_length=64)
    ] = field(default_factory=dict)
    envs: Annotated[
        dict[str, EnvValue],
        Meta(
            description="Environment variables of every container of its pods, init containers too.",
            max_length=256,
        ),
    ] = field(default_factory=dict)
    containers: Annotated[
        tuple[Container, ...],
        ATOMIC,
        Meta(description="Take the place of all containers that its pods have.", max_length=32),
    ] = ()
    sidecars: Annotated[
        tuple[Container, ...],
        ATOMIC,
        Meta(
            description="Containers that are added, or merged into the one of the same name. One with "
            "restartPolicy Always is added to the init containers, where Kubernetes has its sidecars.",
            max_length=32,
        ),
    ] = ()
    main_container: Annotated[
        Container | None,
        Meta(
            description="Takes the place of the main container: the one that the pod annotation "
            "kubectl.kubernetes.io/default-container names, else the first."
        ),
    ] = None
    maincontainer: Annotated[
        Container | None, Meta(description="Another spelling of mainContainer, which it is rewritten to.")
    ] = None
    tolerations: Annotated[
        tuple[Annotated[JsonObject, FREE_FORM], ...],
        ATOMIC,
        Meta(description="Tolerations that are added to those of its pods.", max_length=64),
    ] = ()
    from_: Annotated[
        Annotated[tuple[FromOperation, ...], Meta(max_length=64)] | FromOperation,
        ONE_OR_MANY,
        Meta(description="Values that are taken from other objects: a list; a single one is taken too."),
    ] = field(default=(), name="from")

    @property
    def main(self) -> JsonObject | None:
        """The main container, whichever way it is spelled."""
        return self.main_container if self.main_container is not None else self.maincontainer

    @property
    def sources(self) -> tuple[FromOperation, ...]:
        """The values that are taken from other objects, also where a single one was written."""
        return (self.from_,) if isinstance(self.from_, FromOperation) else self.from_

    @property
    def for_pods(self) -> tuple[str, ...]:
        """The fields in use that are about pods, by the names that users know."""
        found = {
            "containers": self.containers,
            "mainContainer": self.main,
            "sidecars": self.sidecars,
            "envs": self.envs,
            "tolerations": self.tolerations,
            "from": [source for source in self.sources if source.to_type is ToType.ENV],
        }
        return tuple(name for name, value in found.items() if value)


class Include(Struct, frozen=True):
    """Which objects are targets: all that is given here must hold. An empty one matches nothing."""

    labels: Annotated[
        dict[str, LabelValue],
        Meta(description="Labels that an object must have, all of them.", max_length=64),
    ] = field(default_factory=dict)
    annotations: Annotated[
        dict[str, AnnotationValue],
        Meta(description="Annotations that an object must have, all of them.", max_length=64),
    ] = field(default_factory=dict)
    namespaces: Annotated[
        tuple[Namespace, ...],
        SET,
        Meta(description="Only objects in one of these, within the scope.", max_length=MOST_NAMES),
    ] = ()
    kinds: Annotated[
        tuple[Annotated[str, Meta(max_length=317)], ...],
        SET,
        Meta(
            description="Only objects of one of these: Kind, or group/version/Kind. Left out: every kind "
            "with a pod template.",
            max_length=64,
        ),
    ] = ()
    names: Annotated[
        tuple[Name, ...],
        SET,
        Meta(description="Only objects with one of these names; * stands for any text.",
             max_length=MOST_NAMES),
    ] = ()  # fmt: skip
    service_accounts: Annotated[
        tuple[Name, ...],
        SET,
        Meta(description="Only objects whose pods run as one of these.", max_length=MOST_NAMES),
    ] = ()

    @property
    def empty(self) -> bool:
        """Whether it says nothing at all."""
        return not (
            self.labels
            or self.annotations
            or self.namespaces
            or self.kinds
            or self.names
            or self.service_accounts
        )


class Policy(Struct, frozen=True):
    """Values, and the objects that get them."""

    name: Annotated[
        str,
        Meta(
            description="Of this policy, in status and messages.",
            min_length=1,
            max_length=63,
            pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        ),
    ]
    values: Annotated[Values, Meta(description="What is set on the targets.")]
    include: Annotated[Include, Meta(description="Which objects are targets.")]
    override: Annotated[
        bool,
        Meta(
            description="Whether an environment variable that takes its value from elsewhere (valueFrom) is "
            "replaced. Otherwise it is reported and left."
        ),
    ] = False


class EmbeddedConfig(Struct, frozen=True):
    """The part of a config that other kinds may have in their own spec."""

    policies: Annotated[
        tuple[Policy, ...],
        list_map("name"),
        Meta(
            description="Applied in this order: where two set the same, the later one wins.",
            min_length=1,
            max_length=MOST_POLICIES,
        ),
    ]

    def sources(self) -> Iterator[FromOperation]:
        """Everything that is taken from other objects."""
        for policy in self.policies:
            yield from policy.values.sources


class CASConfigSpec(EmbeddedConfig, frozen=True):
    """Configuration that is injected into other objects, and taken back again."""

    scope: Annotated[Scope, Meta(description="Where targets may be."), DEFAULTED] = Scope()
    mode: Annotated[
        Mode,
        Meta(
            description="Apply: targets are changed. Preview: the status says what would be changed, and "
            "what was changed before is taken back."
        ),
        DEFAULTED,
    ] = Mode.APPLY
    max_targets: Annotated[
        int,
        Meta(
            description="If more objects match than this, none is changed.",
            ge=1,
            le=100_000,
        ),
        DEFAULTED,
    ] = MOST_TARGETS
