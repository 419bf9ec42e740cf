"""Decides what happens to an event after a delivery attempt. Pure.

A 2xx response acknowledges the event. A status by which the sink refuses this very event makes it a dead
letter at once. Any other result is retried with exponential backoff; after the last attempt the event becomes
a dead letter. The default attempts take about one hour.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from quintet.eventing.decide.consumers import ACK_SECONDS

PROGRESS_SECONDS: Final = ACK_SECONDS / 3
"""The interval of progress reports to the server while a sink handles an event."""

PERMANENT_STATUSES: Final = frozenset({400, 410, 413, 415, 422, 431})
"""Statuses about the event itself, or about a sink that is gone for good: a retry gets the same response.

Knative retries 404, 408, 409, 429 and 5xx; Kyma retries everything. Other 4xx statuses, such as 401, 403, 404
and 405, concern the access to the sink or its route: somebody repairs that, and the event can be delivered.
"""


class DeliveryResult(NamedTuple):
    """The result of one delivery attempt."""

    status: int
    """The HTTP status; 0: there was no response."""
    problem: str = ""
    """Why there was no response."""

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


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number, backoff and timeout of delivery attempts."""

    max_attempts: int = 64
    min_backoff: float = 0.5
    max_backoff: float = 60.0
    timeout: float = 60.0
    """Seconds to wait for the response of a sink."""
    permanent: frozenset[int] = PERMANENT_STATUSES
    """Statuses after which the event is not retried."""

    def backoff(self, attempts: int) -> float:
        """Return the seconds until the next attempt."""
        return min(self.max_backoff, self.min_backoff * 2.0 ** min(attempts - 1, 32))

    def decide(self, result: DeliveryResult, attempts: int) -> Decision:
        """Return the next step after this number of attempts, counted from 1."""
        if result.is_accepted:
            return Decision(NextStep.ACKNOWLEDGE)
        if result.status in self.permanent or attempts >= self.max_attempts:
            return Decision(NextStep.DEAD_LETTER)
        return Decision(NextStep.RETRY, self.backoff(attempts))
