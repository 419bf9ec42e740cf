"""The contract between the runtime and a kind's controller.

A request is only a key: it says *look at this object*, never what happened to it. The
controller compares what is with what should be, acts, and says how it went:

    outcome                  what the queue does with the key
    ───────────────────────  ──────────────────────────────────────────────────────────
    Result.done()            forgets its failures; the next change brings it back
    Result.after(seconds)    forgets its failures; brings it back after the delay
    raises TerminalError     forgets it: no retry can help until the object changes
    raises anything else     brings it back after 5 ms, 10 ms, … 1000 s (with jitter),
                             or later if the API server asked for more (Retry-After)
    raises WriteFenced       the same, but it is no failure: the next leader looks at everything,
                             and if none comes, because our renewal was only late, we do

An error beats a delay: whoever raises does not also schedule. One key is never worked on
twice at once; a change that arrives during the work runs it once more afterwards.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from quintet.apis.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class Result:
    """How a reconciliation went when it did not fail."""

    delay: float | None = None

    @classmethod
    def done(cls) -> "Result":
        """Nothing left to do until something changes."""
        return cls()

    @classmethod
    def after(cls, seconds: float) -> "Result":
        """Look again after a while, or earlier if something changes."""
        return cls(delay=seconds)


class TerminalError(Exception):
    """Trying again cannot help: somebody has to change the object first."""


Reconcile = Callable[[ObjectKey], Awaitable[Result]]
"""A kind's controller, as the runtime sees it."""
