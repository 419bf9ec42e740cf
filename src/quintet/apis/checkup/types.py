"""The fields of a Checkup, with their bounds, and its declaration to the API server."""

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
"""Annotation: a value that was not seen before starts a new run, once the present one has ended."""
CANCEL: Final = "kiagnose.io/cancel"
"""Annotation: `true` ends the run, and keeps another from starting for as long as it is there."""

LONGEST_TIMEOUT: Final = 86_400
MAX_RESULT_BYTES: Final = 256 * 1024
"""Of the results as JSON text in the stored object: it holds them twice, and shares 1.5 MiB with the rest."""
MOST_RUNS: Final = 10
LONGEST_RERUN: Final = 4096
SUCCEEDED: Final = "The checkup finished successfully"

_NUMBER = f"^([1-9][0-9]{{0,3}}|[1-7][0-9]{{4}}|8[0-5][0-9]{{3}}|86[0-3][0-9]{{2}}|{LONGEST_TIMEOUT})$"
TIMEOUT_RULE: Final = f"must be a number of seconds from 1 to {LONGEST_TIMEOUT}"
_IN_BOUNDS = f"type(self) == int ? self >= 1 && self <= {LONGEST_TIMEOUT} : self.matches('{_NUMBER}')"
Seconds = Annotated[int | str, Rule(_IN_BOUNDS, TIMEOUT_RULE)]


