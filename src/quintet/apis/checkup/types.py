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
MOST_RUNS: Final = 100
"""Maximum of each of the two limits of the history."""
DEFAULT_RUNS: Final = 10
MOST_RETRIES: Final = 10
KEPT_RESULT_LENGTH: Final = 128
KEPT_RESULT_BYTES: Final = 2048
"""Maximum size of the results of one run in the history, with their names."""
LONGEST_RERUN: Final = 4096
LONGEST_DEADLINE: Final = 2**31 - 1
SUCCEEDED: Final = "The checkup finished successfully"

_NUMBER = f"^([1-9][0-9]{{0,3}}|[1-7][0-9]{{4}}|8[0-5][0-9]{{3}}|86[0-3][0-9]{{2}}|{LONGEST_TIMEOUT})$"
TIMEOUT_RULE: Final = f"must be a number of seconds from 1 to {LONGEST_TIMEOUT}"
_IN_BOUNDS = f"type(self) == int ? self >= 1 && self <= {LONGEST_TIMEOUT} : self.matches('{_NUMBER}')"
Seconds = Annotated[int | str, Rule(_IN_BOUNDS, TIMEOUT_RULE)]


class Phase(StrEnum):
    """The phase of a run."""

    SCHEDULED = "Scheduled"
    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RETRYING = "Retrying"
    FINISHED = "Finished"


class Verdict(StrEnum):
    """The result of a run."""

    PASSED = "Passed"
    FLAKY = "Flaky"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    INFRA_ERROR = "InfraError"
    INVALID = "Invalid"
    CANCELLED = "Cancelled"


class ConcurrencyPolicy(StrEnum):
    """What happens when a run is due while another one goes on."""

    FORBID = "Forbid"
    REPLACE = "Replace"


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
    retries: Annotated[
        int,
        Meta(
            description="How many times to run again after a run that failed, timed out or could not run. A "
            "run that then passes has the verdict Flaky. The default is 0.",
            ge=0,
            le=MOST_RETRIES,
        ),
    ] = 0
    ttl_seconds_after_finished: (
        Annotated[
            int,
            Meta(
                description="How long after its end the Checkup is deleted. Without it, it stays. Not for "
                "Checkups with a schedule.",
                ge=0,
                le=LONGEST_DEADLINE,
            ),
        ]
        | None
    ) = None
    schedule: Annotated[
        str,
        Meta(
            description="When to run, in the syntax of a CronJob, such as '*/15 * * * *' or '@daily'. "
            "Without it, the checkup runs once, immediately.",
            max_length=128,
        ),
    ] = ""
    time_zone: Annotated[
        str,
        Meta(
            description="The time zone of the schedule, such as Europe/Berlin. The default is UTC.",
            max_length=64,
        ),
    ] = ""
    concurrency_policy: Annotated[
        ConcurrencyPolicy,
        Meta(
            description="What happens when a run is due while another one goes on. Forbid, the default: it "
            "waits for the end of that run. Replace: that run is cancelled."
        ),
    ] = ConcurrencyPolicy.FORBID
    starting_deadline_seconds: (
        Annotated[
            int,
            Meta(
                description="How late a scheduled run may start. Without it, the last missed run is made up "
                "for however late it is.",
                ge=1,
                le=LONGEST_DEADLINE,
            ),
        ]
        | None
    ) = None
    suspend: Annotated[
        bool, Meta(description="Start no scheduled runs. A run that has started continues.")
    ] = False
    successful_runs_history_limit: Annotated[
        int, Meta(description="How many passed runs the history keeps, by default 10.", ge=0, le=MOST_RUNS)
    ] = DEFAULT_RUNS
    failed_runs_history_limit: Annotated[
        int, Meta(description="How many other runs the history keeps, by default 10.", ge=0, le=MOST_RUNS)
    ] = DEFAULT_RUNS

    @property
    def has_ttl(self) -> bool:
        """Return whether the Checkup is deleted some time after its end."""
        return self.ttl_seconds_after_finished is not None

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
    scheduled_time: Annotated[
        str | None, DATE_TIME, Meta(description="The time of the schedule that the run was due at.")
    ] = None
    attempt: Annotated[
        int, Meta(description="The number of the attempt, if it was not the first one.", ge=0)
    ] = 0
    results: Annotated[
        dict[str, Annotated[str, Meta(max_length=KEPT_RESULT_LENGTH)]],
        Meta(
            description=f"Results of at most {KEPT_RESULT_LENGTH} characters, up to {KEPT_RESULT_BYTES} "
            "bytes in total.",
            max_length=KEPT_RESULT_BYTES // 2,
        ),
    ] = field(default_factory=dict)
    results_omitted: Annotated[
        int, Meta(description="How many results of the run are not in the history.", ge=0)
    ] = 0


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
        tuple[Run, ...],
        list_map("run"),
        Meta(description="Previous runs, the last one first.", max_length=2 * MOST_RUNS),
    ] = ()
    next_run_time: Annotated[
        str | None, DATE_TIME, Meta(description="The time of the schedule that the checkup waits for.")
    ] = None
    scheduled_time: Annotated[
        str | None, DATE_TIME, Meta(description="The time of the schedule that this run was due at.")
    ] = None
    attempt: Annotated[
        int, Meta(description="The number of this attempt, if it is not the first one.", ge=0)
    ] = 0
    missed_runs: Annotated[
        int, Meta(description="How many times of the schedule have passed without a run.", ge=0)
    ] = 0
    conditions: Conditions = ()


