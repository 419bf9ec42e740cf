"""The delivery policy of a Subscription: types and validation. Pure."""

from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta

from quintet.apis import durations
from quintet.apis.fields import FieldErrors, FieldPath
from quintet.apis.markers import ATOMIC
from quintet.apis.meta import Struct

MOST_ATTEMPTS: Final = 10_000
LARGEST_FACTOR: Final = 10
MOST_STATUSES: Final = 32
LOWEST_STATUS, HIGHEST_STATUS = 300, 599
_LONGEST_DURATION: Final = 32
_SHORTEST: Final = {"timeout": "100ms", "backoff.min": "10ms", "backoff.max": "10ms", "retryAfterMax": "0s"}
_LONGEST: Final = {"timeout": "10m", "backoff.min": "1h", "backoff.max": "24h", "retryAfterMax": "24h"}

_Duration = Annotated[str, Meta(max_length=_LONGEST_DURATION, pattern=durations.PATTERN)]


class DeadLetterMode(StrEnum):
    """What happens to an event that could not be delivered."""

    KEEP = "Keep"
    DROP = "Drop"


class Backoff(Struct, frozen=True):
    """How long an event waits between two attempts."""

    min: Annotated[
        _Duration | None,
        Meta(description="The wait after the first attempt, from 10ms to 1h, such as 500ms."),
    ] = None
    max: Annotated[_Duration | None, Meta(description="The longest wait, from 10ms to 24h, such as 1m.")] = (
        None
    )
    factor: Annotated[
        Annotated[int, Meta(ge=1, le=LARGEST_FACTOR)] | None,
        Meta(description="How many times longer each wait is than the one before, from 1 to 10."),
    ] = None


class DeliveryPolicy(Struct, frozen=True):
    """How events are delivered; a field that is not set has the value of the backend."""

    attempts: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)] | None,
        Meta(description="The number of attempts to deliver an event, from 1 to 10000."),
    ] = None
    timeout: Annotated[
        _Duration | None, Meta(description="How long the sink may take to respond, from 100ms to 10m.")
    ] = None
    backoff: Annotated[Backoff, Meta(description="The waits between attempts.")] = Backoff()
    retry_after_max: Annotated[
        _Duration | None,
        Meta(
            description="The longest wait that a sink can ask for by the header Retry-After, up to 24h. "
            "With 0s the header is ignored."
        ),
    ] = None
    permanent_statuses: (
        Annotated[
            tuple[Annotated[int, Meta(ge=LOWEST_STATUS, le=HIGHEST_STATUS)], ...],
            ATOMIC,
            Meta(
                description="The statuses, from 300 to 599, after which an event is not tried again.",
                max_length=MOST_STATUSES,
            ),
        ]
        | None
    ) = None
    dead_letters: Annotated[
        DeadLetterMode | None,
        Meta(description="Keep stores events that could not be delivered; Drop deletes them."),
    ] = None


def check_delivery(errors: FieldErrors, path: FieldPath, delivery: Any) -> None:
    """Add the errors of a delivery policy."""
    if delivery is None:
        return
    if not isinstance(delivery, dict):
        errors.type_invalid(path, delivery, "object")
        return
    _check_number(errors, path.child("attempts"), delivery.get("attempts"), MOST_ATTEMPTS)
    _check_duration(errors, path.child("timeout"), "timeout", delivery.get("timeout"))
    _check_duration(errors, path.child("retryAfterMax"), "retryAfterMax", delivery.get("retryAfterMax"))
    _check_backoff(errors, path.child("backoff"), delivery.get("backoff"))
    _check_statuses(errors, path.child("permanentStatuses"), delivery.get("permanentStatuses"))
    mode = delivery.get("deadLetters")
    if mode is not None and mode not in tuple(DeadLetterMode):
        errors.not_supported(path.child("deadLetters"), str(mode), tuple(DeadLetterMode))


def _check_backoff(errors: FieldErrors, path: FieldPath, backoff: Any) -> None:
    if backoff is None:
        return
    if not isinstance(backoff, dict):
        errors.type_invalid(path, backoff, "object")
        return
    for name in ("min", "max"):
        _check_duration(errors, path.child(name), f"backoff.{name}", backoff.get(name))
    _check_number(errors, path.child("factor"), backoff.get("factor"), LARGEST_FACTOR)
    shortest, longest = durations.seconds(backoff.get("min")), durations.seconds(backoff.get("max"))
    if shortest is not None and longest is not None and shortest > longest:
        errors.invalid(
            path.child("max"), backoff["max"], f"must not be less than min, which is {backoff['min']}"
        )


def _check_statuses(errors: FieldErrors, path: FieldPath, statuses: Any) -> None:
    if statuses is None:
        return
    if not isinstance(statuses, list | tuple):
        errors.type_invalid(path, statuses, "list")
        return
    if len(statuses) > MOST_STATUSES:
        errors.too_many(path, len(statuses), MOST_STATUSES)
    for index, status in enumerate(statuses):
        if not _is_whole(status) or not LOWEST_STATUS <= status <= HIGHEST_STATUS:
            errors.invalid(
                path.index(index), status, f"must be a number from {LOWEST_STATUS} to {HIGHEST_STATUS}"
            )
        elif status in statuses[:index]:
            errors.duplicate(path.index(index), status)


def _check_number(errors: FieldErrors, path: FieldPath, number: Any, highest: int) -> None:
    if number is not None and not (_is_whole(number) and 1 <= number <= highest):
        errors.invalid(path, number, f"must be a number from 1 to {highest}")


def _check_duration(errors: FieldErrors, path: FieldPath, name: str, written: Any) -> None:
    if written is None:
        return
    shortest, longest = durations.seconds(_SHORTEST[name]), durations.seconds(_LONGEST[name])
    read = durations.seconds(written)
    if read is None or len(written) > _LONGEST_DURATION:
        errors.invalid(path, written, "must be a duration such as 500ms, 5s or 1m30s")
    elif shortest is not None and longest is not None and not shortest <= read <= longest:
        errors.invalid(path, written, f"must be from {_SHORTEST[name]} to {_LONGEST[name]}")


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
