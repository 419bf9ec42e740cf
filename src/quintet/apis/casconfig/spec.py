"""The spec of CASConfig, which other kinds can embed."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, field

from quintet.apis.markers import ATOMIC, DEFAULTED, FREE_FORM, ONE_OR_MANY, SET, list_map
from quintet.apis.meta import JsonObject, Struct

MOST_POLICIES: Final = 32
MOST_NAMES: Final = 256
MOST_TARGETS: Final = 100
"""The default of `maxTargets`."""


class Level(StrEnum):
    """The scope level of a config."""

    NAMESPACE = "namespace"
    CLUSTER = "cluster"


class Mode(StrEnum):
    """Whether a config changes its targets or only reports the changes."""

    APPLY = "Apply"
    PREVIEW = "Preview"


class ToType(StrEnum):
    """The destination of a value from another object."""

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
    """The namespaces of the targets."""

    level: Annotated[
        Level,
        Meta(
            description="namespace: the namespace of the config, or those listed in namespaces. cluster: all "
            "namespaces except kube-system and the operator's own; the config's ServiceAccount needs a "
            "ClusterRoleBinding for that."
        ),
        DEFAULTED,
    ] = Level.NAMESPACE
    namespaces: Annotated[
        tuple[Namespace, ...],
        SET,
        Meta(
            description="With level namespace: these namespaces instead of the config's own. With level "
            "cluster: only these namespaces.",
            max_length=MOST_NAMES,
        ),
    ] = ()


class FromOperation(Struct, frozen=True):
    """A value that is copied from another object."""

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
            description="The JSONPath of the value: .data.level, .spec.ports[0].port, "
            ".metadata.annotations['a.b/c'], .items[?(@.name=='x')].value.",
            min_length=1,
            max_length=1024,
        ),
    ]
    to_type: Annotated[ToType, Meta(description="The destination: label, annotation or env.")]
    to_key: Annotated[
        str,
        Meta(
            description="The key of the label or annotation, or the name of the variable.",
            min_length=1,
            max_length=317,
        ),
    ]
    namespace: Annotated[
        str,
        Meta(
            description="The namespace of the object. Defaults to the namespace of the config.", max_length=63
        ),
    ] = ""


class Values(Struct, frozen=True):
    """The values that are set on the targets."""

    labels: Annotated[
        dict[str, LabelValue], Meta(description="Labels of the target itself.", max_length=64)
    ] = field(default_factory=dict)
    annotations: Annotated[
        dict[str, AnnotationValue], Meta(description="Annotations of the target itself.", max_length=64)
    ] = field(default_factory=dict)
    envs: Annotated[
        dict[str, EnvValue],
        Meta(
            description="Environment variables of every container of its pods, including init containers.",
            max_length=256,
        ),
    ] = field(default_factory=dict)
    containers: Annotated[
        tuple[Container, ...],
        ATOMIC,
        Meta(description="Containers that replace all containers of its pods.", max_length=32),
    ] = ()
    sidecars: Annotated[
        tuple[Container, ...],
        ATOMIC,
        Meta(
            description="Containers that are added to its pods, or merged into the container of the same "
            "name. A container with restartPolicy Always becomes a native sidecar among the init containers.",
            max_length=32,
        ),
    ] = ()
    main_container: Annotated[
        Container | None,
        Meta(
            description="A container that replaces the main container: the one that the pod annotation "
            "kubectl.kubernetes.io/default-container names, otherwise the first."
        ),
    ] = None
    maincontainer: Annotated[
        Container | None,
        Meta(description="Alias of mainContainer. It is replaced when the object is stored."),
    ] = None
    tolerations: Annotated[
        tuple[Annotated[JsonObject, FREE_FORM], ...],
        ATOMIC,
        Meta(description="Tolerations to add to its pods.", max_length=64),
    ] = ()
    from_: Annotated[
        Annotated[tuple[FromOperation, ...], Meta(max_length=64)] | FromOperation,
        ONE_OR_MANY,
        Meta(description="Values that are copied from other objects, as a list or a single item."),
    ] = field(default=(), name="from")

    @property
    def main(self) -> JsonObject | None:
        """The main container, from either spelling."""
        return self.main_container if self.main_container is not None else self.maincontainer

    @property
    def sources(self) -> tuple[FromOperation, ...]:
        """The values to copy from other objects, as a tuple."""
        return (self.from_,) if isinstance(self.from_, FromOperation) else self.from_

    @property
    def for_pods(self) -> tuple[str, ...]:
        """The JSON names of the used fields that apply to pods."""
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
    """Selects the targets: an object must match all fields. An empty include matches nothing."""

    labels: Annotated[
        dict[str, LabelValue],
        Meta(description="Labels that an object must have.", max_length=64),
    ] = field(default_factory=dict)
    annotations: Annotated[
        dict[str, AnnotationValue],
        Meta(description="Annotations that an object must have.", max_length=64),
    ] = field(default_factory=dict)
    namespaces: Annotated[
        tuple[Namespace, ...],
        SET,
        Meta(description="Namespaces of the objects, within the scope.", max_length=MOST_NAMES),
    ] = ()
    kinds: Annotated[
        tuple[Annotated[str, Meta(max_length=317)], ...],
        SET,
        Meta(
            description="Kinds of the objects, as Kind or group/version/Kind. Defaults to every kind with a "
            "pod template.",
            max_length=64,
        ),
    ] = ()
    names: Annotated[
        tuple[Name, ...],
        SET,
        Meta(description="Names of the objects; * matches any text.",
             max_length=MOST_NAMES),
    ] = ()  # fmt: skip
    service_accounts: Annotated[
        tuple[Name, ...],
        SET,
        Meta(description="ServiceAccounts of the objects' pods.", max_length=MOST_NAMES),
    ] = ()

    @property
    def empty(self) -> bool:
        """Whether no field is set."""
        return not (
            self.labels
            or self.annotations
            or self.namespaces
            or self.kinds
            or self.names
            or self.service_accounts
        )


class Policy(Struct, frozen=True):
    """Values and the targets that they are set on."""

    name: Annotated[
        str,
        Meta(
            description="The name of the policy in status and messages.",
            min_length=1,
            max_length=63,
            pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        ),
    ]
    values: Annotated[Values, Meta(description="The values that are set on the targets.")]
    include: Annotated[Include, Meta(description="Selects the targets.")]
    override: Annotated[
        bool,
        Meta(
            description="Whether to replace an environment variable that uses valueFrom. Otherwise it is "
            "reported and not changed."
        ),
    ] = False


class EmbeddedConfig(Struct, frozen=True):
    """The part of a CASConfig that other kinds can embed in their spec."""

    policies: Annotated[
        tuple[Policy, ...],
        list_map("name"),
        Meta(
            description="The policies, applied in this order: later ones take precedence.",
            min_length=1,
            max_length=MOST_POLICIES,
        ),
    ]

    def sources(self) -> Iterator[FromOperation]:
        """Yield the values to copy from other objects."""
        for policy in self.policies:
            yield from policy.values.sources


class CASConfigSpec(EmbeddedConfig, frozen=True):
    """The desired configuration and its targets."""

    scope: Annotated[Scope, Meta(description="The namespaces of the targets."), DEFAULTED] = Scope()
    mode: Annotated[
        Mode,
        Meta(
            description="Apply changes the targets. Preview reports the changes in the status and reverts "
            "changes that were applied before."
        ),
        DEFAULTED,
    ] = Mode.APPLY
    max_targets: Annotated[
        int,
        Meta(
            description="The maximum number of matching objects; if more match, none is changed.",
            ge=1,
            le=100_000,
        ),
        DEFAULTED,
    ] = MOST_TARGETS
