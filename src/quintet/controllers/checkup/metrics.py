"""Prometheus metrics of checkups."""

from prometheus_client import Counter, Gauge, Histogram

from quintet.apis.checkup import Checkup, Verdict
from quintet.apis.meta import ObjectKey
from quintet.controllers.checkup.decide.timing import parse_time

_BUCKETS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)

runs = Counter("quintet_checkup_runs", "Runs that ended, by verdict", ["verdict"])
run_seconds = Histogram("quintet_checkup_run_seconds", "From start to completion", buckets=_BUCKETS)
last_verdict = Gauge(
    "quintet_checkup_last_verdict",
    "1 for the verdict of the last run of each checkup",
    ["namespace", "name", "verdict"],
)


class LastVerdicts:
    """One series per checkup that has a verdict; it is removed with the checkup."""

    def __init__(self) -> None:
        self._known: dict[ObjectKey, Verdict] = {}

    def show(self, key: ObjectKey, verdict: Verdict) -> None:
        """Show the last verdict of a checkup."""
        if self._known.get(key) is verdict:
            return
        self.forget(key)
        self._known[key] = verdict
        last_verdict.labels(key.namespace, key.name, verdict.value).set(1)

    def forget(self, key: ObjectKey) -> None:
        """Remove the series of a deleted checkup."""
        if (known := self._known.pop(key, None)) is not None:
            last_verdict.remove(key.namespace, key.name, known.value)


def count(checkup: Checkup) -> None:
    """Count a finished run."""
    status = checkup.status
    if status.verdict is None:
        return
    runs.labels(status.verdict.value).inc()
    start, end = parse_time(status.start_time), parse_time(status.completion_time)
    if start is not None and end is not None:
        run_seconds.observe(max(0.0, (end - start).total_seconds()))