class Checkup(Object, frozen=True, kw_only=True):
    """A diagnostic job: its image runs once or on a schedule; its results are kept in the status."""

    spec: CheckupSpec
    status: CheckupStatus = CheckupStatus()


IMMUTABLE_SPEC: Final = (
    "spec must not be changed once the checkup has started, except for its schedule: create another Checkup, "
    f"or, to run the same again, set the annotation {RERUN} to a new value"
)
SCHEDULE_FIELDS: Final = ("timeZone", "concurrencyPolicy", "startingDeadlineSeconds", "suspend")
"""The fields that mean nothing without a schedule."""
MUTABLE_FIELDS: Final = (
    "schedule",
    *SCHEDULE_FIELDS,
    "successfulRunsHistoryLimit",
    "failedRunsHistoryLimit",
    "ttlSecondsAfterFinished",
)
"""The fields that may be changed after the checkup has started: they do not change what runs."""


TTL_RULE: Final = (
    "spec.ttlSecondsAfterFinished must not be set with spec.schedule: such a Checkup never finishes"
)


def _is_unchanged(name: str) -> str:
    return f"(has(self.spec.{name}) ? has(oldSelf.spec.{name}) && self.spec.{name} == oldSelf.spec.{name}" + (
        f" : !has(oldSelf.spec.{name}))"
    )


# CEL cannot compare params while the schedule changes: their schema has no type. The webhook can.
_RUNS_THE_SAME = " && ".join(
    (
        "self.spec.image == oldSelf.spec.image",
        "self.spec.serviceAccountName == oldSelf.spec.serviceAccountName",
        _is_unchanged("timeoutSeconds"),
        _is_unchanged("timeout"),
        _is_unchanged("template"),
        _is_unchanged("retries"),
        f"!({' && '.join(map(_is_unchanged, MUTABLE_FIELDS))})",
    )
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
        Column("Next", ".status.nextRunTime", wide=True, description="When the schedule runs it again."),
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
            "!has(oldSelf.status) || !has(oldSelf.status.startTime) || self.spec == oldSelf.spec"
            f" || {_RUNS_THE_SAME}",
            IMMUTABLE_SPEC,
        ),
        *(
            Rule(
                f"!has(self.spec.{name}) || has(self.spec.schedule)",
                f"spec.{name} must not be set without spec.schedule",
            )
            for name in SCHEDULE_FIELDS
        ),
        Rule("!has(self.spec.ttlSecondsAfterFinished) || !has(self.spec.schedule)", TTL_RULE),
    ),
)
