"""The types of Checkup."""

from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta, field

from quintet.apis.checkup.evidence import Evidence
from quintet.apis.markers import DATE_TIME, FREE_FORM, Rule, list_map
from quintet.apis.meta import JsonObject, Object, Resource, Struct
from quintet.apis.resources import AGE, Column, CustomResource
from quintet.apis.wellknown import Conditions

CHECKUPS = Resource("kiagnose.io", "v1alpha1", "Checkup", "checkups")
FINALIZER: Final = "kiagnose.io/checkup"
RERUN: Final = "kiagnose.io/rerun"
"""Annotation: a new value starts another run after the current one has ended."""
CANCEL: Final = "kiagnose.io/cancel"
"""Annotation: `true` ends the run and prevents another one from starting."""

LONGEST_TIMEOUT: Final = 86_400
MAX_RESULT_BYTES: Final = 256 * 1024
"""Maximum size of the results as JSON text: the object stores them twice and must stay below 1.5 MiB."""
MOST_RUNS: Final = 10
LONGEST_RERUN: Final = 4096
SUCCEEDED: Final = "The checkup finished successfully"

_NUMBER = f"^([1-9][0-9]{{0,3}}|[1-7][0-9]{{4}}|8[0-5][0-9]{{3}}|86[0-3][0-9]{{2}}|{LONGEST_TIMEOUT})$"
TIMEOUT_RULE: Final = f"must be a number of seconds from 1 to {LONGEST_TIMEOUT}"
_IN_BOUNDS = f"type(self) == int ? self >= 1 && self <= {LONGEST_TIMEOUT} : self.matches('{_NUMBER}')"
Seconds = Annotated[int | str, Rule(_IN_BOUNDS, TIMEOUT_RULE)]


