"""Whether the API server accepts our credentials."""

import logging

from quintet.clock import Clock
from quintet.observe import metrics

log = logging.getLogger(__name__)


class Identity:
    """Records rejections of our credentials (401): a token that is renewed in time is not worth a report."""

    GRACE_SECONDS = 15.0

    def __init__(self, source: str, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._rejected_since: float | None = None
        self._reported = False

    def accept(self) -> None:
        """Record a response other than 401."""
        if self._rejected_since is None:
            return
        self._rejected_since = None
        if self._reported:
            self._reported = False
            metrics.identity_rejected.set(0)
            log.info("The API server accepts our credentials again", extra={"source": self._source})

    def reject(self) -> None:
        """Record a 401."""
        if self._rejected_since is None:
            self._rejected_since = self._clock.monotonic()
        if not self._reported and (problem := self.problem()) is not None:
            self._reported = True
            metrics.identity_rejected.set(1)
            log.error("The API server rejects our credentials", extra={"error": problem})

    def problem(self) -> str | None:
        """Return a message if only 401 was received for some time."""
        if self._rejected_since is None:
            return None
        seconds = self._clock.monotonic() - self._rejected_since
        if seconds < self.GRACE_SECONDS:
            return None
        return (
            f"the API server has rejected our credentials for {seconds:.0f} s (401): the ServiceAccount was "
            f"probably deleted or recreated, or the credentials in {self._source} have expired. New ones in "
            "the same place are used at once; if none arrive in a pod, delete the pod"
        )
