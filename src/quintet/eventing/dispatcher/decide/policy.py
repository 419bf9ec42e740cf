"""What becomes of an event after a try to deliver it. Pure.

A sink that answers with 2xx has it. Anything else is tried again, ever less often, until the last
try; then the event goes to the dead letters. Together the tries of the default take about an hour.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from quintet.eventing.decide.consumers import ACK_SECONDS

SIGN_OF_LIFE_SECONDS: Final = ACK_SECONDS / 3
"""How often the server hears that a slow sink still works on an event."""


class Answer(NamedTuple):
    """What came of one try."""

    status: int
    """The HTTP status; 0: there was no answer."""
    problem: str = ""
    """Why there was none."""

    @property
    def taken(self) -> bool:
        """Whether the sink has the event."""
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        """For metrics: few values."""
        return str(self.status) if self.status else "none"

    def __str__(self) -> str:
        return f"answer {self.status}" if self.status else self.problem


class Step(Enum):
    """What to do with an event next."""

    ACKNOWLEDGE = "acknowledge"
    TRY_AGAIN = "try again"
    GIVE_UP = "give up"


class Decision(NamedTuple):
    """The next step, and after how many seconds."""

    step: Step
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long a sink is tried."""

    most_tries: int = 64
    first_retry: float = 0.5
    last_retry: float = 60.0
    answer: float = 60.0
    """Seconds that a sink may take for its answer."""

    def delay(self, tries: int) -> float:
        """Seconds until the next try, after so many."""
        return min(self.last_retry, self.first_retry * 2.0 ** min(tries - 1, 32))

    def after(self, answer: Answer, tries: int) -> Decision:
        """What to do after the try of this number, counted from 1."""
        if answer.taken:
            return Decision(Step.ACKNOWLEDGE)
        if tries >= self.most_tries:
            return Decision(Step.GIVE_UP)
        return Decision(Step.TRY_AGAIN, self.delay(tries))