class Phase(StrEnum):
    """How far a run has come."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    FINISHED = "Finished"


class Verdict(StrEnum):
    """What came of a run, and whose fault it is."""

    PASSED = "Passed"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    INFRA_ERROR = "InfraError"
    INVALID = "Invalid"
    CANCELLED = "Cancelled"


LabelValue = Annotated[str, Meta(max_length=63)]
AnnotationValue = Annotated[str, Meta(max_length=65536)]
ResultValue = Annotated[str, Meta(max_length=MAX_RESULT_BYTES)]


class OverlayMetadata(Struct, frozen=True):
    """Labels and annotations for the pod."""

    labels: Annotated[
        dict[str, LabelValue], Meta(description="Added to the labels of the pod.", max_length=64)
    ] = field(default_factory=dict)
    annotations: Annotated[
        dict[str, AnnotationValue], Meta(description="Added to the annotations of the pod.", max_length=64)
    ] = field(default_factory=dict)


class Overlay(Struct, frozen=True):
    """Anything about the pod that has no field of its own."""

    metadata: Annotated[OverlayMetadata, Meta(description="Labels and annotations for the pod.")] = (
        OverlayMetadata()
    )
    spec: Annotated[
        JsonObject,
        FREE_FORM,
        Meta(
            description="Laid over the pod spec: lists of named things (containers, volumes, env) merge by "
            "name, other lists are replaced. The container is called 'checkup'. Its image, the "
            "ServiceAccount and the variables of the checkup have fields of their own and are refused here."
        ),
    ] = field(default_factory=dict)


class CheckupSpec(Struct, frozen=True):
    """What to run, as whom, with what, and for how long."""

    image: Annotated[str, Meta(description="The image of the checkup.", min_length=1, max_length=512)]
    service_account_name: Annotated[
        str,
        Meta(
            description="The ServiceAccount that the checkup runs as, in the same namespace. It is allowed "
            "to write the results of this checkup and gets no other right.",
            min_length=1,
            max_length=253,
        ),
    ]
    timeout_seconds: Annotated[
        Seconds | None,
        Meta(
            description="How long the checkup may run, in seconds, from 1 to 86400; a number, or a text that "
            "holds one. To get its pod running may take as long again, and at least 30 seconds."
        ),
    ] = None
    timeout: Annotated[
        Seconds | None,
        Meta(description="The old name of timeoutSeconds. It is rewritten when the object is stored."),
    ] = None
    params: Annotated[
        str | dict[str, Any],
        FREE_FORM,
        Meta(
            description="Parameters of the checkup: the JSON text of an object with string values, or "
            "such an object itself. The checkup finds them as environment variables, with their names in "
            "upper case, and as spec.param.NAME in its ConfigMap."
        ),
    ] = ""
    template: Annotated[Overlay, Meta(description="Laid over the pod template.")] = Overlay()

    @property
    def seconds(self) -> int:
        """The timeout, under whichever name it was given."""
        given = self.timeout_seconds if self.timeout_seconds is not None else self.timeout
        return int(given) if given is not None else 0


class Run(Struct, frozen=True):
    """A run that is over."""

    run: Annotated[int, Meta(description="Its number, from 1.", ge=1)]
    verdict: Annotated[Verdict, Meta(description="What came of it.")]
    reason: Annotated[str, Meta(description="Why, in one word.", max_length=128)] = ""
    message: Annotated[str, Meta(description="Why, in a sentence; long ones are cut.", max_length=1024)] = ""
    start_time: Annotated[str | None, DATE_TIME, Meta(description="When it started.")] = None
    completion_time: Annotated[str | None, DATE_TIME, Meta(description="When it ended.")] = None


class CheckupStatus(Struct, frozen=True):
    """What became of it."""

    observed_generation: Annotated[int, Meta(description="The generation that was acted on.", ge=0)] = 0
    phase: Annotated[Phase | None, Meta(description="How far the run has come.")] = None
    verdict: Annotated[
        Verdict | None, Meta(description="What came of the run. Once it is there, it stays as it is.")
    ] = None
    reason: Annotated[str, Meta(description="Why it is as it is, in one word.", max_length=128)] = ""
    message: Annotated[str, Meta(description="Why it is as it is, for people.", max_length=32768)] = ""
    start_time: Annotated[str | None, DATE_TIME, Meta(description="When the run started.")] = None
    completion_time: Annotated[str | None, DATE_TIME, Meta(description="When the run ended.")] = None
    duration: Annotated[str, Meta(description="From start to completion.", max_length=32)] = ""
    failure_reason: Annotated[
        str, Meta(description="What the checkup itself says about its failure.", max_length=32768)
    ] = ""
    results: Annotated[
        str,
        Meta(
            description="The results as the JSON text of an object. While the checkup runs, what it has "
            "written so far.",
            max_length=2 * MAX_RESULT_BYTES,
        ),
    ] = ""
    result_map: Annotated[
        dict[str, ResultValue], Meta(description="The same results as a map.", max_length=4096)
    ] = field(default_factory=dict)
    run: Annotated[int, Meta(description="The number of the run, from 1.", ge=0)] = 0
    observed_rerun: Annotated[
        str, Meta(description="The value of kiagnose.io/rerun that was acted on.", max_length=LONGEST_RERUN)
    ] = ""
    job: Annotated[str, Meta(description="The Job of the run.", max_length=253)] = ""
    job_uid: Annotated[str, Meta(description="The uid of that Job.", max_length=64)] = ""
    config_map: Annotated[str, Meta(description="The ConfigMap with the results.", max_length=253)] = ""
    evidence: Annotated[
        Evidence | None,
        Meta(
            description="What was there to see when the run ended badly, saved before anything was removed."
        ),
    ] = None
    history: Annotated[
        tuple[Run, ...], list_map("run"), Meta(description="The runs before this one.", max_length=MOST_RUNS)
    ] = ()
    conditions: Conditions = ()


class Checkup(Object, frozen=True, kw_only=True):
    """A diagnostic job: its image runs once, and what it found is kept here."""

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
        Column("Verdict", ".status.verdict", description="What came of the run."),
        Column("Reason", ".status.reason", description="Why it is as it is."),
        Column("Duration", ".status.duration", description="From start to completion."),
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
            "spec.timeout is the old name of spec.timeoutSeconds: give one of them only",
        ),
        Rule(
            "!has(oldSelf.status) || !has(oldSelf.status.startTime) || self.spec == oldSelf.spec",
            IMMUTABLE_SPEC,
        ),
    ),
)