class Phase(StrEnum):
    """The phase of a run."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    FINISHED = "Finished"


class Verdict(StrEnum):
    """The result of a run."""

    PASSED = "Passed"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    INFRA_ERROR = "InfraError"
    INVALID = "Invalid"
    CANCELLED = "Cancelled"


LabelValue = Annotated[str, Meta(max_length=63)]
AnnotationValue = Annotated[str, Meta(max_length=65536)]
ResultValue = Annotated[str, Meta(max_length=MAX_RESULT_BYTES)]


class CheckupTemplateMetadata(Struct, frozen=True):
    """Labels and annotations of the pod."""

    labels: Annotated[dict[str, LabelValue], Meta(description="Labels to add to the pod.", max_length=64)] = (
        field(default_factory=dict)
    )
    annotations: Annotated[
        dict[str, AnnotationValue], Meta(description="Annotations to add to the pod.", max_length=64)
    ] = field(default_factory=dict)


class CheckupTemplate(Struct, frozen=True):
    """A patch of the pod template."""

    metadata: Annotated[CheckupTemplateMetadata, Meta(description="Labels and annotations of the pod.")] = (
        CheckupTemplateMetadata()
    )
    spec: Annotated[
        JsonObject,
        FREE_FORM,
        Meta(
            description="A patch of the pod spec. Lists of named items (containers, volumes, env) are merged "
            "by name, other lists are replaced. The name of the container is 'checkup'. Its image, its "
            "ServiceAccount and its variables have their own fields and are rejected here."
        ),
    ] = field(default_factory=dict)


class CheckupSpec(Struct, frozen=True):
    """The checkup to run."""

    image: Annotated[str, Meta(description="The image of the checkup.", min_length=1, max_length=512)]
    service_account_name: Annotated[
        str,
        Meta(
            description="The ServiceAccount that the checkup runs as, in the same namespace. The controller "
            "only grants it permission to write the results of this checkup.",
            min_length=1,
            max_length=253,
        ),
    ]
    timeout_seconds: Annotated[
        Seconds | None,
        Meta(
            description="The maximum run time in seconds, from 1 to 86400, as a number or a numeric string. "
            "The start of the pod may take as long again, and at least 30 seconds."
        ),
    ] = None
    timeout: Annotated[
        Seconds | None,
        Meta(description="Deprecated name of timeoutSeconds. It is replaced when the object is stored."),
    ] = None
    params: Annotated[
        str | dict[str, Any],
        FREE_FORM,
        Meta(
            description="Parameters of the checkup: an object with string values, or its JSON text. The "
            "checkup receives them as environment variables with upper-case names, and as "
            "spec.param.NAME in its ConfigMap."
        ),
    ] = ""
    template: Annotated[CheckupTemplate, Meta(description="A patch of the pod template.")] = CheckupTemplate()

    @property
    def seconds(self) -> int:
        """The timeout, from either field."""
        given = self.timeout_seconds if self.timeout_seconds is not None else self.timeout
        return int(given) if given is not None else 0


class Run(Struct, frozen=True):
    """A finished run."""

    run: Annotated[int, Meta(description="The number of the run, starting at 1.", ge=1)]
    verdict: Annotated[Verdict, Meta(description="The result of the run.")]
    reason: Annotated[str, Meta(description="The reason as one CamelCase word.", max_length=128)] = ""
    message: Annotated[
        str, Meta(description="A human-readable explanation; long ones are truncated.", max_length=1024)
    ] = ""
    start_time: Annotated[str | None, DATE_TIME, Meta(description="When the run started.")] = None
    completion_time: Annotated[str | None, DATE_TIME, Meta(description="When the run ended.")] = None


class CheckupStatus(Struct, frozen=True):
    """The observed status of a checkup."""

    observed_generation: Annotated[int, Meta(description="The generation last reconciled.", ge=0)] = 0
    phase: Annotated[Phase | None, Meta(description="The phase of the run.")] = None
    verdict: Annotated[
        Verdict | None, Meta(description="The result of the run. Once set, it does not change.")
    ] = None
    reason: Annotated[
        str, Meta(description="The reason of the current state as one CamelCase word.", max_length=128)
    ] = ""
    message: Annotated[
        str, Meta(description="A human-readable explanation of the current state.", max_length=32768)
    ] = ""
    start_time: Annotated[str | None, DATE_TIME, Meta(description="When the run started.")] = None
    completion_time: Annotated[str | None, DATE_TIME, Meta(description="When the run ended.")] = None
    duration: Annotated[str, Meta(description="The time from start to completion.", max_length=32)] = ""
    failure_reason: Annotated[
        str, Meta(description="The failure reason that the checkup reported.", max_length=32768)
    ] = ""
    results: Annotated[
        str,
        Meta(
            description="The results as the JSON text of an object; while the checkup runs, those so far.",
            max_length=2 * MAX_RESULT_BYTES,
        ),
    ] = ""
    result_map: Annotated[
        dict[str, ResultValue], Meta(description="The same results as a map.", max_length=4096)
    ] = field(default_factory=dict)
    run: Annotated[int, Meta(description="The number of the run, starting at 1.", ge=0)] = 0
    observed_rerun: Annotated[
        str,
        Meta(
            description="The last processed value of the annotation kiagnose.io/rerun.",
            max_length=LONGEST_RERUN,
        ),
    ] = ""
    job: Annotated[str, Meta(description="The Job of the run.", max_length=253)] = ""
    job_uid: Annotated[str, Meta(description="The uid of that Job.", max_length=64)] = ""
    config_map: Annotated[str, Meta(description="The ConfigMap with the results.", max_length=253)] = ""
    evidence: Annotated[
        Evidence | None,
        Meta(description="Diagnostic data of an unsuccessful run, saved before its objects are deleted."),
    ] = None
    history: Annotated[
        tuple[Run, ...], list_map("run"), Meta(description="Previous runs.", max_length=MOST_RUNS)
    ] = ()
    conditions: Conditions = ()


class Checkup(Object, frozen=True, kw_only=True):
    """A diagnostic job: its image runs once, and its results are kept in the status."""

    spec: CheckupSpec
    status: CheckupStatus = CheckupStatus()


IMMUTABLE_SPEC: Final = (
    "spec must not be changed once the checkup has started: create another Checkup, or, to run the same "
    f"again, set the annotation {RERUN} to a new value"
)

CHECKUP = CustomResource(
    resource=CHECKUPS,
    type=Checkup,
    short_names=("ckup",),
    columns=(
        Column("Verdict", ".status.verdict", description="The result of the run."),
        Column("Reason", ".status.reason", description="The reason of the result."),
        Column("Duration", ".status.duration", description="The time from start to completion."),
        AGE,
        Column("Message", ".status.message", wide=True),
        Column("Job", ".status.job", wide=True),
    ),
    selectable=(".status.verdict",),
    rules=(
        Rule(
            "has(self.spec.timeoutSeconds) || has(self.spec.timeout)",
            f"spec.timeoutSeconds is required and {TIMEOUT_RULE}",
        ),
        Rule(
            "!has(self.spec.timeoutSeconds) || !has(self.spec.timeout)"
            " || string(self.spec.timeoutSeconds) == string(self.spec.timeout)",
            "spec.timeout is the deprecated name of spec.timeoutSeconds: set only one of them",
        ),
        Rule(
            "!has(oldSelf.status) || !has(oldSelf.status.startTime) || self.spec == oldSelf.spec",
            IMMUTABLE_SPEC,
        ),
    ),
)
