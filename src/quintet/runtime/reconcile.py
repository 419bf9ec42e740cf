"""The contract between the runtime and the controller of a kind.

A request is only a key: it names the object to reconcile, never what happened to it. The
controller compares the current state with the desired state, acts, and returns or raises:

    outcome                  what the queue does with the key
    ───────────────────────  ──────────────────────────────────────────────────────────
    Result.done()            resets its failures; the next change queues it again
    Result.after(seconds)    resets its failures; queues it again after the delay
    raises TerminalError     resets its failures: no retry can help until the object changes
    raises anything else     queues it again after 5 ms, 10 ms, … 1000 s (with jitter),
                             or later if the API server asked for more (Retry-After)
    raises WriteFenced       the same, but does not count as a failure: the next leader reconciles
                             everything, and if our lease renewal was only late, we retry

An error takes precedence over a delay. No two workers reconcile the same key at once; a change that
arrives during a reconcile queues the key once more.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quintet.apis.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class Result:
    """When to reconcile a key again after a reconcile that did not fail."""

    delay: float | None = None

    @classmethod
    def done(cls) -> "Result":
        """Return a result that waits for the next change."""
        return cls()

    @classmethod
    def after(cls, seconds: float) -> "Result":
        """Return a result that requeues the key after a delay, or earlier if something changes."""
        return cls(delay=seconds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a kind's reconcile of one object has found."""

    status: Any = None
    """The new status, without times and generations; None keeps the stored status."""
    requeue_after: float | None = None
    """Seconds until the next reconcile if nothing changes; None waits for a change."""
    failures: Sequence[Exception] = ()
    """Errors to raise once the status is written, so that the queue retries with back-off."""


class TerminalError(Exception):
    """An error that no retry can fix: somebody has to change the object first."""


class ObjectDeleted(Exception):
    """The object no longer exists: the reconcile ends, and the watch will report the deletion."""


Reconcile = Callable[[ObjectKey], Awaitable[Result]]
"""A function that reconciles one key."""
