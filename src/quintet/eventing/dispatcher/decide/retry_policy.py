"""Decides what happens to an event after a delivery attempt. Pure.

A 2xx response acknowledges the event. A status by which the sink refuses this very event makes it a dead
letter at once. Any other result is retried with exponential backoff; after the last attempt the event becomes
a dead letter. The default attempts take about one hour.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from quintet.apis.durations import seconds
from quintet.apis.meta import Struct
from quintet.apis.subscription import DeadLetterMode, DeliveryPolicy
from quintet.eventing.decide.consumers import ACK_SECONDS

PROGRESS_SECONDS: Final = ACK_SECONDS / 3
"""The interval of progress reports to the server while a sink handles an event."""

PERMANENT_STATUSES: Final = (400, 410, 413, 415, 422, 431)
"""Statuses about the event itself, or about a sink that is gone for good: a retry gets the same response.

Knative retries 404, 408, 409, 429 and 5xx; Kyma retries everything. Other 4xx statuses, such as 401, 403, 404
and 405, concern the access to the sink or its route: somebody repairs that, and the event can be delivered.
"""


_LONGEST_DATE: Final = 64


class DeliveryResult(NamedTuple):
    """The result of one delivery attempt."""

    status: int
    """The HTTP status; 0: there was no response."""
    problem: str = ""
    """Why there was no response."""
    retry_after: float = 0.0
    """How many seconds the sink asks to wait."""

    @property
    def is_accepted(self) -> bool:
        """Whether the sink has accepted the event."""
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        """The value of a metric label."""
        return str(self.status) if self.status else "none"

    def __str__(self) -> str:
        return f"status {self.status}" if self.status else self.problem


class NextStep(Enum):
    """What to do with an event next."""

    ACKNOWLEDGE = "acknowledge"
    RETRY = "retry"
    DEAD_LETTER = "dead letter"


class Decision(NamedTuple):
    """The next step and its delay in seconds."""

    step: NextStep
    delay: float = 0.0


class RetryPolicy(Struct, frozen=True):
    """Number, backoff and timeout of delivery attempts, and what happens after the last one."""

    max_attempts: int = 64
    min_backoff: float = 0.5
    max_backoff: float = 60.0
    timeout: float = 60.0
    """Seconds to wait for the response of a sink."""
    permanent: tuple[int, ...] = PERMANENT_STATUSES
    """Statuses after which the event is not retried."""
    backoff_factor: int = 2
    retry_after_max: float = 600.0
    """The longest wait that a sink can ask for."""
    keeps_dead_letters: bool = True
    """Whether an event that could not be delivered is kept."""

    def backoff(self, attempts: int) -> float:
        """Return the seconds until the next attempt."""
        return min(self.max_backoff, self.min_backoff * float(self.backoff_factor) ** min(attempts - 1, 32))

    def decide(self, result: DeliveryResult, attempts: int) -> Decision:
        """Return the next step after this number of attempts, counted from 1."""
        if result.is_accepted:
            return Decision(NextStep.ACKNOWLEDGE)
        if result.status in self.permanent or attempts >= self.max_attempts:
            return Decision(NextStep.DEAD_LETTER)
        asked = min(result.retry_after, self.retry_after_max)
        return Decision(NextStep.RETRY, max(self.backoff(attempts), asked))

    def override(self, policy: DeliveryPolicy) -> "RetryPolicy":
        """Return the policy with the fields that a Subscription sets."""
        keeps = policy.dead_letters
        given = {
            "max_attempts": policy.attempts,
            "min_backoff": _seconds(policy.backoff.min),
            "max_backoff": _seconds(policy.backoff.max),
            "backoff_factor": policy.backoff.factor,
            "timeout": _seconds(policy.timeout),
            "retry_after_max": _seconds(policy.retry_after_max),
            "permanent": policy.permanent_statuses,
            "keeps_dead_letters": None if keeps is None else keeps is DeadLetterMode.KEEP,
        }
        return msgspec.structs.replace(self, **{name: to for name, to in given.items() if to is not None})


def parse_retry_after(value: str | None, now: datetime) -> float:
    """Return the seconds that a header Retry-After asks to wait; 0 without a valid value."""
    if value is None or len(value) > _LONGEST_DATE:
        return 0.0
    if value.isascii() and value.isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
        return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())
    except (ValueError, OverflowError):
        return 0.0


def _seconds(duration: str | None) -> float | None:
    read = seconds(duration)
    return None if read is None else float(read)
